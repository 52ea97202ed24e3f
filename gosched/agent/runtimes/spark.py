"""The spark runtime: spark-submit, and the two roles of an application that is a gang of its own.

Invariant: the Spark and the Java that are used are those of the host, and all that a JVM writes is in the task's own
working directory.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from gosched.agent.acting import as_account
from gosched.agent.runtimes import spark_role
from gosched.agent.runtimes.interface import CannotRun, Place
from gosched.agent.runtimes.process import DEFAULT_UMASK
from gosched.agent.supervisor.launch import Account, Launch
from gosched.config.jobs.spark_memory import DAEMON_MIB, cores, heap_mib
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason
from gosched.core.spec.task_group import SPARK_DRIVER, SPARK_WORKER

_MIB = 1 << 20
_PROGRAMS = ("spark-submit", "spark-class")


class Spark:
    """The spark runtime. `spark_home`: where Spark is; empty: where SPARK_HOME says, else pyspark, else by the PATH."""

    def __init__(self, spark_home: str) -> None:
        self._wanted = spark_home

    def problem(self) -> str:
        if _home(self._wanted) is None:
            return (
                f"{self._wanted} holds no Spark: it needs bin/spark-submit, bin/spark-class and jars"
                if self._wanted
                else "no Spark is installed: install Spark or pyspark, or name its directory with spark_home"
            )
        return "" if _java() is not None else "no Java is installed: Spark needs java in the PATH, or JAVA_HOME"

    def launch(self, order: TaskOrder, place: Place, env: dict[str, str]) -> Launch:
        home, java = _home(self._wanted), _java()
        if home is None or java is None:
            why = f"this node cannot run spark tasks: {self.problem()}"
            raise CannotRun(Reason.RUNTIME_NOT_SUPPORTED, why, blames_node=True)
        isolation = order.isolation
        scratch = place.work / "spark"
        _make_scratch(scratch, place.account)
        return Launch(
            command=_command(order, home, scratch, env),
            env=_environment(order, home, java, scratch, env),
            cwd=str(place.work / order.working_dir),
            cgroup=str(place.cgroup or ""),
            account=place.account,
            umask=DEFAULT_UMASK if isolation.umask is None else isolation.umask,
            rlimits={limit.name: (limit.soft, limit.hard) for limit in isolation.rlimits},
            variables=place.secrets.variables if place.secrets is not None else "",
            view=place.view,
        )


def _make_scratch(scratch: Path, account: Account | None) -> None:
    """Make it as the task's user, which owns the working directory: whatever stands there by now, it gains
    nothing."""
    try:
        with as_account(account):
            scratch.mkdir(exist_ok=True)
    except OSError as error:
        raise CannotRun(
            Reason.BAD_WORKING_DIR, f"cannot make {scratch.name} in its working directory: {error}"
        ) from error


def _command(order: TaskOrder, home: Path, scratch: Path, env: dict[str, str]) -> tuple[str, ...]:
    role, words = order.command[:1], order.command[1:]
    submit = str(home / "bin" / "spark-submit")
    if role not in ((SPARK_DRIVER,), (SPARK_WORKER,)):
        # 4040 and the 16 after it would be the bound of drivers on one node.
        return (submit, "--conf", "spark.ui.port=0", *order.command)
    if not env.get("MASTER_ADDR") or not env.get("MASTER_PORT"):
        why = f"{role[0]} needs MASTER_ADDR and MASTER_PORT: make it a task of a distributed job"
        raise CannotRun(Reason.BAD_ORDER, why)

    def role_of(name: str) -> tuple[str, ...]:
        return (sys.executable, "-I", spark_role.__file__, name, str(scratch), str(home / "bin" / "spark-class"))

    if role == (SPARK_DRIVER,):
        return (*role_of("driver"), submit, *words)
    memory_mib = order.resources.memory_bytes // _MIB
    memory = ("--memory", f"{memory_mib}m") if memory_mib else ()
    of_worker = ("--cores", str(cores(order.resources.cpu_millis)), *memory, "--work-dir", str(scratch))
    if words:  # it gives its place back when it has been idle for so long
        return (*role_of("elastic-worker"), *words, *of_worker)
    return (*role_of("worker"), *of_worker)


def _environment(order: TaskOrder, home: Path, java: Path, scratch: Path, env: dict[str, str]) -> dict[str, str]:
    """Return the environment. The job's own variables go before defaults."""
    java_options = f"{shlex.quote(f'-Djava.io.tmpdir={scratch}')} -XX:-UsePerfData"
    found = {
        "JAVA_HOME": str(java.parent.parent),
        "TMPDIR": str(scratch),
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_DAEMON_MEMORY": f"{DAEMON_MIB}m",
        "SPARK_LAUNCHER_OPTS": "-XX:-UsePerfData",
        "SPARK_SUBMIT_OPTS": java_options,
        # A port that is taken is an error, not a reason to listen where no client looks.
        "SPARK_DAEMON_JAVA_OPTS": f"{java_options} -Dspark.port.maxRetries=0",
        "MASTER": f"local[{cores(order.resources.cpu_millis)}]",  # if spark-submit is told no other
        **_heap(order),
        **({"SPARK_LOCAL_IP": host} if (host := own_host(env)) else {}),
        **env,
        "SPARK_HOME": str(home),
    }
    if order.command[:1] == (SPARK_WORKER,):
        found.setdefault("JAVA_TOOL_OPTIONS", java_options)  # reaches the executors too
    return found


def _heap(order: TaskOrder) -> dict[str, str]:
    """Return the variable for the heap of the driver's JVM. Raises CannotRun."""
    memory_bytes = order.resources.memory_bytes
    if not memory_bytes or order.command[:1] == (SPARK_WORKER,):
        return {}
    beside_master = order.command[:1] == (SPARK_DRIVER,)
    heap = heap_mib(memory_bytes) + (0 if beside_master else DAEMON_MIB)
    if heap <= 0:
        raise CannotRun(Reason.TOO_LITTLE_MEMORY, f"{memory_bytes // _MIB} MiB are too little for a JVM of Spark")
    return {"SPARK_DRIVER_MEMORY": f"{heap}m"}


def own_host(env: Mapping[str, str]) -> str:
    """Return the host as the other tasks reach it: there the JVMs listen, and nowhere else. Empty: it is not known."""
    hosts, index = env.get("GOSCHED_HOSTS", "").split(","), env.get("GOSCHED_TASK_INDEX", "")
    return hosts[int(index)] if index.isdecimal() and int(index) < len(hosts) else ""


def _home(wanted: str) -> Path | None:
    if wanted:
        return _if_spark(wanted)
    pyspark = importlib.util.find_spec("pyspark")
    on_path = shutil.which(_PROGRAMS[0])
    places = (
        os.environ.get("SPARK_HOME"),
        str(Path(pyspark.origin).parent) if pyspark is not None and pyspark.origin else None,
        str(Path(on_path).resolve().parent.parent) if on_path else None,
    )
    return next((home for place in places if place and (home := _if_spark(place)) is not None), None)


def _if_spark(place: str) -> Path | None:
    home = Path(place)
    has_programs = all(os.access(home / "bin" / program, os.X_OK) for program in _PROGRAMS)
    return home if has_programs and (home / "jars").is_dir() else None


def _java() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    return Path(found).resolve() if found else None
