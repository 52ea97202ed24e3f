"""The JSON of what is used now and of what was spent."""

from __future__ import annotations

from gosched.api.json.document import Document, made, part
from gosched.api.usage import NodeUsage, TaskUsage
from gosched.core.records.usage import MIB, Spent


def _memory_byte_s(spent: Spent) -> int:
    return spent.memory_mib_s * MIB


#: Amounts held, times the seconds that they were held.
spent_json = Document(Spent, "cpu_ms", "gpu_s=gpu_milli_s", made("memory_byte_s", _memory_byte_s), measured=True)

#: What a task uses. `cpu`: CPUs in use now; `*_stalled_s`: how long at least one of its processes waited.
task_usage_json = Document(
    TaskUsage, "id=task_id", "job=job_id", "node=node_id", "cpu=cpu_milli", "usage.*", measured=True
)
usage_json = Document(TaskUsage, "cpu=cpu_milli", "usage.*", measured=True)


def _cpu_pressure(usage: NodeUsage) -> float | None:
    return _share(usage.cpu_pressure_milli)


def _memory_pressure(usage: NodeUsage) -> float | None:
    return _share(usage.memory_pressure_milli)


def _io_pressure(usage: NodeUsage) -> float | None:
    return _share(usage.io_pressure_milli)


def _share(milli: int) -> float | None:
    return None if milli < 0 else milli / 1000


#: What a node uses now. Pressure: the share of the last 10 s in which some task waited; null: not known.
node_usage_json = Document(
    NodeUsage,
    "cpu_milli",
    "memory_bytes",
    "disk_bytes",
    part("pressure", made("cpu", _cpu_pressure), made("memory", _memory_pressure), made("io", _io_pressure)),
    "gpus",
    "age_ms",
    measured=True,
)
