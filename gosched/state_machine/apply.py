"""One command in, one outcome and its events out: repeats, then the fence, then the noun's handler.

Invariant: total. What can go wrong with a command is a `Rejected` that changed nothing, and handlers check all of it
before they write. So an exception here is a bug of ours, and each master meets it alike. Where nothing was written yet
the command is refused for it (`Code.MACHINE_BUG`), on all masters alike, and the cluster goes on. Otherwise, and for an
exception that one master may meet alone, `MachineBug` leaves `apply`: the state may not be used any more, and the
replica must stop with its message (PySyncObj would try the command again forever). The log still holds the command, for
a mended version, or until operators have it skipped. See docs/adr/0099-commands-that-meet-a-bug.md.
"""

from __future__ import annotations

from typing import assert_never

from gosched.core.commands.access import CreateToken, RevokeToken, SetBindings
from gosched.core.commands.cluster import (
    AnnounceMaster,
    DropWindow,
    Noop,
    OpenEpoch,
    PassTime,
    SetClock,
    SetFeatureLevel,
    SetMembers,
    SetQueues,
    SetQuotas,
    SetWindow,
    Skipped,
)
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import CancelJob, ControlJob, DropFinishedJobs, NoteWaitReasons, RunSchedule, SubmitJob
from gosched.core.commands.join import CreateJoinToken, RenewJoinedNode, RevokeJoinToken, UseJoinToken
from gosched.core.commands.nodes import (
    AwaitNode,
    ControlNode,
    LabelNode,
    MarkNodeDead,
    RegisterNode,
    RemoveNode,
    ReportTasks,
)
from gosched.core.commands.plans import CommitPlan
from gosched.core.commands.revocation import RevokeCertificate, UnrevokeCertificate
from gosched.core.commands.secrets import DeleteSecret, ResealSecret, SetSecret
from gosched.core.events import CommandFailed, Event, JobChanged
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_DETAIL_LENGTH
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.replace import replace
from gosched.core.rules.values import check_id
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import (
    access,
    answers,
    bugs,
    children,
    clock,
    dependencies,
    epochs,
    features,
    fences,
    follow_ups,
    job_control,
    jobs,
    joining,
    node_control,
    node_labels,
    nodes,
    plans,
    queues,
    quotas,
    revocation,
    secrets,
    size_limits,
    tasks,
    timeouts,
    windows,
)

Applied = tuple[Outcome, tuple[Event, ...]]


class MachineBug(Exception):
    """A handler raised when it had begun to write: the state is of no use any more, and the process that owns it must
    stop."""

    #: Of the command in its log entry, from 1; 0: it is in none.
    position = 0


def apply(state: ClusterState, command: Command) -> Applied:
    """Apply one command. `revision` counts every one of them, the refused and the repeated too. Raises MachineBug, and
    MemoryError, which says nothing of the command."""
    state.revision += 1
    state.clock_ms = clock.moved(state, command.at_ms)
    events: list[Event] = []
    try:
        outcome = _answer(state, command, events)
    except MemoryError:
        raise
    except Exception as error:
        raise MachineBug(
            f"{type(command.body).__name__} at revision {state.revision} met a bug ({type(error).__name__}: {error})"
        ) from error
    return outcome, tuple(events)


def _answer(state: ClusterState, command: Command, events: list[Event]) -> Outcome:
    if not command.request_id:
        return _fence(state, command) or _carried_out(state, command.body, events)
    found = check_id("client id", command.client_id) or check_id("request id", command.request_id)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    first = state.answer_to(command.client_id, command.request_id)
    if first is not None:
        return answers.outcome_of(first)
    if (refused := answers.refusal(state, command)) is not None:
        return refused
    fenced = _fence(state, command)
    if fenced is not None:  # not remembered: the next leader may ask it again
        return fenced
    outcome = _carried_out(state, command.body, events)
    if isinstance(outcome, Rejected) and state.feature_level >= FeatureLevel.BOUNDED:
        outcome = replace(outcome, detail=outcome.detail[:MAX_DETAIL_LENGTH])  # it is remembered as it is answered
    answers.remember(state, command, outcome)
    return outcome


def _fence(state: ClusterState, command: Command) -> Rejected | None:
    if command.epoch in (0, state.epoch):
        return None
    return Rejected(code=Code.STALE_EPOCH, detail=f"epoch {command.epoch} is over; {state.leader} opened {state.epoch}")


def _carried_out(state: ClusterState, body: Body, events: list[Event]) -> Outcome:
    """Carry the command out. One that meets a bug before the first write is refused: what raised follows from state and
    command, so no master writes."""
    before = state.writes
    try:
        return _carry_out(state, body, events)
    except bugs.ALIKE as error:
        failed = bugs.refused(state, before, type(body).__name__, error)
        events[:] = [failed]
        met = f"{failed.command} met a bug of gosched ({failed.why}) and changed nothing"
        return Rejected(code=Code.MACHINE_BUG, detail=f"{met}: please report it with the leader's log")


def _carry_out(state: ClusterState, body: Body, events: list[Event]) -> Outcome:
    """Do what the command says, then what follows from it: jobs that ended release or end others, and fences whose
    victims have ended become starts."""
    behind = bool(state.follow_ups)
    outcome = _dispatch(state, body, events)
    if state.feature_level >= FeatureLevel.BOUNDED:
        at_once = 0 if behind else follow_ups.STEPS_AT_ONCE
        steps = follow_ups.STEPS_PER_TICK if isinstance(body, PassTime) else at_once
        follow_ups.take_events(state, events, steps=steps)
    else:
        _follow_all(state, events)
    if isinstance(outcome, Accepted):  # a refusal changes nothing, though time has passed
        fences.follow_up(state, events)
        size_limits.trim_kept(state, events)
    return outcome


def _follow_all(state: ClusterState, events: list[Event]) -> None:
    for event in events:  # it grows meanwhile
        if isinstance(event, JobChanged) and event.after.is_final:
            job = state.jobs[event.job_id]
            dependencies.job_ended(state, events, job)
            if job.parent:
                children.child_ended(state, events, job)


def _dispatch(state: ClusterState, body: Body, events: list[Event]) -> Outcome:
    match body:
        case SubmitJob():
            return jobs.submit(state, body, events)
        case CommitPlan():
            return plans.commit(state, body, events)
        case ReportTasks():
            return tasks.report(state, body, events)
        case CancelJob():
            return jobs.cancel_one(state, body, events)
        case DropFinishedJobs():
            return jobs.drop_finished(state, body, events)
        case RegisterNode():
            return nodes.register(state, body, events)
        case MarkNodeDead():
            return nodes.mark_dead(state, body, events)
        case AwaitNode():
            return nodes.await_node(state, body, events)
        case RemoveNode():
            return node_control.remove(state, body, events)
        case SetQueues():
            return queues.set_all(state, body, events)
        case SetQuotas():
            return quotas.set_some(state, body, events)
        case OpenEpoch():
            return epochs.open_next(state, body, events)
        case SetFeatureLevel():
            return features.set_level(state, body)
        case AnnounceMaster():
            return epochs.announce(state, body)
        case SetMembers():
            return epochs.set_members(state, body)
        case Noop():
            return Accepted()
        case Skipped():
            return _skipped(state, body, events)
        case LabelNode():
            return node_labels.label(state, body, events)
        case ControlNode():
            return node_control.control(state, body, events)
        case ControlJob():
            return job_control.control(state, body, events)
        case NoteWaitReasons():
            return jobs.note_wait_reasons(state, body, events)
        case RunSchedule():
            return children.run_schedule(state, body, events)
        case PassTime():
            return timeouts.pass_time(state, events)
        case SetClock():
            return clock.set_clock(state, body, events)
        case SetWindow():
            return windows.set_one(state, body, events)
        case DropWindow():
            return windows.drop(state, body, events)
        case SetBindings():
            return access.set_bindings(state, body, events)
        case CreateToken():
            return access.create_token(state, body, events)
        case RevokeToken():
            return access.revoke_token(state, body, events)
        case SetSecret():
            return secrets.set_secret(state, body)
        case DeleteSecret():
            return secrets.delete_secret(state, body)
        case ResealSecret():
            return secrets.reseal_secret(state, body)
        case RevokeCertificate():
            return revocation.revoke_certificate(state, body, events)
        case UnrevokeCertificate():
            return revocation.unrevoke_certificate(state, body, events)
        case CreateJoinToken():
            return joining.create(state, body)
        case RevokeJoinToken():
            return joining.revoke(state, body)
        case UseJoinToken():
            return joining.use(state, body, events)
        case RenewJoinedNode():
            return joining.renew(state, body)
        case _:
            assert_never(body)


def _skipped(state: ClusterState, body: Skipped, events: list[Event]) -> Outcome:
    events.append(CommandFailed(command=body.kind, why="skipped"))
    is_known = state.feature_level >= FeatureLevel.BOUNDED  # by all masters
    code = Code.MACHINE_BUG if is_known else Code.CONFLICT
    return Rejected(code=code, detail=f"{body.kind} met a bug of gosched, and operators had it skipped")
