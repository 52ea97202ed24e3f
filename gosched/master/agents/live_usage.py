"""What nodes and their tasks use now, by the newest heartbeats: in the leader's memory, never in the log.

Invariant: it is bounded by the nodes that live: the figures of one that has died, or of another epoch, are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from gosched.core.commands.nodes import TaskReport
from gosched.core.records.allocation import Allocation
from gosched.core.records.usage import NO_USAGE, Usage
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.clock import Clock
from gosched.master.base.turns import sliced
from gosched.wire.codec import fill
from gosched.wire.v1 import node_pb2

RATE_S = 2.0  # a rate over less would be noise: heartbeats come at once when a task has changed
EMPTY: Mapping[str, node_pb2.SparkProgress] = MappingProxyType({})


@dataclass(slots=True)
class _Seen:
    """The newest heartbeat of a node."""

    usage: node_pb2.NodeUsage
    #: When it came, by the monotonic clock.
    at_s: float
    tasks: Mapping[str, Usage]
    #: When `base` was read; the next rates are measured from there.
    base_s: float
    #: CPU time by allocation.
    base: Mapping[str, int]
    #: Of the agent.
    version: str
    #: What applications of Spark say of themselves, by their drivers' allocation.
    spark: Mapping[str, node_pb2.SparkProgress]
    #: CPUs in use by allocation, between the last two values of `base`; in thousandths.
    cpu_milli: Mapping[str, int] = field(default_factory=dict)


class LiveUsage:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._nodes: dict[str, _Seen] = {}

    def begin(self) -> None:
        self._nodes.clear()

    def drop(self, node_id: str) -> None:
        self._nodes.pop(node_id, None)

    def take(
        self,
        node_id: str,
        usage: node_pb2.NodeUsage,
        observed: Sequence[TaskReport],
        version: str = "",
        spark: Mapping[str, node_pb2.SparkProgress] = EMPTY,
    ) -> None:
        """Take the figures of a heartbeat. `version`: of the agent."""
        now_s = self._clock.monotonic_s()
        tasks = {report.allocation_id: report.usage for report in observed if not report.state.is_final}
        cpu_ms = {allocation_id: used.cpu_ms for allocation_id, used in tasks.items()}
        before = self._nodes.get(node_id)
        if before is None:
            self._nodes[node_id] = _Seen(
                usage=usage, at_s=now_s, tasks=tasks, base_s=now_s, base=cpu_ms, version=version, spark=spark
            )
            return
        before.usage, before.at_s, before.tasks, before.version = usage, now_s, tasks, version
        before.spark = spark
        passed_s = now_s - before.base_s
        if passed_s >= RATE_S:
            before.cpu_milli = {i: max(0, int((ms - before.base.get(i, 0)) / passed_s)) for i, ms in cpu_ms.items()}
            before.base_s, before.base = now_s, cpu_ms

    def nodes(self, state: ClusterState, node_id: str = "") -> Iterable[node_pb2.NodeUsageView]:
        """Yield the usage of one node, or of all; heartbeats may come meanwhile."""
        now_s = self._clock.monotonic_s()
        for seen_id in [node_id] if node_id in self._nodes else [] if node_id else list(self._nodes):
            if (seen := self._nodes.get(seen_id)) is None:
                continue
            node = state.nodes.get(seen_id)
            if node is not None:
                age_ms = int((now_s - seen.at_s) * 1000)
                yield node_pb2.NodeUsageView(
                    node_id=seen_id, name=node.name, usage=seen.usage, age_ms=age_ms, version=seen.version
                )

    async def tasks(self, state: ClusterState, allocation_ids: Iterable[str]) -> list[node_pb2.TaskUsageView]:
        """Return the usage of the tasks that hold these allocations, also where no heartbeat has named them yet."""
        wanted = list(allocation_ids)
        views = []
        async for allocation_id in sliced(wanted):
            allocation = state.allocations.get(allocation_id)
            if allocation is not None:  # else it has ended while others had their turn
                views.append(self._view(allocation))
        return views

    def _view(self, allocation: Allocation) -> node_pb2.TaskUsageView:
        seen = self._nodes.get(allocation.node_id)
        view = node_pb2.TaskUsageView(
            task_id=allocation.task_id,
            job_id=allocation.job_id,
            node_id=allocation.node_id,
            cpu_milli=seen.cpu_milli.get(allocation.id, 0) if seen else 0,
        )
        fill(seen.tasks.get(allocation.id, NO_USAGE) if seen else NO_USAGE, view.usage)
        if seen and allocation.id in seen.spark:
            view.spark.CopyFrom(seen.spark[allocation.id])
        return view
