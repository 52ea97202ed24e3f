"""The JSON shapes of plans and of what is reserved, in the manner of `shapes`."""

from __future__ import annotations

from gosched.client.forecast import JobPlan, PlannedJob, Reserved
from gosched.client.shapes import Json, nodes_json, time_json, victim_json, why_json
from gosched.core.records.fence import Fence
from gosched.core.records.reservation import Reservation
from gosched.core.records.window import Window


def plan_json(plan: JobPlan) -> Json:
    return {
        "revision": plan.revision,
        "jobs": [_planned_json(job) for job in plan.jobs],
        "moved": [
            {"id": m.job_id, "name": m.name, "before": time_json(m.before_ms), "after": time_json(m.after_ms)}
            for m in plan.moved
        ],
    }


def reserved_json(reserved: Reserved) -> list[Json]:
    """One shape for all `kind`s: a window that people made, the promised start of a job, the fence around the room of a
    job whose victims have not ended. `id`: the window's name, or the job's id."""
    return [
        *(window_json(window) for window in reserved.windows),
        *(_start_json(start) for start in reserved.reservations),
        *(_fence_json(fence) for fence in reserved.fences),
    ]


def window_json(window: Window) -> Json:
    """`end` null: open. Neither queues nor tenants: kept for nobody."""
    return {
        "id": window.name,
        "kind": "window",
        "start": time_json(window.start_ms),
        "end": time_json(window.end_ms),
        "nodes": list(window.nodes),
        "queues": list(window.queues),
        "tenants": list(window.tenants),
        "reason": window.reason,
    }


def _start_json(start: Reservation) -> Json:
    return {
        "id": start.job_id,
        "kind": "start",
        "start": time_json(start.start_ms),
        "end": time_json(start.end_ms),
        "nodes": sorted({share.node_id for share in start.shares}),
        "queues": [],
        "tenants": [],
        "reason": "deadline" if start.for_deadline else "",
    }


def _fence_json(fence: Fence) -> Json:
    return {
        "id": fence.job_id,
        "kind": "fence",
        "start": time_json(fence.made_at_ms),
        "end": None,
        "nodes": sorted({task.node_id for task in fence.tasks}),
        "queues": [],
        "tenants": [],
        "reason": "its victims have not ended yet",
    }


def _planned_json(job: PlannedJob) -> Json:
    return {
        "name": job.name,
        "outcome": job.outcome,
        "nodes": nodes_json(job.nodes),
        "victims": [victim_json(victim) for victim in job.victims],
        "start": time_json(job.start_ms),
        "explanation": why_json(job.explanation) if job.explanation else None,
        "warnings": list(job.warnings),
    }
