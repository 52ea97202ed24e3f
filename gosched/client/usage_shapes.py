"""The JSON shapes of what is used and was spent. Times in seconds, CPUs and GPUs as numbers with a fraction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gosched.client.model import QueueStatus
from gosched.client.usage import NodeUsage, TaskUsage
from gosched.core.records.job import Job
from gosched.core.records.usage import Spent, Usage
from gosched.core.resources import ZERO, Resources
from gosched.core.sharing import lineage

Json = dict[str, Any]


def node_usage_json(usage: NodeUsage) -> Json:
    """Pressure: the share of the last 10 s in which some task waited; null: not known."""
    return {
        "cpu": usage.cpu_milli / 1000,
        "memory_bytes": usage.memory_bytes,
        "disk_bytes": usage.disk_bytes,
        "pressure": {
            "cpu": _share_json(usage.cpu_pressure_milli),
            "memory": _share_json(usage.memory_pressure_milli),
            "io": _share_json(usage.io_pressure_milli),
        },
        "gpus": [
            {
                "gpu": gpu.gpu,
                "name": gpu.name,
                "uuid": gpu.uuid,
                "busy": gpu.busy_milli / 1000,
                "memory_bytes": gpu.memory_bytes,
                "problem": gpu.problem,
            }
            for gpu in usage.gpus
        ],
        "age_s": usage.age_ms / 1000,
    }


def usage_json(usage: Usage, cpu_milli: int = 0) -> Json:
    """Of one start of a task, or a sum over several. `cpu`: CPUs in use now. `*_stalled_s`: how long at least one of
    its processes waited for it."""
    return {
        "cpu": cpu_milli / 1000,
        "cpu_s": usage.cpu_ms / 1000,
        "throttled_s": usage.throttled_ms / 1000,
        "memory_bytes": usage.memory_bytes,
        "memory_peak_bytes": usage.memory_peak_bytes,
        "read_bytes": usage.read_bytes,
        "written_bytes": usage.written_bytes,
        "oom_kills": usage.oom_kills,
        "cpu_stalled_s": usage.cpu_stalled_ms / 1000,
        "memory_stalled_s": usage.memory_stalled_ms / 1000,
        "io_stalled_s": usage.io_stalled_ms / 1000,
    }


def task_usage_json(task: TaskUsage) -> Json:
    return {"id": task.task_id, "job": task.job_id, "node": task.node_id, **usage_json(task.usage, task.cpu_milli)}


def job_usage_json(jobs: Sequence[Job], tasks: Iterable[TaskUsage]) -> list[Json]:
    """Sums over the tasks of each job that hold a place now; a job without any is left out."""
    by_job: dict[str, list[TaskUsage]] = {}
    for task in tasks:
        by_job.setdefault(task.job_id, []).append(task)
    return [_of_job(job, by_job[job.id]) for job in jobs if job.id in by_job]


def _of_job(job: Job, tasks: Sequence[TaskUsage]) -> Json:
    asked = {group.name: group.resources for group in job.spec.groups}
    held = sum([asked[task.task_id.split("/")[-2]] for task in tasks], ZERO)
    return {
        "id": job.id,
        "name": job.spec.name,
        "queue": job.spec.queue,
        "tenant": job.spec.tenant,
        "state": job.shown_state.name,
        "tasks": len(tasks),
        "held": _held_json(held),
        **_summed([usage_json(task.usage, task.cpu_milli) for task in tasks]),
    }


def queue_usage_json(queues: Sequence[QueueStatus], jobs: Sequence[Json]) -> list[Json]:
    """Sums over the jobs (as in `job_usage_json`) of each queue and of those below it."""
    below: dict[str, list[Json]] = {queue.path: [] for queue in queues}
    for job in jobs:
        for path in lineage(job["queue"]):
            if path in below:
                below[path].append(job)
    return [
        {
            "id": queue.path,
            "name": queue.path,
            "pending": queue.pending,
            "running": queue.running,
            "tasks": sum(job["tasks"] for job in below[queue.path]),
            "held": {name: sum(job["held"][name] for job in below[queue.path]) for name in _held_json(ZERO)},
            **_summed(below[queue.path]),
        }
        for queue in queues
    ]


def _summed(parts: Sequence[Mapping[str, Any]]) -> Json:
    return {name: round(sum(part[name] for part in parts), 3) for name in usage_json(Usage())}


def _held_json(held: Resources) -> Json:
    return {"cpu": held.cpu_millis / 1000, "memory_bytes": held.memory_bytes, "gpu": held.gpu_millis / 1000}


def spent_json(spent: Spent) -> Json:
    return {
        "cpu_s": spent.cpu_ms / 1000,
        "gpu_s": spent.gpu_milli_s / 1000,
        "memory_byte_s": spent.memory_mib_s * 1024 * 1024,
    }


def _share_json(milli: int) -> float | None:
    return None if milli < 0 else milli / 1000
