"""The JSON shapes of plans and of what is reserved, in the manner of `shapes`."""

from __future__ import annotations

from gosched.client.forecast import JobPlan, PlannedJob, Reserved
from gosched.client.shapes import Json, explanation_json, nodes_json, time_json, victim_json
from gosched.core.cluster import Window


def plan_json(plan: JobPlan) -> Json:
    return {
        "revision": plan.revision,
        "jobs": [_planned_json(job) for job in plan.jobs],
        "moved": [
            {"id": m.job_id, "name": m.name, "before": time_json(m.before_ms), "after": time_json(m.after_ms)}
            for m in plan.moved
        ],
    }


def window_json(window: Window) -> Json:
    """`end` null: open. Neither queues nor tenants: kept for nobody."""
    return {
        "id": window.name,
        "name": window.name,
        "start": time_json(window.start_ms),
        "end": time_json(window.end_ms),
        "nodes": list(window.nodes),
        "queues": list(window.queues),
        "tenants": list(window.tenants),
        "reason": window.reason,
    }


def reserved_json(reserved: Reserved) -> Json:
    return {
        "revision": reserved.revision,
        "windows": [window_json(window) for window in reserved.windows],
        "reservations": [
            {
                "id": r.job_id,
                "start": time_json(r.start_ms),
                "end": time_json(r.end_ms),
                "nodes": nodes_json([(share.node_id, share.count) for share in r.shares]),
                "for_deadline": r.for_deadline,
            }
            for r in reserved.reservations
        ],
        "fences": [
            {"id": f.job_id, "since": time_json(f.made_at_ms), "nodes": sorted({task.node_id for task in f.tasks})}
            for f in reserved.fences
        ],
    }


def _planned_json(job: PlannedJob) -> Json:
    return {
        "name": job.name,
        "outcome": job.outcome,
        "nodes": nodes_json(job.nodes),
        "victims": [victim_json(victim) for victim in job.victims],
        "start": time_json(job.start_ms),
        "explanation": explanation_json(job.explanation) if job.explanation else None,
        "warnings": list(job.warnings),
    }
