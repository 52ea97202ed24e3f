"""The overview: masters and their lag, capacity, what waits longest and why, what an operator should look at."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gosched.api.history import HistoryEvent
from gosched.api.status import Status
from gosched.core.records.node import NodeState
from gosched.core.sharing import Amounts, add_to
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.callers import Caller
from gosched.master.web.capacity import CapacityRow, capacity_rows
from gosched.master.web.page import Asked
from gosched.master.web.recent_events import recent_events
from gosched.master.web.sources import Sources
from gosched.master.web.sparkline import Sparkline, sparkline
from gosched.master.web.trends import RESOURCES, Sample
from gosched.master.web.usage import node_uses
from gosched.master.web.waiting import WaitingJob, longest_waiting
from gosched.master.web.warnings import Warning, find_warnings
from gosched.wire.codec import to_record
from gosched.wire.v1 import cluster_pb2, scheduler_pb2

WAITING_SHOWN = 10
EVENTS_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterRow:
    """A master, as the leader sees it."""

    id: str
    role: str
    healthy: bool
    #: Entries of the log that it has not acknowledged; None: not known.
    behind: int | None
    clock_offset_ms: int | None
    version: str
    #: Where it serves pages; empty: not known, or it is this one.
    http_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A trend of an hour."""

    #: As in the answer of `/ui/trends`.
    name: str
    line: Sparkline
    #: The cluster has had none of it; once a node brings some, `charts.js` shows it.
    hidden: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What the overview shows."""

    status: Status
    masters: tuple[MasterRow, ...]
    nodes: Mapping[str, int]
    capacity: tuple[CapacityRow, ...]
    #: None: the leader does not say what is really used.
    measured: bool
    waiting: tuple[WaitingJob, ...]
    events: tuple[HistoryEvent, ...]
    warnings: tuple[Warning, ...]
    charts: tuple[Chart, ...]


async def overview(sources: Sources, asked: Asked) -> Overview:
    """Build the view."""
    uses, members, waiting, events, status = await asyncio.gather(
        node_uses(sources, asked.caller),
        sources.ask("ListMembers", cluster_pb2.ListMembersRequest(), asked.caller),
        longest_waiting(sources, asked, WAITING_SHOWN),
        recent_events(sources, asked.caller, EVENTS_SHOWN),
        leader_status(sources, asked.caller),
    )
    lags = {m.id: (m.behind if m.HasField("behind") else None) for m in members.members} if members else {}
    await asyncio.sleep(0)
    warnings = find_warnings(sources.state, status, lags)
    await asyncio.sleep(0)
    counts = _node_counts(sources.state)
    await asyncio.sleep(0)  # with thousands of nodes each part takes a slice of time
    state = sources.state
    return Overview(
        status=status,
        masters=_masters(sources, status, lags),
        nodes=counts,
        capacity=capacity_rows(state, _demand(status), uses),
        measured=bool(uses),
        waiting=waiting,
        events=events,
        warnings=warnings,
        charts=_charts(sources.trends.samples()),
    )


async def leader_status(sources: Sources, caller: Caller) -> Status:
    """Return the leader's status; this master's own where none answers."""
    answer = await sources.ask("GetClusterStatus", scheduler_pb2.GetClusterStatusRequest(), caller)
    return to_record(answer, Status) if answer is not None else sources.status.read()


def trend_series(sources: Sources) -> dict[str, Any]:
    """Return the trends as columns, as charts take them."""
    samples = sources.trends.samples()
    charts: dict[str, Any] = {
        name: {
            "total": [sample.total[place] for sample in samples],
            "held": [sample.used[place] for sample in samples],
            "wanted": [sample.demand[place] for sample in samples],
        }
        for place, name in enumerate(RESOURCES)
    }
    charts["jobs"] = {
        "running": [sample.running for sample in samples],
        "pending": [sample.pending for sample in samples],
    }
    return {"at_s": [sample.at_ms // 1000 for sample in samples], "charts": charts}


def _masters(sources: Sources, status: Status, lags: Mapping[str, int | None]) -> tuple[MasterRow, ...]:
    me = sources.replication.member_id
    return tuple(
        [
            MasterRow(
                id=master.id,
                role=master.role if master.healthy else "unknown",
                healthy=master.healthy,
                behind=lags.get(master.id),
                clock_offset_ms=master.clock_offset_ms,
                version=master.version,
                http_address="" if master.id == me else master.http_address,
            )
            for master in status.masters
        ]
    )


def _node_counts(state: ClusterState) -> dict[str, int]:
    counts = {node_state.name: 0 for node_state in NodeState if node_state}
    for node in state.nodes.values():
        counts[node.state.name] = counts.get(node.state.name, 0) + 1
    return counts


def _demand(status: Status) -> Amounts:
    demand: Amounts = {}
    for queue in status.queues:
        if "." not in queue.path:
            add_to(demand, dict(queue.demand))
    return demand


def _charts(samples: list[Sample]) -> tuple[Chart, ...]:
    charts = []
    for place, name in enumerate(RESOURCES):
        highest = max([sample.total[place] for sample in samples], default=0)
        line = sparkline([sample.used[place] for sample in samples], highest)
        charts.append(Chart(name=name, line=line, hidden=not highest))
    running = [sample.running for sample in samples]
    return (*charts, Chart(name="jobs", line=sparkline(running, max(running, default=0)), hidden=False))
