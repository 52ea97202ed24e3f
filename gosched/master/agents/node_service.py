"""NodeService: agents register, report and get their orders; operators cordon, drain and remove nodes. Served by the
leader.

Invariant: a heartbeat itself never enters the log, only what changed; an agent may forget a result only once it is
committed; and no agent is given a lease that another leader may not know of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import structlog

from gosched.config import MasterSettings
from gosched.core.access import Permission, job_object
from gosched.core.commands.command import Body
from gosched.core.commands.nodes import (
    AwaitNode,
    ControlNode,
    LabelNode,
    NodeAction,
    RemoveNode,
    ReportTasks,
    TaskReport,
)
from gosched.core.limits import MAX_LOST_AT_ONCE, MAX_NAME_LENGTH, MAX_TASKS
from gosched.core.outcome import Accepted, Code, Rejected
from gosched.core.reasons import Reason, RefusalReason
from gosched.core.records.node import ClosedBy, Node, NodeState
from gosched.core.records.task import TaskState
from gosched.core.spec.placement_rules import Taint
from gosched.master.agents.answers import Answers, holds_tasks_with_lease, without_orders
from gosched.master.agents.joined_labels import bound_labels
from gosched.master.agents.leases import Leases
from gosched.master.agents.live_usage import LiveUsage
from gosched.master.agents.node_control import UnfitNodes, control_command, staying_jobs
from gosched.master.agents.node_listing import list_nodes
from gosched.master.agents.observations import node_usage, observations, registration, spark_progress
from gosched.master.agents.reconcile import Verdict, compare
from gosched.master.agents.revocation_news import RevocationNews
from gosched.master.agents.spark_scaling import scale_applications
from gosched.master.agents.talks import Talks
from gosched.master.base.access import Access
from gosched.master.base.callers import Caller, denied
from gosched.master.base.channels import Channels
from gosched.master.base.clock import StateClock
from gosched.master.base.errors import ApiError, accepted, parsed, unavailable
from gosched.master.base.leadership import Leadership
from gosched.master.base.proposals import Named, Proposals, has_answers_only
from gosched.master.base.turns import sliced
from gosched.replication.interface import Replication
from gosched.state_machine.joining import joined_node, why_shut_out
from gosched.wire.codec import map_pairs
from gosched.wire.roles import ANY_NODE, Role
from gosched.wire.v1 import node_pb2, node_pb2_grpc, worker_pb2, worker_pb2_grpc

PROBE_TIMEOUT_S = 1.0
FOREIGN_ADVICE = (
    "correct the agent's masters, or, to move the node over, end its tasks and start it with an empty data directory"
)
MAX_LEFTOVERS_NAMED = 20  # in a line of the log
MAX_REPORTS = 256  # in one command: each may carry a long detail
MAX_LOG_JOBS = 256  # that a heartbeat asks about

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeService(node_pb2_grpc.NodeServiceServicer):
    replication: Replication
    leadership: Leadership
    proposals: Proposals
    leases: Leases
    usage: LiveUsage
    unfit: UnfitNodes
    agents: Channels
    clock: StateClock
    settings: MasterSettings
    access: Access
    talks: Talks
    answers: Answers
    revoked: RevocationNews = field(default_factory=RevocationNews)

    async def RegisterNode(self, request: node_pb2.RegisterNodeRequest, context: Any) -> node_pb2.RegisterNodeResponse:
        self._check_own_node(request.node_id, request.name, context)
        observed = observations(request.tasks)
        self._check_cluster(request)
        self._check_clock(request)
        await self._check_not_in_use(request)
        epoch = self.leadership.epoch
        found = compare(self.replication.state, request.node_id, observed)
        leftovers = found.leftovers
        answer = node_pb2.RegisterNodeResponse(
            stop_first=leftovers,
            forget=found.forget,
            heartbeat_ms=self.leases.heartbeat_ms,
            epoch=epoch,
            cluster_id=self.replication.state.cluster_id,
            lineage=self.replication.state.lineage,
            epoch_confirmed=True,
        )
        if leftovers:
            log.warning(
                "a node has tasks that this cluster does not know: they are stopped before it takes work",
                node=request.node_id,
                tasks=", ".join(leftovers[:MAX_LEFTOVERS_NAMED]),
                count=len(leftovers),
            )
            await self.proposals.barrier()
            self._check_leads(epoch)
            return answer  # without a lease: it has none yet
        self._check_kept(request.node_id)
        accepted(
            await self.proposals.propose(
                bound_labels(registration(request), context.caller, self.replication.state), epoch=epoch
            )
        )
        self._check_kept(request.node_id)
        node = self.replication.state.nodes.get(request.node_id)
        if node is None or node.state is NodeState.DEAD or node.incarnation != request.incarnation:
            raise unavailable("the node has died or registered anew meanwhile; ask again")
        answer.registration = node.registration
        self.leases.renew(request.node_id)
        answer.lease_ms = self.leases.lease_ms(request.node_id)
        return answer

    async def Heartbeat(self, request: node_pb2.HeartbeatRequest, context: Any) -> node_pb2.HeartbeatResponse:
        epoch, state = self.leadership.epoch, self.replication.state
        node = state.nodes.get(request.node_id)
        if node is None or not _is_of(request, node):
            return without_orders(state, epoch, register_again=True)
        self._check_own_node(request.node_id, node.name, context)
        self._check_kept(request.node_id)
        if self.talks.is_late(node, request.number) or (node.away_ms and not request.goodbye):
            raise unavailable("a later heartbeat of the node was answered: this one does not count")
        if not node.away_ms:
            self.leases.is_back(request.node_id)
        self.leases.renew(request.node_id)
        self.clock.heard_agent(request.node_id, request.clock_ms)
        observed = observations(request.tasks)
        if request.goodbye:
            return await self._await_return(request, node, observed, epoch)
        spark = spark_progress(request.spark, observed)
        version = request.version[:MAX_NAME_LENGTH]
        self.usage.take(request.node_id, node_usage(request.usage), observed, version, spark)
        known = request.epoch in (0, epoch)  # 0: the agent does not say
        verdict = compare(state, node.id, observed, self.talks.missing(node, epoch) if known else ())
        self.talks.note_missing(node, epoch if known else 0, verdict.missing)
        compared_at = state.revision
        await self.unfit.take(state.nodes[request.node_id], request.unfit, epoch)  # first: what it lost may come again
        await scale_applications(self.proposals, state, request.node_id, spark, epoch)
        if verdict.reports and not await self._commit(request, verdict.reports, epoch):
            return without_orders(state, epoch, register_again=True)
        if holds_tasks_with_lease(self.replication.state, request.node_id):
            await self._confirm(epoch)
            self._check_kept(request.node_id)
            self.leases.renew(request.node_id, tasks_end_with_it=True)
        self._check_kept(request.node_id)
        if self.replication.state.revision != compared_at:
            verdict = compare(self.replication.state, node.id, observed)
        return self._answer(request, verdict, epoch, context.caller.address)

    async def CordonNode(self, request: node_pb2.ControlNodeRequest, context: Any) -> node_pb2.ControlNodeResponse:
        return await self._control(request, NodeAction.CORDON)

    async def UncordonNode(self, request: node_pb2.ControlNodeRequest, context: Any) -> node_pb2.ControlNodeResponse:
        return await self._control(request, NodeAction.UNCORDON)

    async def DrainNode(self, request: node_pb2.ControlNodeRequest, context: Any) -> node_pb2.ControlNodeResponse:
        answer = await self._control(request, NodeAction.DRAIN)
        if not has_answers_only():
            await self._drain_the_rest(answer.node_id)
            answer.staying.extend(staying_jobs(self.replication.state, answer.node_id))
        return answer

    async def RemoveNode(self, request: node_pb2.ControlNodeRequest, context: Any) -> node_pb2.ControlNodeResponse:
        return await self._change(lambda: RemoveNode(node_id=request.node), request)

    async def LabelNode(self, request: node_pb2.LabelNodeRequest, context: Any) -> node_pb2.ControlNodeResponse:
        command = LabelNode(
            node_id=request.node,
            labels=map_pairs(request.labels),
            drop_labels=tuple(request.drop_labels),
            taints=tuple([parsed(taint, Taint) for taint in request.taints]),
            drop_taints=tuple(request.drop_taints),
        )
        return await self._change(lambda: command, request)

    async def ListUsage(self, request: node_pb2.ListUsageRequest, context: Any) -> node_pb2.ListUsageResponse:
        state = self.replication.state
        answer = node_pb2.ListUsageResponse(revision=state.revision)
        if request.job:
            job = self.access.find_job(context.caller, Permission.VIEW_JOB, request.job)
            held = [task.allocation_id for task in state.tasks_of(job) if task.state.is_active]
            answer.tasks.extend(await self.usage.tasks(state, held))
            return answer
        async for view in sliced(self.usage.nodes(state, request.node)):
            answer.nodes.append(view)
        if request.tasks:
            on_node: Iterable[str] = state.node_allocations.get(request.node, {}) if request.node else state.allocations
            lists = self.access.lists(context.caller)
            if lists is not None:
                on_node = [
                    held
                    async for held in sliced(list(on_node))
                    if held in state.allocations and lists(job_object(state.jobs[state.allocations[held].job_id]))
                ]
            answer.tasks.extend(await self.usage.tasks(state, on_node))
        return answer

    async def ListNodes(self, request: node_pb2.ListNodesRequest, context: Any) -> node_pb2.ListNodesResponse:
        await self.proposals.barrier()
        return await list_nodes(lambda: self.replication.state, request, self.leases.age_ms)

    async def _drain_the_rest(self, node_id: str) -> None:
        """Repeat a drain until nothing is left to stop: one command stops only so many tasks."""
        for _ in range(MAX_TASKS // MAX_LOST_AT_ONCE):
            node = self.replication.state.nodes.get(node_id)
            if node is None or node.state is not NodeState.DRAINING:
                return
            again = ControlNode(
                node_id=node_id, action=NodeAction.DRAIN, by=ClosedBy.OPERATOR, drain_by_ms=node.drain_by_ms
            )
            outcome = await self.proposals.propose(again, epoch=self.leadership.epoch)
            if isinstance(outcome, Rejected) or outcome.unchanged:  # refused: the drain has taken effect all the same
                return

    async def _control(self, request: node_pb2.ControlNodeRequest, action: NodeAction) -> node_pb2.ControlNodeResponse:
        return await self._change(lambda: control_command(request, action, self.clock.now_ms()), request)

    async def _change(self, command: Callable[[], Body], request: Named) -> node_pb2.ControlNodeResponse:
        async def change() -> Accepted:
            return accepted(
                await self.proposals.propose(command(), client_id=request.client_id, request_id=request.request_id)
            )

        taken = await self.proposals.once(request, change)
        revision = self.replication.state.revision
        return node_pb2.ControlNodeResponse(node_id=taken.subject, unchanged=taken.unchanged, revision=revision)

    async def _confirm(self, epoch: int) -> None:
        """Confirm that this master still leads. Raises ApiError, and the agent asks another one: a lease from a former
        leader could outlast the time after which the next one counts the node as dead."""
        if self.leases.is_confirmed():
            return
        asked_s = self.clock.monotonic_s()
        await self.proposals.barrier()
        self._check_leads(epoch)
        self.leases.confirmed(asked_s)

    def _check_leads(self, epoch: int) -> None:
        """Raise ApiError where another master leads by now."""
        if self.leadership.epoch != epoch:
            raise unavailable("this master does not lead any more; ask again")

    def _check_own_node(self, node_id: str, name: str, context: Any) -> None:
        """Check that the agent's certificate names its node, by id or by name, and is the newest of one that joined (or
        the one before, see JoinedNode). Raises ApiError for another node's, and for one that was put by."""
        caller: Caller = context.caller
        if caller.role is not Role.AGENT:
            return
        joined = joined_node(self.replication.state, caller.name)
        if joined is not None and (problem := why_shut_out(self.replication.state, joined, caller.certificate)):
            raise denied(problem)
        if caller.name in (ANY_NODE, node_id):
            return
        if joined is not None:
            raise denied(f"the agent joined as node {caller.name}, and is no other one, such as {node_id!a}")
        known = self.replication.state.nodes.get(node_id)
        names = {name} if known is None else {name, known.name}
        if names != {caller.name}:
            others = " and ".join(sorted(names - {caller.name})) or "without a name"
            raise denied(f"the certificate is of node {caller.name}, not {node_id} ({others}): each needs its own")

    def _check_kept(self, node_id: str) -> None:
        """Raise ApiError for a node that is being given up."""
        if self.leases.is_given_up(node_id):
            raise unavailable("the node was silent for too long and is being declared dead; ask again")

    def _check_cluster(self, request: node_pb2.RegisterNodeRequest) -> None:
        """Refuse a node of another cluster before it is told to stop anything. One that has not joined any yet, and has
        tasks, must be known here."""
        state = self.replication.state
        if request.cluster_id and request.cluster_id not in (state.cluster_id, *state.lineage):
            whose = f"belongs to cluster {request.cluster_id[:MAX_NAME_LENGTH]!a}"
        elif not request.cluster_id and request.tasks and request.node_id not in state.nodes:
            whose = f"has {len(request.tasks)} tasks and is not known here"
        else:
            return
        raise ApiError(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"node {request.node_id[:MAX_NAME_LENGTH]!a} {whose}, and this is cluster "
            f"{state.cluster_id or 'without an id'}: {FOREIGN_ADVICE}",
            reason=RefusalReason.FOREIGN_CLUSTER,
        )

    def _check_clock(self, request: node_pb2.RegisterNodeRequest) -> None:
        """Check the node's clock. Raises ApiError. While the masters do not agree, no node's clock is refused."""
        agreed_ms = self.clock.agreed_ms()
        self.clock.heard_agent(request.node_id, request.clock_ms)
        if agreed_ms is None:
            return
        skew_ms = request.clock_ms - agreed_ms
        if abs(skew_ms) > self.settings.limits.max_clock_skew_ms:
            side = "ahead of" if skew_ms > 0 else "behind"
            raise ApiError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"the node's clock is {abs(skew_ms) // 1000} s {side} the masters': set the node's clock (for example"
                " with NTP); the agent goes on asking",
                reason=RefusalReason.CLOCK_SKEW,
            )

    async def _check_not_in_use(self, request: node_pb2.RegisterNodeRequest) -> None:
        """Refuse a second agent with one data directory (or a copy of it), which would fight over the node."""
        node = self.replication.state.nodes.get(request.node_id)
        if node is None or node.state is NodeState.DEAD or node.incarnation == request.incarnation:
            return
        if node.address == request.address:
            return  # it was started anew on the same port, so the agent before it is gone
        stub = worker_pb2_grpc.WorkerServiceStub(self.agents.to_agent(node))
        try:
            found = await stub.GetIdentity(worker_pb2.GetIdentityRequest(), timeout=PROBE_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:  # it may be slow; if it is gone, its lease ends soon
                raise unavailable(f"cannot tell yet whether the agent at {node.address} lives; ask again") from error
            return  # no agent is there any more
        if (found.node_id, found.incarnation) == (node.id, node.incarnation):
            raise ApiError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"node id {node.id} is in use by the agent at {node.address}: give this agent its own data directory",
                reason=RefusalReason.NODE_ID_IN_USE,
            )

    async def _await_return(
        self, request: node_pb2.HeartbeatRequest, node: Node, observed: Sequence[TaskReport], epoch: int
    ) -> node_pb2.HeartbeatResponse:
        """Take an agent's goodbye: no more work for the node, and its tasks wait for its return. What it has not got
        yet, and takes no more, is placed elsewhere."""
        answer = without_orders(self.replication.state, epoch)
        away_ms = self.settings.lease.goodbye_ms
        if not node.registration or not away_ms:
            return answer
        accepted(
            await self.proposals.propose(
                AwaitNode(
                    node_id=node.id, incarnation=node.incarnation, registration=node.registration, for_ms=away_ms
                ),
                epoch=epoch,
            )
        )
        self.leases.wait_for(node.id, away_ms / 1000)
        verdict = compare(self.replication.state, node.id, observed)
        detail = "the node's agent was stopped before the task came to it"
        never = [
            TaskReport(allocation_id=i, state=TaskState.LOST, reason=Reason.NODE_FAULT, detail=detail)
            for i in verdict.start
        ]
        await self._commit(request, [*verdict.reports, *never], epoch)
        answer.lease_ms, answer.away_ms = self.leases.lease_ms(node.id), away_ms
        return answer

    async def _commit(self, request: node_pb2.HeartbeatRequest, reports: Sequence[TaskReport], epoch: int) -> bool:
        """Commit the reports. Return False when the node is not counted as alive under this incarnation any more."""
        for start in range(0, len(reports), MAX_REPORTS):
            command = ReportTasks(
                node_id=request.node_id,
                incarnation=request.incarnation,
                reports=tuple(reports[start : start + MAX_REPORTS]),
                registration=request.registration,
            )
            outcome = await self.proposals.propose(command, epoch=epoch)
            if not isinstance(outcome, Rejected):
                continue
            if outcome.code is not Code.MACHINE_BUG:
                return False
            if len(command.reports) > 1:  # one by one: a report that meets a bug keeps no other one out
                for report in command.reports:
                    if not await self._commit(request, [report], epoch):
                        return False
        return True

    def _answer(
        self, request: node_pb2.HeartbeatRequest, verdict: Verdict, epoch: int, asked_from: str
    ) -> node_pb2.HeartbeatResponse:
        """Return the answer. The node may have died while the reports were committed."""
        state = self.replication.state
        node = state.nodes.get(request.node_id)
        if node is None or not _is_of(request, node):
            return without_orders(state, epoch, register_again=True)
        answer = self.answers.make(
            state,
            node,
            verdict,
            epoch=epoch,
            lease_ms=self.leases.lease_ms(node.id),
            heartbeat_ms=self.leases.heartbeat_ms,
            heard=request.heard,
            by_way_of=asked_from or "?",
        )
        known = state.jobs
        answer.forgotten_jobs.extend(job for job in request.log_jobs[:MAX_LOG_JOBS] if job not in known)
        self.revoked.tell(answer, state, request.revoked_etag)
        return answer


def _is_of(request: node_pb2.HeartbeatRequest, node: Node) -> bool:
    """Return whether a heartbeat is of the node's present registration."""
    sender = (request.incarnation, request.registration)
    return node.state is not NodeState.DEAD and (node.incarnation, node.registration) == sender
