"""The options of `spark-submit` as the `spark` of a job file.

Invariant: an option means what it means for spark-submit, or is refused by name; memory is that of a JVM's heap, so a
task gets more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gosched.config.errors import ConfigError
from gosched.config.jobs.spark_memory import jvm_mib, least_memory_mib, memory_mib
from gosched.integrations.spark.properties import read_properties

#: Options whose values are settings, too.
AS_CONF: Mapping[str, str] = {
    "jars": "spark.jars",
    "packages": "spark.jars.packages",
    "exclude-packages": "spark.jars.excludes",
    "repositories": "spark.jars.repositories",
    "py-files": "spark.submit.pyFiles",
    "files": "spark.files",
    "archives": "spark.archives",
    "driver-java-options": "spark.driver.extraJavaOptions",
    "driver-library-path": "spark.driver.extraLibraryPath",
    "driver-class-path": "spark.driver.extraClassPath",
}
#: Options that have an own place in a job file, by the setting that says the same; the option goes before it.
AS_SETTING: Mapping[str, str] = {
    "name": "spark.app.name",
    "driver-memory": "spark.driver.memory",
    "driver-cores": "spark.driver.cores",
    "executor-memory": "spark.executor.memory",
    "executor-cores": "spark.executor.cores",
    "num-executors": "spark.executor.instances",
    "total-executor-cores": "spark.cores.max",
}
#: Options that are refused, and what to do in their place.
REFUSED: Mapping[str, str] = {
    "proxy-user": "the job is yours: log in as the user whom it is for",
    "principal": "give the driver a ticket through a secret of your tenant (goschedctl secret set)",
    "keytab": "give the driver a ticket through a secret of your tenant (goschedctl secret set)",
    "kill": "goschedctl job cancel JOB",
    "status": "goschedctl job show JOB",
}
#: Beginnings of settings that would make an application wait or fail, and what to do in their place.
REFUSED_CONF: Mapping[str, str] = {
    "spark.executor.resource.": "ask for GPUs in a job file: spark.executors.resources.gpu",
    "spark.driver.resource.": "ask for GPUs in a job file: spark.driver.gpu",
    "spark.yarn.": "is of YARN",
    "spark.kubernetes.": "is of Spark on Kubernetes",
}
SCHEMES = "gosched://"

_DYNAMIC = "spark.dynamicAllocation."
_NUMBERS = (
    "spark.executor.instances",
    *[f"{_DYNAMIC}{key}" for key in ("enabled", "minExecutors", "maxExecutors", "initialExecutors")],
)
_DEFAULT_HEAP = "1g"
_DEFAULT_EXECUTORS = 2  # as on YARN
_SUPERVISED_RETRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What stands on a command line of spark-submit."""

    #: A path on the nodes, or an address that Spark can fetch.
    app: str
    args: tuple[str, ...] = ()
    #: What makes the job's name another one than those of the application's other runs.
    suffix: str
    #: Values of options, by name; those without a value are in `flags`.
    options: Mapping[str, str]
    flags: frozenset[str] = frozenset()
    #: KEY=VALUE, the last one of a key counts.
    conf: tuple[str, ...] = ()
    #: The text of --properties-file.
    properties: str = ""


def endpoints_of(master: str) -> str:
    """Return the endpoints that `--master gosched://HOST:PORT,...` names; empty: those of the context. Raises
    ConfigError."""
    if not master.startswith(SCHEMES):
        raise ConfigError(
            f"--master: expected {SCHEMES}HOST:PORT,... or {SCHEMES} for the cluster of your context, got {master!r}; "
            "other masters are what Spark's own spark-submit is for"
        )
    return master.removeprefix(SCHEMES).strip("/")


def job_document(given: Submission) -> dict[str, Any]:
    """Return the job file, as data. Raises ConfigError."""
    found = read_properties(given.properties)
    # spark-submit leaves out others too, with a warning.
    conf = {key: value for key, value in found.items() if key.startswith("spark.")} | _pairs(given.conf)
    conf |= {AS_CONF[name]: value for name, value in given.options.items() if name in AS_CONF}
    conf |= {AS_SETTING[name]: value for name, value in given.options.items() if name in AS_SETTING}
    for key in conf:
        if advice := next((advice for prefix, advice in REFUSED_CONF.items() if key.startswith(prefix)), ""):
            raise ConfigError(f"--conf {key}: not supported: {advice}")
    each = _count(conf, "spark.executor.cores", 1)
    total = _count(conf, "spark.cores.max", 0)
    if 0 < total < each:
        raise ConfigError(f"--total-executor-cores: {total} cores hold no executor of {each} (--executor-cores)")
    asked = _count(conf, "spark.executor.instances", 0)
    bounds = _dynamic(conf, asked)
    executors = bounds[1] if bounds else asked or total // each or _DEFAULT_EXECUTORS
    spark: dict[str, Any] = {
        "app": given.app,
        "args": list(given.args),
        "driver": _resources(conf, "driver", _count(conf, "spark.driver.cores", 1)),
        "executors": {"count": executors, "resources": _resources(conf, "executor", each)},
    }
    if "class" in given.options:
        spark["class"] = given.options["class"]
    elif given.app.endswith(".jar"):
        raise ConfigError(f"{given.app} is a jar: name its main class with --class")
    # Those of the number of executors are gosched's: what they say is in the task groups.
    spark["conf"] = {key: value for key, value in conf.items() if key not in _NUMBERS}
    name = conf.get("spark.app.name") or given.app.rpartition("/")[2].partition(".")[0]
    job: dict[str, Any] = {"name": f"{_word(name)}-{given.suffix}", "spark": spark}
    if bounds:
        least, most, initial = bounds
        job["gang"] = {"min": _percent(least, most), "initial": 1 + initial}
    if queue := given.options.get("queue"):
        job["queue"] = queue
    if "supervise" in given.flags:
        job["retry"] = {"max": _SUPERVISED_RETRIES, "when": ["node_lost", "preempted", "failed"]}
    return job


def _dynamic(conf: Mapping[str, str], asked: int) -> tuple[int, int, int] | None:
    """Return how many executors there are at least, at most and at first; None: their number is fixed. `asked`: by
    --num-executors; 0: it was not given. Raises ConfigError."""
    if conf.get(f"{_DYNAMIC}enabled", "false") != "true":
        return None
    conf = {key: value for key, value in conf.items() if value != "0"}  # here one executor starts with the driver
    most = _count(conf, f"{_DYNAMIC}maxExecutors", 0)
    if "spark.cores.max" in conf:
        raise ConfigError(f"--total-executor-cores: {_DYNAMIC}maxExecutors says how many executors the job may have")
    if not most:
        raise ConfigError(f"--conf {_DYNAMIC}enabled: give {_DYNAMIC}maxExecutors too, the most that the job may have")
    least = _count(conf, f"{_DYNAMIC}minExecutors", -(-most // 100))
    initial = max(least, asked, _count(conf, f"{_DYNAMIC}initialExecutors", least))
    if initial > most:
        raise ConfigError(f"--conf {_DYNAMIC}maxExecutors: {most} is less than the {initial} at first, or at least")
    return least, most, initial


def _percent(least: int, most: int) -> str:
    """Return the `gang.min` that is so many of `most` executors. Raises ConfigError."""
    possible = {-(-most * percent // 100): percent for percent in range(100, 0, -1)}
    if least in possible:
        return f"{possible[least]}%"
    near = sorted(possible, key=lambda number: abs(number - least))[:2]
    raise ConfigError(
        f"--conf {_DYNAMIC}minExecutors: {least} of {most} is no whole percent: take {min(near)} or {max(near)}"
    )


def _pairs(items: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key.startswith("spark."):
            raise ConfigError(f"--conf: expected spark.KEY=VALUE, got {item!r}")
        found[key] = value
    return found


def _count(conf: Mapping[str, str], key: str, default: int) -> int:
    if key not in conf:
        return default
    if not conf[key].isdecimal() or not 0 < int(conf[key]) < 1 << 31:
        raise ConfigError(f"{_option_of(key)}: expected a number above 0, got {conf[key]!r}")
    return int(conf[key])


def _resources(conf: dict[str, str], role: str, cores: int) -> dict[str, Any]:
    """Return what the task of a JVM requests, and set its heap."""
    key = f"spark.{role}.memory"
    heap = _mib(conf, key, _DEFAULT_HEAP)
    conf[key] = f"{heap}m"
    memory = memory_mib(heap)
    overhead = f"{key}Overhead"
    if overhead in conf:
        memory += max(0, _mib(conf, overhead, "") - (memory - heap))
    return {"cpu": cores, "memory": f"{max(memory, least_memory_mib())}Mi"}


def _mib(conf: Mapping[str, str], key: str, default: str) -> int:
    found = jvm_mib(conf.get(key, default))
    if found < 1:
        raise ConfigError(f"{_option_of(key)}: expected an amount such as 4g or 512m, got {conf[key]!r}")
    return int(found)


def _option_of(key: str) -> str:
    return next((f"--{option}" for option, setting in AS_SETTING.items() if setting == key), f"--conf {key}")


def _word(name: str) -> str:
    """Return a name of Spark, which may hold anything, as that of a job."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:40] or "spark"
