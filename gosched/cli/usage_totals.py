"""What jobs and queues use together, for `top`: sums over the tasks that hold a place, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gosched.api.json.usage import usage_json
from gosched.api.json.values import Json
from gosched.api.status import QueueStatus
from gosched.api.usage import TaskUsage
from gosched.core.records.job import Job
from gosched.core.resources import ZERO, Resources
from gosched.core.sharing import lineage

_USED = [member.key for member in usage_json.members]


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
        **_summed([usage_json(task) for task in tasks]),
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
    return {name: round(sum(part[name] for part in parts), 3) for name in _USED}


def _held_json(held: Resources) -> Json:
    return {"cpu": held.cpu_millis / 1000, "memory_bytes": held.memory_bytes, "gpu": held.gpu_millis / 1000}
