"""What a heartbeat is answered: the orders that it calls for, and under what they were made.

Invariant: the answer follows from one revision of the state, which it names; an order that the agent has, or is about
to get from a push, is named and not sent again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gosched.core.orders import StopOrder
from gosched.core.reasons import Reason
from gosched.core.records.node import Node
from gosched.core.spec.job_spec import OnDisconnect
from gosched.core.state.cluster_state import ClusterState
from gosched.master.agents.orders import Orders, stop_order
from gosched.master.agents.reconcile import Verdict
from gosched.master.agents.secret_opener import NotYet, SecretOpener
from gosched.master.agents.talks import Talks
from gosched.observe.faults import Faults
from gosched.wire.codec import to_message
from gosched.wire.v1 import node_pb2, worker_pb2

MAX_START_BYTES = 1024 * 1024  # of start orders in one answer; the others follow with the next one


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    secrets: SecretOpener
    talks: Talks
    faults: Faults
    orders: Orders = field(default_factory=Orders)

    def make(
        self,
        state: ClusterState,
        node: Node,
        verdict: Verdict,
        *,
        epoch: int,
        lease_ms: int,
        heartbeat_ms: int,
        heard: int,
        by_way_of: str,
    ) -> node_pb2.HeartbeatResponse:
        """Return the answer. `heard`: of the heartbeat; `by_way_of`: the address that the answer goes to."""
        answer = without_orders(state, epoch)
        answer.forget.extend(verdict.forget)
        answer.freeze.extend(verdict.freeze)
        answer.thaw.extend(verdict.thaw)
        answer.lease_ms = lease_ms
        answer.heartbeat_ms = heartbeat_ms
        answer.revision = state.revision
        answer.masters.extend([master.grpc_address for master in state.masters.values() if master.grpc_address])
        self._add_starts(answer, state, node, verdict, heard, by_way_of)
        stops = [stop_order(state, state.allocations[i]) for i in verdict.stop]
        stops += [StopOrder(allocation_id=i, grace_ms=0, reason=Reason.NOT_EXPECTED) for i in verdict.leftovers]
        answer.stop.extend(to_message(order, worker_pb2.StopOrder) for order in stops)
        return answer

    def _add_starts(
        self,
        answer: node_pb2.HeartbeatResponse,
        state: ClusterState,
        node: Node,
        verdict: Verdict,
        heard: int,
        by_way_of: str,
    ) -> None:
        pushed = self.talks.answer(node, heard)
        size = 0
        for allocation_id in verdict.start:
            if allocation_id in pushed:
                answer.under_way.append(allocation_id)
                continue
            if size > MAX_START_BYTES:
                continue
            try:
                secrets = self.secrets.of(state, state.allocations[allocation_id], by_way_of=by_way_of)
                order = to_message(self.orders.start(state, state.allocations[allocation_id]), worker_pb2.TaskOrder)
            except NotYet:
                continue
            except Exception as error:  # a bug that one order meets: the node gets its lease and the others
                self.faults.caught("orders", error)
                continue
            size += order.ByteSize()
            answer.start.append(order)
            if secrets is not None:
                size += secrets.ByteSize()
                answer.secrets.append(secrets)
        self.talks.told(node, [order.allocation_id for order in answer.start])


def without_orders(state: ClusterState, epoch: int, *, register_again: bool = False) -> node_pb2.HeartbeatResponse:
    """Return what every answer says of its cluster."""
    return node_pb2.HeartbeatResponse(
        epoch=epoch, cluster_id=state.cluster_id, lineage=state.lineage, register_again=register_again
    )


def holds_tasks_with_lease(state: ClusterState, node_id: str) -> bool:
    """Return whether tasks there end by their lease once the node has lost the masters, so that they may be
    replaced."""
    held = state.node_allocations.get(node_id, ())
    return any(state.jobs[state.allocations[a].job_id].spec.on_disconnect is OnDisconnect.STOP for a in held)
