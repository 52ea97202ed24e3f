"""The Standard Workload Format: a header of comments, then 18 numbers a line (Feitelson's parallel workloads archive).

A processor is a CPU. Alone, a log brings one node with all processors, and a job is one task on it; with nodes, a
job is a gang of tasks of one CPU each. The requested time is the timeout; without it, the run time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gosched.config import ConfigError
from gosched.core.commands.nodes import RegisterNode
from gosched.core.limits import MAX_DURATION_MS, MAX_TASKS_PER_JOB
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.sim.cluster.trace import COMMAND, Trace, TraceJob, bad_line, in_order, whole_number

FIELDS = 18

_NUMBER, _SUBMIT, _RUN, _ALLOCATED, _REQUESTED, _REQUESTED_TIME, _USER = 0, 1, 3, 4, 7, 8, 11
_HEADER = re.compile(r";\s*(MaxProcs|MaxNodes)\s*:\s*([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Processors:
    """The machine of a log: equal nodes."""

    #: 0: the nodes come from elsewhere, and jobs are gangs all the same.
    nodes: int = 0
    cpus_per_node: int = 0


def read(text: str, source: str, processors: Processors | None = None) -> Trace:
    """Read a log. Jobs without a run time or processors never ran, and are left out. Raises ConfigError."""
    jobs: list[TraceJob] = []
    left_out: dict[str, int] = {}
    said: dict[str, int] = {}
    for line, words in enumerate(text.splitlines(), start=1):
        if words.lstrip().startswith(";"):
            if found := _HEADER.match(words.lstrip()):
                said[found[1]] = int(found[2])
            continue
        if not words.strip():
            continue
        fields = _fields(words, source, line)
        count = fields[_REQUESTED] if fields[_REQUESTED] > 0 else fields[_ALLOCATED]
        if fields[_RUN] < 0 or count <= 0:
            why = "no run time" if fields[_RUN] < 0 else "no processors"
            left_out[why] = left_out.get(why, 0) + 1
            continue
        jobs.append(_job(fields, count, processors is not None, source, line))
    return Trace(
        jobs=in_order(jobs),
        nodes=_nodes(processors, said.get("MaxProcs") or said.get("MaxNodes", 0), source),
        left_out=tuple(sorted(left_out.items())),
    )


def _fields(words: str, source: str, line: int) -> list[int]:
    found = words.split()
    if len(found) != FIELDS:
        raise bad_line(source, line, f"{len(found)} fields; a job of this format has {FIELDS}")
    return [whole_number(word.partition(".")[0], source, line, f"field {i}") for i, word in enumerate(found, start=1)]


def _job(fields: list[int], count: int, gang: bool, source: str, line: int) -> TraceJob:
    if gang and count > MAX_TASKS_PER_JOB:
        raise bad_line(source, line, f"{count} processors; a job has at most {MAX_TASKS_PER_JOB} tasks")
    duration_ms = max(fields[_RUN] * 1000, 1)
    wanted_ms = fields[_REQUESTED_TIME] * 1000 if fields[_REQUESTED_TIME] > 0 else duration_ms
    if max(duration_ms, wanted_ms) > MAX_DURATION_MS:
        raise bad_line(source, line, "it runs for more than a year")
    tasks, cpus = (count, 1) if gang else (1, count)
    spec = JobSpec(
        name=f"job{fields[_NUMBER]}",
        queue="default",
        tenant=f"u{fields[_USER]}" if fields[_USER] > 0 else "default",
        gang=GangPolicy(min_tasks=tasks),
        groups=(TaskGroup(name="task", count=tasks, resources=Resources(cpu_millis=cpus * 1000), command=COMMAND),),
        timeout_ms=wanted_ms,
    )
    return TraceJob(at_ms=fields[_SUBMIT] * 1000, spec=spec, duration_ms=duration_ms)


def _nodes(processors: Processors | None, in_header: int, source: str) -> tuple[RegisterNode, ...]:
    if processors is None:
        if not in_header:
            problem = "neither MaxProcs nor MaxNodes in its header: say --swf-nodes and --cpus-per-node, or --nodes"
            raise ConfigError(f"{source}: {problem}")
        processors = Processors(nodes=1, cpus_per_node=in_header)
    return tuple(
        [
            RegisterNode(
                node_id=f"node-{i}",
                name=f"node-{i}",
                address="simulated:1",
                incarnation="1",
                capacity=Resources(cpu_millis=processors.cpus_per_node * 1000),
            )
            for i in range(processors.nodes)
        ]
    )
