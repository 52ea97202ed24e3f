"""The JSON shapes of the contract, the same over REST and from the CLI. Times are ISO 8601 in UTC, or null."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from gosched.client.model import (
    BackupStatus,
    Holder,
    JobDetail,
    JobExplanation,
    NodeDetail,
    QueueStatus,
    QuotaStatus,
    Status,
    Victim,
)
from gosched.client.usage import TaskUsage
from gosched.client.usage_shapes import spent_json, usage_json
from gosched.core.records.job import Job
from gosched.core.records.node import Hardware
from gosched.core.records.task import Task
from gosched.core.resources import MILLI, AmountMap, Resources
from gosched.core.sharing import BUILT_IN, IN_BYTES, is_in_millis

Json = dict[str, Any]

_NAMES = {name: f"{name}_bytes" if name in IN_BYTES else name for name in BUILT_IN}


def status_json(status: Status) -> Json:
    return {
        "leader": status.leader,
        "epoch": status.epoch,
        "revision": status.revision,
        "masters": [
            {
                "id": m.id,
                "address": m.address,
                "role": m.role,
                "healthy": m.healthy,
                "grpc_address": m.grpc_address,
                "http_address": m.http_address,
                "clock_offset_s": None if m.clock_offset_ms is None else m.clock_offset_ms / 1000,
                "newest_feature_level": m.newest_feature_level,
                "version": m.version,
            }
            for m in status.masters
        ],
        "nodes": status.nodes,
        "nodes_ready": status.nodes_ready,
        "jobs": status.jobs,
        "pending": status.pending,
        "running": status.running,
        "resources": {"total": resources_json(status.total), "used": resources_json(status.used)},
        "queues": [_queue_line(queue) for queue in status.queues],
        "state_bytes": status.state_bytes,
        "state_bytes_limit": status.state_bytes_limit,
        **({"digest": status.digest} if status.digest else {}),
        "version": status.version,
        "clock": {"at": time_json(status.clock_ms), "problem": status.clock_problem},
        "feature_level": status.feature_level,
        "newest_feature_level": status.newest_feature_level,
        "backup": _backup(status.backup),
    }


def _backup(backup: BackupStatus | None) -> Json | None:
    """None: no backups are scheduled."""
    if backup is None:
        return None
    return {
        "last_success_at": time_json(backup.last_success_ms) if backup.last_success_ms else None,
        "last_bytes": backup.last_bytes,
        "failures": backup.failures,
        "problem": backup.problem,
    }


def job_json(job: Job) -> Json:
    """Without its tasks. `array`, `schedule`: of a parent, null otherwise."""
    spec = job.spec
    return {
        "id": job.id,
        "name": job.spec.name,
        "queue": job.spec.queue,
        "tenant": job.spec.tenant,
        "priority": job.spec.priority,
        "labels": dict(job.spec.labels),
        "state": job.shown_state.name,
        "reason": job.reason,
        "detail": job.detail,
        "attempt": job.attempt,
        "restarts": job.restarts,
        "preemptions": job.preemptions,
        "task_count": job.spec.task_count,
        "running": job.running,
        "succeeded": job.succeeded,
        "failed": job.failed,
        "exit_code": job.exit_code,
        "parent": job.parent or None,
        "element": job.element if job.parent else None,
        "array": {"size": spec.array.size, **_children_json(job)} if spec.array.size and not spec.cron else None,
        "schedule": _schedule_json(job) if spec.cron else None,
        "held": job.held,
        "frozen": job.frozen,
        "waits_for": [{"job": d.job, "condition": d.condition.name.lower()} for d in job.waits_for],
        "deadline": time_json(job.deadline_ms),
        "deadline_missed": job.deadline_missed,
        "estimate_s": plain_number(spec.estimate_ms),
        "timeout_s": plain_number(spec.timeout_ms),
        "checkpoint_at": time_json(job.checkpoint_at_ms),
        "evictable_from": time_json(job.until_ms),
        "spent": spent_json(job.spent),
        "submitted_at": time_json(job.submitted_at_ms),
        "started_at": time_json(job.started_at_ms),
        "ended_at": time_json(job.ended_at_ms),
    }


def job_detail_json(detail: JobDetail, live: Iterable[TaskUsage] = ()) -> Json:
    """`live`: what those of its tasks use that hold a place now."""
    shape = job_json(detail.job)
    uses = {use.task_id: use for use in live}
    if detail.waiting_for and not shape["reason"]:
        shape["reason"], shape["detail"] = detail.waiting_for
    asked = {group.name: group.resources for group in detail.job.spec.groups}
    if shape["array"]:
        shape["array"]["failed_elements"] = list(detail.failed_elements)
    shape["tasks"] = [_task_json(task, asked[task.group], uses.get(task.id)) for task in detail.tasks]
    return shape


def node_json(detail: NodeDetail) -> Json:
    node = detail.node
    return {
        "id": node.id,
        "name": node.name,
        "address": node.address,
        "state": node.state.name,
        "reason": node.reason,
        "labels": dict(node.labels),
        "taints": [{"key": t.key, "value": t.value, "effect": t.effect.name.lower()} for t in node.taints],
        "gpu_model": node.gpu_model,
        "closed_by": node.closed_by.name.lower() if node.closed_by else "",
        "drain_by": time_json(node.drain_by_ms),
        "failing": list(node.failing),
        "isolation": node.isolation,
        "hardware": _hardware_json(node.hardware),
        "resources": {"total": resources_json(node.capacity), "used": resources_json(detail.used)},
        "tasks": detail.tasks,
        "heartbeat_age_s": None if detail.heartbeat_age_ms is None else detail.heartbeat_age_ms / 1000,
        "registered_at": time_json(node.registered_at_ms),
    }


def queue_json(queue: QueueStatus) -> Json:
    """0 and empty: no such rule."""
    rules = queue.rules
    return {
        "id": queue.path,
        "name": queue.path,
        "type": queue.type,
        "order": rules.order.name.lower() if rules.order else "",
        "weight": rules.weight,
        "capacity_pct": rules.capacity_pct,
        "max_pct": rules.max_pct,
        "guaranteed": amounts_json(rules.guaranteed, all_names=False),
        "limit": amounts_json(rules.limit, all_names=False),
        "max_running_jobs": rules.max_running_jobs,
        "tenants": list(rules.tenants),
        "half_life_s": plain_number(rules.half_life_ms),
        "preemption": rules.preemption.name.lower() if rules.preemption else "",
        "pending": queue.pending,
        "running": queue.running,
        "used": amounts_json(queue.used),
        "demand": amounts_json(queue.demand),
        "fair_share": amounts_json(queue.fair_share, all_names=False),
        "ceiling": amounts_json(queue.ceiling, all_names=False),
    }


def quota_json(status: QuotaStatus) -> Json:
    return {
        "id": status.quota.tenant,
        "tenant": status.quota.tenant,
        "limit": amounts_json(status.quota.limit, all_names=False),
        "max_running_jobs": status.quota.max_running_jobs,
        "used": amounts_json(status.used),
        "running_jobs": status.running_jobs,
        "spent": spent_json(status.spent),
    }


def explanation_json(explanation: JobExplanation) -> Json:
    queue = explanation.queue
    return {
        "id": explanation.job.id,
        "name": explanation.job.spec.name,
        "state": explanation.job.shown_state.name,
        "queue": explanation.job.spec.queue,
        "tenant": explanation.job.spec.tenant,
        **why_json(explanation),
        "nodes": nodes_json(explanation.nodes),
        "queue_use": None
        if queue is None
        else {
            "used": amounts_json(queue.used),
            "fair_share": amounts_json(queue.fair_share, all_names=False),
            "ceiling": amounts_json(queue.ceiling, all_names=False),
        },
        "reason": explanation.job.reason,
        "detail": explanation.job.detail,
        "exit_code": explanation.job.exit_code,
        "submitted_at": time_json(explanation.job.submitted_at_ms),
        "started_at": time_json(explanation.job.started_at_ms),
        "placed_at": time_json(explanation.job.placed_at_ms),
        "ended_at": time_json(explanation.job.ended_at_ms),
    }


def why_json(explanation: JobExplanation) -> Json:
    """Of a job that waits, or that would."""
    return {
        "code": explanation.code,
        "message": explanation.message,
        "position": explanation.position or None,
        "limit": explanation.limit,
        "refused": [{"filter": name, "nodes": nodes} for name, nodes in explanation.refused],
        "nearest": explanation.nearest,
        "holders": [_holder_json(holder) for holder in explanation.holders],
        "estimated_start": time_json(explanation.start_ms),
        "estimated_from": explanation.start_from,
        "change": explanation.change,
        "would_evict": [victim_json(victim) for victim in explanation.victims],
    }


def victim_json(victim: Victim) -> Json:
    """`lost_s`: seconds of work, times tasks."""
    return {
        "id": victim.job_id,
        "name": victim.name,
        "tasks": victim.tasks,
        "whole": victim.whole,
        "cause": victim.cause,
        "lost_s": plain_number(victim.lost_ms),
    }


def nodes_json(nodes: Iterable[tuple[str, int]]) -> list[Json]:
    """With the tasks of each; a node may stand for several groups."""
    tasks: dict[str, int] = {}
    for node, count in nodes:
        tasks[node] = tasks.get(node, 0) + count
    return [{"node": node, "tasks": count} for node, count in tasks.items()]


def amounts_json(amounts: AmountMap, *, all_names: bool = True) -> Json:
    """Under the names of `resources_json`, then `gpu:MODEL` and custom ones. `all_names`: the built-in ones always."""
    shape: Json = dict.fromkeys(_NAMES.values(), 0) if all_names else {}
    for name, amount in amounts:
        in_millis = is_in_millis(name)
        shape[_NAMES.get(name, name)] = plain_number(amount) if in_millis else amount
    return shape


def resources_json(resources: Resources) -> Json:
    return {
        "cpu": plain_number(resources.cpu_millis),
        "memory_bytes": resources.memory_bytes,
        "storage_bytes": resources.storage_bytes,
        "gpu": plain_number(resources.gpu_millis),
        **dict(resources.custom),
    }


def plain_number(millis: int) -> int | float:
    return millis // MILLI if millis % MILLI == 0 else millis / MILLI


def time_json(at_ms: int) -> str | None:
    if not at_ms:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _hardware_json(hardware: Hardware) -> Json:
    """Empty where the agent does not know."""
    return {
        "numa_cpus": list(hardware.numa_cpus),
        "gpu_numa": list(hardware.gpu_numa),
        "gpu_links": list(hardware.gpu_links),
        "gpu_memory_bytes": hardware.gpu_memory_bytes,
        "bad_gpus": list(hardware.bad_gpus),
    }


def _schedule_json(job: Job) -> Json:
    spec = job.spec
    return {
        "cron": spec.cron,
        "timezone": spec.timezone or "UTC",
        "overlap": spec.overlap.name.lower(),
        "next_run_at": time_json(job.children.next_run_at_ms),
        **_children_json(job),
    }


def _children_json(job: Job) -> Json:
    children = job.children
    return {
        "made": children.made,
        "live": children.live,
        "succeeded": children.succeeded,
        "failed": children.failed,
        "cancelled": children.cancelled,
    }


def _holder_json(holder: Holder) -> Json:
    return {
        "id": holder.job_id,
        "name": holder.name,
        "queue": holder.queue,
        "held": amounts_json(holder.held, all_names=False),
        "until": time_json(holder.until_ms),
    }


def _queue_line(queue: QueueStatus) -> Json:
    """Short: clients read the status to find the masters."""
    return {
        "name": queue.path,
        "type": queue.type,
        "pending": queue.pending,
        "running": queue.running,
        "used": amounts_json(queue.used),
    }


def _task_json(task: Task, asked: Resources, live: TaskUsage | None) -> Json:
    live = live if task.state.is_active else None
    return {
        "id": task.id,
        "group": task.group,
        "index": task.index,
        "rank": task.rank,
        "state": task.state.name,
        "node": task.node_id or None,
        "exit_code": task.exit_code,
        "reason": task.reason,
        "detail": task.detail,
        "attempt": task.attempt,
        "started_at": time_json(task.started_at_ms),
        "ended_at": time_json(task.ended_at_ms),
        "cpus": plain_number(asked.cpu_millis),
        "gpus": list(task.gpus),
        "usage": usage_json(live.usage if live else task.usage, live.cpu_milli if live else 0),
    }
