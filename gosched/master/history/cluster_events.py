"""Events of nodes, queues, windows, masters, each with its line."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.commands.cluster import DropWindow, SetFeatureLevel, SetMembers, SetQueues, SetQuotas, SetWindow
from gosched.core.commands.command import Body
from gosched.core.events import ClockSet, EpochOpened, NodeChanged, NodeJoined
from gosched.core.outcome import Accepted
from gosched.core.records.node import NodeState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.clock import utc
from gosched.master.history.draft import Draft
from gosched.master.history.kinds import Kind
from gosched.master.history.words import counted, listed
from gosched.replication.interface import AppliedCommand

N = NodeState


def of_command(state: ClusterState, applied: AppliedCommand) -> Iterator[Draft]:
    """Yield what the command itself says: queues, quotas, the feature level, the members."""
    outcome, body = applied.outcome, applied.command.body
    if not isinstance(outcome, Accepted) or outcome.unchanged:
        return
    match body:
        case SetQueues():
            names = listed([queue.path for queue in body.queues])
            yield Draft(Kind.QUEUES_CHANGED, f"{counted(len(body.queues), 'queue')} set: {names}")
        case SetQuotas():
            names = listed([quota.tenant for quota in body.quotas])
            only = "; all others have none" if body.replace else ""
            yield Draft(Kind.QUOTAS_CHANGED, f"quotas set for {names or 'no tenant'}{only}")
        case SetFeatureLevel():
            yield Draft(Kind.FEATURE_LEVEL_RAISED, f"the cluster's feature level is {body.level}")
        case SetMembers(configuration=configuration):
            names = listed([member.id for member in configuration.members])
            yield Draft(Kind.MEMBERS_CHANGED, f"the masters are {names}")
        case _:
            pass


def node_changed(event: NodeChanged) -> Iterator[Draft]:
    name = event.node.name if event.node is not None else event.node_id
    reason = f": {event.reason}" if event.reason else ""
    kind, what = _node_words(event)
    if what:
        yield Draft(kind, f"node {name} {what}{reason}", node_id=event.node_id, code="")


def node_certified(event: NodeJoined) -> Draft:
    line = f"the agent of node {event.name} joined with token {event.token_id}"
    return Draft(Kind.NODE_CERTIFIED, line, node_id=event.name, code="")


def epoch_opened(event: EpochOpened) -> Draft:
    return Draft(Kind.LEADER_CHANGED, f"{event.leader} leads, in epoch {event.epoch}")


def windows_changed(body: Body) -> Draft:
    match body:
        case SetWindow(window=window):
            end = f"to {utc(window.end_ms)}" if window.end_ms else "without an end"
            nodes = counted(len(window.nodes), "node")
            line = f"window {window.name}: {nodes} from {utc(window.start_ms)} {end}"
        case DropWindow(name=name):
            line = f"window {name} is deleted"
        case _:
            line = "a window has ended"
    return Draft(Kind.WINDOWS_CHANGED, line)


def clock_set(event: ClockSet) -> Draft:
    return Draft(
        Kind.CLOCK_SET_BACK, f"the cluster's clock was set back from {utc(event.from_ms)} to {utc(event.to_ms)}"
    )


def _node_words(event: NodeChanged) -> tuple[Kind, str]:
    match event.before, event.after:
        case N.UNSPECIFIED, _:
            return Kind.NODE_JOINED, "joined" + ("" if event.after is N.READY else f" {event.after.name}")
        case _, N.UNSPECIFIED:
            return Kind.NODE_REMOVED, "was removed"
        case N.DEAD, N.DEAD:
            return Kind.NODE_CHANGED, "has changed"
        case N.DEAD, _:
            return Kind.NODE_BACK, "is back" + ("" if event.after is N.READY else f", {event.after.name}")
        case _, N.DEAD:
            return Kind.NODE_DEAD, "is dead"
        case before, after if before is after:
            return Kind.NODE_CHANGED, "has changed"
        case N.DRAINING, N.CORDONED:
            return Kind.NODE_DRAINED, "is drained and takes no work"
        case _, N.CORDONED:
            return Kind.NODE_CORDONED, "takes no new work"
        case _, N.DRAINING:
            return Kind.NODE_DRAINING, "drains"
        case _:
            return Kind.NODE_UNCORDONED, "takes work again"
