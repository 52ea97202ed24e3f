"""What is held of nodes, and until when: the facts that the schedule is drawn from.

Invariant: each part of a node's capacity is of one kind: held until a limit, until an estimate, or until an unknown
moment; or promised from a moment on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gosched.core.records.allocation import Allocation
from gosched.core.records.fence import Fence
from gosched.core.records.job import Job
from gosched.core.records.node import Node
from gosched.core.records.reservation import Reservation, Share
from gosched.core.spec.job_spec import group_of
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.turns import sliced
from gosched.master.web.job_ends import JobEnd, job_end
from gosched.master.web.page import HIDDEN, Shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What tasks of one job hold on one node."""

    job_id: str
    job_name: str
    since_ms: int
    end: JobEnd
    gpu_millis: int
    cpu_millis: int
    #: Indexes on the node; of a share, the one GPU.
    gpus: tuple[int, ...]
    tasks: int
    #: Some of its tasks are evicted for another job.
    gives_way: bool

    @property
    def kind(self) -> str:
        """Return how its end is known: estimate, limit or unknown."""
        return "estimate" if self.end.expected_ms else "limit" if self.end.limit_ms else "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What is promised to a job on one node: by a reserved start, or by a fence once its victims have ended."""

    job_id: str
    job_name: str
    is_fence: bool
    start_ms: int
    #: 0: not known.
    end_ms: int
    gpu_millis: int
    cpu_millis: int
    #: Of a fence: indexes on the node. A reserved start has none yet.
    gpus: tuple[int, ...] = ()
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHoldings:
    """A node, and what is held and promised of it."""

    node: Node
    holdings: tuple[Holding, ...]
    promises: tuple[Promise, ...]


async def read_holdings(
    state: ClusterState, nodes: Iterable[Node], now_ms: int, shows: Shows = lambda job: True
) -> list[NodeHoldings]:
    """Return what is held of each of the nodes; jobs that `shows` does not show have no id and no name."""
    promises, ends = _promises(state, shows), dict[str, JobEnd]()
    return [
        NodeHoldings(
            node=node,
            holdings=_holdings(state, node.id, ends, now_ms, shows),
            promises=tuple(promises.get(node.id, ())),
        )
        async for node in sliced(nodes)
    ]


def _holdings(
    state: ClusterState, node_id: str, ends: dict[str, JobEnd], now_ms: int, shows: Shows
) -> tuple[Holding, ...]:
    by_job: dict[str, list[Allocation]] = {}
    for allocation_id in state.node_allocations.get(node_id, ()):
        allocation = state.allocations[allocation_id]
        by_job.setdefault(allocation.job_id, []).append(allocation)
    found = []
    for job_id, held in by_job.items():
        job = state.jobs[job_id]
        if job_id not in ends:
            ends[job_id] = job_end(job, now_ms)
        fences = [state.fences[a.evicted_for_fence] for a in held if a.evicted_for_fence in state.fences]
        by_ms = max([fence.by_ms for fence in fences], default=0)
        found.append(
            Holding(
                **_named(job, shows),
                since_ms=min([a.placed_at_ms for a in held]),
                end=JobEnd(limit_ms=max(by_ms, now_ms), expected_ms=0) if fences else ends[job_id],
                gpu_millis=sum([a.resources.gpu_millis for a in held]),
                cpu_millis=sum([a.resources.cpu_millis for a in held]),
                gpus=held[0].gpus if len(held) == 1 else tuple(sorted({gpu for a in held for gpu in a.gpus})),
                tasks=len(held),
                gives_way=bool(fences),
            )
        )
    return tuple(found)


def _promises(state: ClusterState, shows: Shows) -> Mapping[str, list[Promise]]:
    """Return the promises by node: there are far fewer of them than allocations."""
    found: dict[str, list[Promise]] = {}
    for reservation in state.reservations.values():
        job = state.jobs.get(reservation.job_id)
        if job is not None:
            for share in reservation.shares:
                found.setdefault(share.node_id, []).extend(_reserved(job, reservation, share, shows))
    for fence in state.fences.values():
        job = state.jobs[fence.job_id]
        for node_id in dict.fromkeys(placement.node_id for placement in fence.tasks):
            found.setdefault(node_id, []).append(_fenced(job, fence, node_id, shows))
    return found


def _reserved(job: Job, reservation: Reservation, share: Share, shows: Shows) -> list[Promise]:
    return [
        Promise(
            **_named(job, shows),
            is_fence=False,
            start_ms=reservation.start_ms,
            end_ms=reservation.end_ms,
            gpu_millis=group.resources.gpu_millis * share.count,
            cpu_millis=group.resources.cpu_millis * share.count,
            tasks=share.count,
        )
        for group in job.spec.groups
        if group.name == share.group
    ]


def _fenced(job: Job, fence: Fence, node_id: str, shows: Shows) -> Promise:
    placements = [placement for placement in fence.tasks if placement.node_id == node_id]
    requests = [group_of(job.spec, placement.rank).resources for placement in placements]
    start_ms = fence.by_ms or fence.made_at_ms
    return Promise(
        **_named(job, shows),
        is_fence=True,
        start_ms=start_ms,
        end_ms=start_ms + job.spec.span_ms if job.spec.span_ms else 0,
        gpu_millis=sum([request.gpu_millis for request in requests]),
        cpu_millis=sum([request.cpu_millis for request in requests]),
        gpus=tuple(sorted({gpu for placement in placements for gpu in placement.gpus})),
        tasks=len(placements),
    )


def _named(job: Job, shows: Shows) -> dict[str, Any]:
    return {"job_id": job.id, "job_name": job.spec.name} if shows(job) else {"job_id": "", "job_name": HIDDEN}
