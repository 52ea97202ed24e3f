"""openb (Alibaba, cluster-trace-gpu-v2023): a CSV file of pods, each a job of one task, and one of nodes.

Times are seconds. A list without times is the published experiment: a pod each second, and none ever leaves.
"""

from __future__ import annotations

import csv

from gosched.core.commands.nodes import RegisterNode
from gosched.core.resources import MILLI, Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import Affinity, LabelOp
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.sim.cluster.trace import COMMAND, Trace, TraceJob, bad_line, in_order, whole_number

MODEL_LABEL = "gpu_model"  # by which a pod chooses among models

_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_MIB = 1 << 20


def read(text: str, source: str) -> Trace:
    """Read a list of pods; those without a deletion time never end. Raises ConfigError."""
    jobs: list[TraceJob] = []
    for line, row in _rows(text, source, _POD_COLUMNS):
        spec = _spec(row, source, line)
        if "creation_time" not in row:
            jobs.append(TraceJob(at_ms=1000 * len(jobs), spec=spec, duration_ms=None))
            continue
        created = whole_number(row["creation_time"], source, line, "creation_time")
        jobs.append(TraceJob(at_ms=created * 1000, spec=spec, duration_ms=_duration_ms(row, created, source, line)))
    return Trace(jobs=in_order(jobs))


def read_node_list(text: str, source: str) -> list[RegisterNode]:
    """Read a list of nodes. Raises ConfigError."""
    found = []
    for line, row in _rows(text, source, _NODE_COLUMNS):
        capacity = Resources(
            cpu_millis=whole_number(row["cpu_milli"], source, line, "cpu_milli"),
            memory_bytes=whole_number(row["memory_mib"], source, line, "memory_mib") * _MIB,
            gpu_millis=whole_number(row["gpu"], source, line, "gpu") * MILLI,
        )
        model = row["model"]
        found.append(
            RegisterNode(
                node_id=row["sn"],
                name=row["sn"],
                address="simulated:1",
                incarnation="1",
                capacity=capacity,
                gpu_model=model,
                labels=((MODEL_LABEL, model),) if model else (),
            )
        )
    return found


def is_node_list(text: str) -> bool:
    return text.lstrip("\ufeff").startswith("sn,")


def _spec(row: dict[str, str], source: str, line: int) -> JobSpec:
    gpus = whole_number(row["num_gpu"], source, line, "num_gpu")
    share = whole_number(row["gpu_milli"], source, line, "gpu_milli")
    models = tuple(sorted(set((row.get("gpu_spec") or "").split("|")) - {""}))
    group = TaskGroup(
        name="task",
        count=1,
        command=COMMAND,
        resources=Resources(
            cpu_millis=whole_number(row["cpu_milli"], source, line, "cpu_milli"),
            memory_bytes=whole_number(row["memory_mib"], source, line, "memory_mib") * _MIB,
            gpu_millis=gpus * share,
        ),
        affinity=(Affinity(label=MODEL_LABEL, op=LabelOp.IN, values=models),) if gpus and models else (),
    )
    return JobSpec(name=row["name"], queue="default", gang=GangPolicy(min_tasks=1), groups=(group,))


def _duration_ms(row: dict[str, str], created: int, source: str, line: int) -> int | None:
    """Return the time from its start in the original cluster to its end; from its creation, if it never started
    there."""
    ended = row.get("deletion_time") or ""
    if not ended:
        return None
    scheduled = row.get("scheduled_time") or ""
    began = whole_number(scheduled, source, line, "scheduled_time") if scheduled else created
    duration = whole_number(ended, source, line, "deletion_time") - began
    if duration < 0:
        raise bad_line(source, line, f"the pod ends {-duration} s before it begins")
    return max(duration * 1000, 1)


def _rows(text: str, source: str, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """Yield the rows with their line numbers."""
    reader = csv.DictReader(text.lstrip("\ufeff").splitlines(), restval="")
    missing = [column for column in columns if column not in (reader.fieldnames or ())]
    if missing:
        raise bad_line(source, 1, f"the first line names no column {missing[0]}; expected {','.join(columns)},...")
    rows = []
    for row in reader:
        if None in row:
            raise bad_line(source, reader.line_num, "more fields than the first line names")
        rows.append((reader.line_num, row))
    return rows
