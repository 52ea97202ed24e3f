"""What the tasks of a job use now, for the charts of its page: asked of the leader, only while somebody looks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from gosched.core.records.task import Task
from gosched.master.web.job_head import JobHead, find_job, head_of
from gosched.master.web.page import Asked
from gosched.master.web.sources import Sources
from gosched.wire.v1 import node_pb2

MAX_LINES = 12  # tasks of one chart; of more, their mean and their extremes are drawn

_Figures = tuple[float, float, float | None]  # CPUs, bytes, busy share of its GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageView:
    """The page of charts."""

    head: JobHead
    #: Some task has GPUs.
    gpus: bool
    refresh_s: int = 2


async def usage_page(sources: Sources, asked: Asked) -> UsageView:
    """Return the page. Raises NoSuchPage."""
    job = find_job(sources, asked.caller, asked.params["job"])
    gpus = any(group.resources.gpu_millis for group in job.spec.groups)
    return UsageView(head=head_of(sources.state, job, asked.words), gpus=gpus)


async def usage_now(sources: Sources, asked: Asked) -> dict[str, Any]:
    """Return the figures of this moment: a line for each task, or of many tasks their mean and extremes. Raises
    NoSuchPage."""
    job = find_job(sources, asked.caller, asked.params["job"])
    running = [task for task in sources.state.tasks_of(job) if task.state.is_active]
    told = await sources.ask("ListUsage", node_pb2.ListUsageRequest(job=job.id), asked.caller)
    views = {view.task_id: view for view in told.tasks} if told else {}
    seen = [task for task in running if task.id in views]
    busy = await _gpu_shares(sources, asked, seen) if len(seen) <= MAX_LINES else {}
    found: dict[str, _Figures] = {
        f"{task.group}/{task.index}": (
            views[task.id].cpu_milli / 1000,
            views[task.id].usage.memory_bytes,
            busy.get(task.id),
        )
        for task in seen
    }
    lines = found if len(found) <= MAX_LINES else _spread(list(found.values()))
    return {"known": told is not None, "tasks": len(running), "lines": lines}


def _spread(figures: list[_Figures]) -> dict[str, _Figures]:
    cpus, memories = [one[0] for one in figures], [one[1] for one in figures]
    return {
        "highest": (max(cpus), max(memories), None),
        "mean": (sum(cpus) / len(cpus), sum(memories) / len(memories), None),
        "lowest": (min(cpus), min(memories), None),
    }


async def _gpu_shares(sources: Sources, asked: Asked, tasks: list[Task]) -> dict[str, float]:
    """Return how busy the GPUs of tasks are, as their nodes say."""
    holders = [task for task in tasks if task.gpus]
    nodes = list({task.node_id: None for task in holders})
    requests = [node_pb2.ListUsageRequest(node=node) for node in nodes]
    told = await asyncio.gather(*[sources.ask("ListUsage", request, asked.caller) for request in requests])
    busy = {
        (node, gpu.gpu): gpu.busy_milli / 1000
        for node, answer in zip(nodes, told, strict=True)
        for view in (answer.nodes if answer else ())
        for gpu in view.usage.gpus
    }
    shares = {
        task.id: [busy[task.node_id, gpu] for gpu in task.gpus if (task.node_id, gpu) in busy] for task in holders
    }
    return {task: sum(found) / len(found) for task, found in shares.items() if found}
