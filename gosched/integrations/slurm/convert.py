"""A script and its options as a job of gosched: the mapping that a job file would have.

Invariant: what a job cannot say is an error that names the option.
"""

from __future__ import annotations

import copy
import getpass
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from gosched.api.details import NodeDetail
from gosched.config.errors import ConfigError
from gosched.config.written import cpus
from gosched.core.resources import MILLI
from gosched.integrations.slurm import values
from gosched.integrations.slurm.batch import ALLOCATION, COMMAND, DIRECTORY, Batch, written
from gosched.integrations.slurm.begin import begin_of
from gosched.integrations.slurm.command_line import Given, read_environment, read_script, read_words
from gosched.integrations.slurm.node_choice import OPTIONS as NODE_OPTIONS
from gosched.integrations.slurm.node_choice import ListNodes, named_nodes, whole_cpu_millis
from gosched.integrations.slurm.options import SALLOC, SBATCH, Option
from gosched.integrations.slurm.shape import Shape, ranks_alone, shape_of

#: Labels of jobs that sbatch made, for squeue and sacct.
NAME_LABEL, NODES_LABEL, CPUS_LABEL = "slurm/name", "slurm/nodes", "slurm/cpus"
PRIORITIES = {"low": 250, "normal": 500, "high": 750}
MAX_SCRIPT_BYTES = 120_000  # one word of a command line may have 128 KiB

# Of the submitter's login, not of the job: the task has its own.
_OWN = re.compile(
    r"(GOSCHED|SLURM|SLURMD|SBATCH|SSH|XDG|DBUS|OMPI|PMI|PMIX)_.*|"
    r"HOME|USER|LOGNAME|SHELL|MAIL|PWD|OLDPWD|SHLVL|_|TERM|DISPLAY|XAUTHORITY|TTY|TRACEPARENT|CUDA_VISIBLE_DEVICES"
)
#: The later one takes the place of the other.
_EITHER = (("mem", "mem-per-cpu"), ("requeue", "no-requeue"))
_NAMES = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What is submitted."""

    text: str
    #: Of its file; `sbatch` without one, `wrap` of --wrap.
    name: str
    args: tuple[str, ...] = ()
    #: Of salloc: it holds the allocation while a command runs beside it.
    holds: bool = False


def held_for(command: Sequence[str]) -> Script:
    """Return what stands in place of a script where salloc runs a command; without words: a shell."""
    name = command[0].rpartition("/")[2] if command else "interactive"
    return Script(text=f'#!/bin/sh\nexec {ALLOCATION} hold "${{0%/*}}/{DIRECTORY}"\n', name=name, holds=True)


def script_of(words: Sequence[str], given: Given, text: str) -> Script:
    """Return the script that the words after the options name, with its text. Raises ConfigError."""
    if "wrap" in given:
        if words:
            raise given.problem("wrap", f"stands in place of a script, and there is one: {words[0]}")
        return Script(text=f"#!/bin/sh\n{given.get('wrap')}\n", name="wrap")
    if not words:
        return Script(text=text, name="sbatch")
    return Script(text=text, name=words[0], args=tuple(words[1:]))


def options_of(command_line: Given, script: Script, environment: Mapping[str, str]) -> Given:
    """Return the options of the script, those of the environment over them, and over both the command line's. Raises
    ConfigError."""
    if not script.text.startswith("#!"):
        raise ConfigError(f"{script.name} is no script: its first line must begin with #!, such as #!/bin/bash")
    if len(script.text.encode()) > MAX_SCRIPT_BYTES:
        raise ConfigError(f"{script.name} has more than {MAX_SCRIPT_BYTES} bytes: put what is long into another file")
    if "\r\n" in script.text:
        fix = "sed -i 's/\\r$//' takes them out"
        raise ConfigError(f"{script.name} has the line ends of DOS, with which it cannot be run: {fix}")
    if "\0" in script.text:
        raise ConfigError(f"{script.name} is no script: it holds a NUL character")
    given = Given()
    if script.holds:
        read_environment(SALLOC, environment, given, "salloc")
    else:
        read_script(SBATCH, script.text, script.name, given)
        read_environment(SBATCH, environment, given, "sbatch")
    for one, other in (*_EITHER, *(pair[::-1] for pair in _EITHER)):
        if one in command_line and other not in command_line:
            given.values.pop(other, None)
    given.values |= command_line.values
    given.origins |= command_line.origins
    given.warnings += command_line.warnings
    return given


def read_command_line(words: Sequence[str], table: tuple[Option, ...] = SBATCH) -> tuple[Given, list[str]]:
    """Return the options, and the words of the script or the command. Raises ConfigError."""
    given = Given()
    return given, read_words(table, words, given)


def job_of(
    given: Given, script: Script, environment: Mapping[str, str], directory: str, suffix: str, list_nodes: ListNodes
) -> dict[str, Any]:
    """Return the job as a job file has it. `suffix` makes its name unique; `list_nodes` is called for options about
    nodes alone. Raises ConfigError. Adds warnings."""
    if given.get("exclusive"):
        raise given.problem(
            "exclusive", f"={given.get('exclusive')} is refused: a node is whole for one job, or shared"
        )
    nodes = list_nodes() if any(option in given for option in NODE_OPTIONS) else ()
    if "exclusive" in given and (ranks := ranks_alone(given)):
        given = replace(given, values={**given.values, "nodes": str(_whole_nodes(given, ranks, nodes))})
    shape = shape_of(given)
    places = _placement(given, shape, nodes)
    if "exclusive" in given:
        shape = replace(shape, node_cpu_millis=whole_cpu_millis(given, shape, places, nodes))
    name = given.get("job-name") or script.name.rpartition("/")[2]
    batch = _batch(given, shape, name, directory)
    if script.holds:
        batch = replace(batch, output="")
    job: dict[str, Any] = {
        "name": f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-')[:200] or 'job'}-{suffix}",
        "labels": {
            NAME_LABEL: "".join(c for c in name if c.isprintable())[:250],
            NODES_LABEL: str(shape.tasks if shape.by_node else 1),
            CPUS_LABEL: str(sum(count * shape.cpu_millis(ranks) for count, ranks in shape.groups) // MILLI),
        },
    }
    if "comment" in given:
        job["labels"]["slurm/comment"] = "".join(c for c in given.get("comment") if c.isprintable())[:250]
    for option, key in (("partition", "queue"), ("account", "tenant")):
        if option in given:
            job[key] = _one(given, option)
    if "qos" in given or "priority" in given:
        job["priority"] = _priority(given)
    if batch.time_limit_s:
        job["timeout"] = f"{batch.time_limit_s}s"
    if script.holds or ("no-requeue" in given and "requeue" not in given):
        job["retry"] = {"max": 0, "when": []}
    if "hold" in given:
        job["hold"] = True
    if "dependency" in given:
        job["after"] = given.read("dependency", values.dependencies)
    if "begin" in given and (begin := given.read("begin", partial(begin_of, now=datetime.now()))):
        job["begin"] = begin
    if "array" in given:
        job["array"] = _array(given.read("array", values.array))
    command = [COMMAND, written(batch), script.text, *script.args]
    env = _exported(given, environment)
    job["tasks"] = {
        f"nodes{place or ''}" if shape.by_node else "ranks": _group(shape, place, count, ranks, command, env, places)
        for place, (count, ranks) in enumerate(shape.groups)
    }
    return job


def _group(
    shape: Shape, place: int, count: int, ranks: int, command: list[str], env: dict[str, str], places: dict[str, Any]
) -> dict[str, Any]:
    resources: dict[str, Any] = {"cpu": cpus(shape.cpu_millis(ranks))}
    if shape.mebibytes[place]:
        resources["memory"] = f"{shape.mebibytes[place]}Mi"
    if shape.gpus[place]:
        resources["gpu"] = shape.gpus[place]
    group: dict[str, Any] = {"run": list(command), "count": count, "resources": resources | dict(shape.custom)}
    if places:
        group["placement"] = copy.deepcopy(places)  # YAML would write what two groups share once
    if env:
        group["env"] = dict(env)
    return group


def _whole_nodes(given: Given, ranks: int, nodes: Sequence[NodeDetail]) -> int:
    """Return how many whole nodes have the CPUs for so many ranks. Raises ConfigError."""
    one = Given(values={**given.values, "ntasks": "1"}, origins=given.origins)
    one.values.pop("gpus", None)  # of the job, not of a node
    shape = shape_of(one)
    cpu_millis = whole_cpu_millis(given, shape, _placement(one, shape, nodes), nodes)
    return -(-ranks // (cpu_millis // shape.cpu_millis(1)))


def _placement(given: Given, shape: Shape, nodes: Sequence[NodeDetail]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if shape.tasks > 1 and shape.by_node:
        found["anti_affinity"] = [{"job": "self", "level": "node"}]
    elif shape.tasks > 1:
        found["topology"] = [{"level": "node", "mode": "preferred"}]
    for feature in re.split("[&,]", given.get("constraint")) if "constraint" in given else ():
        key, equals, value = feature.strip().partition("=")
        if not re.fullmatch(r"[A-Za-z0-9._/-]+", key):
            raise given.problem("constraint", f"{feature!r}: only labels that must all be there, apart by & or a comma")
        if equals:
            found.setdefault("node_selector", {})[key] = value
        else:
            found.setdefault("affinity", []).append({"label": key, "op": "exists"})
    if named := named_nodes(given, shape, nodes):
        found.setdefault("affinity", []).extend(named)
    return found


def _batch(given: Given, shape: Shape, name: str, directory: str) -> Batch:
    limit_s = given.read("time", values.seconds) if "time" in given else 0
    signal = given.read("signal", values.warning_signal) if "signal" in given else None
    if signal and not limit_s:
        raise given.problem("signal", "is sent before the time limit: say --time, too")
    if given.get("open-mode") not in ("", "append", "truncate"):
        raise given.problem("open-mode", f"expected append or truncate, got {given.get('open-mode')!r}")
    array = given.read("array", values.array) if "array" in given else None
    counts = {key: given.read(key, values.number) for key in _COUNTS if key in given}
    return Batch(
        name=name,
        groups=shape.groups,
        submit_dir=directory,
        submit_host=socket.gethostname().partition(".")[0],
        user=_user(),
        partition=given.get("partition"),
        account=given.get("account"),
        qos=given.get("qos"),
        chdir=os.path.normpath(os.path.join(directory, given.get("chdir"))),
        output=given.get("output") or ("slurm-%A_%a.out" if array else "slurm-%j.out"),
        error=given.get("error"),
        append=given.get("open-mode") == "append",
        ntasks=counts.get("ntasks") or (shape.ranks if "ntasks-per-node" in given else 0),
        ntasks_per_node=counts.get("ntasks-per-node", 0),
        cpus_per_task=counts.get("cpus-per-task", 0),
        cpus_per_node=shape.node_cpu_millis // MILLI,
        gpus_per_task=given.read("gpus-per-task", values.gpus)[1] if "gpus-per-task" in given else 0,
        mem_per_node=given.read("mem", values.mebibytes) if "mem" in given else 0,
        mem_per_cpu=given.read("mem-per-cpu", values.mebibytes) if "mem-per-cpu" in given else 0,
        time_limit_s=limit_s,
        signal=signal.number if signal else 0,
        signal_s=signal.seconds if signal else 0,
        signal_to_script=bool(signal and signal.to_script),
        array=(array.first, array.last, array.step, array.count) if array else (),
    )


_COUNTS = ("ntasks", "ntasks-per-node", "cpus-per-task")


def _array(array: values.Array) -> dict[str, Any]:
    found: dict[str, Any] = {"range": f"{array.first}-{array.last}:{array.step}"}
    if array.listed:
        found = {"matrix": {"SLURM_ARRAY_TASK_ID": [str(index) for index in array.listed]}}
    return found | ({"parallelism": array.parallelism} if array.parallelism else {})


def _one(given: Given, option: str) -> str:
    if "," in given.get(option):
        raise given.problem(option, f"a job is in one, got {given.get(option)!r}")
    return given.get(option)


def _priority(given: Given) -> int:
    if "priority" in given:
        text = given.get("priority")
        if not (text.isascii() and text.isdigit() and int(text) <= 1000):
            raise given.problem("priority", f"expected a number from 0 to 1000, got {text!r}")
        return int(text)
    if given.get("qos") not in PRIORITIES:
        known = ", ".join(PRIORITIES)
        raise given.problem("qos", f"{given.get('qos')!r} is none of {known}: a QOS is a priority here")
    return PRIORITIES[given.get("qos")]


def _exported(given: Given, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the submission that the job gets."""
    words = (given.get("export") or "ALL").split(",")
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if word.upper() == "ALL":
            found |= {name: value for name, value in environment.items() if not _OWN.fullmatch(name)}
        elif word.upper() == "NONE" or not word:
            continue
        elif not _NAMES.fullmatch(name) or name.startswith("GOSCHED_"):
            raise given.problem("export", f"{name!r} cannot be the name of a variable of a job")
        elif equals:
            found[name] = value
        elif name in environment:
            found[name] = environment[name]
    for name in [name for name, value in found.items() if not _is_text(name + value)]:
        given.warnings.append(f"{name} is not exported: it is no text")
        del found[name]
    return dict(sorted(found.items()))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # bytes that are no UTF-8
        return False
    return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no account for its number
        return str(os.getuid())
