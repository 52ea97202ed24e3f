"""Epochs and the masters that open them.

Invariant: each epoch has one leader, and a number that is never used again.
"""

from __future__ import annotations

from gosched.core.commands.cluster import AnnounceMaster, OpenEpoch, SetMembers
from gosched.core.events import EpochOpened, Event
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.master import Master
from gosched.core.rules.finding import Finding
from gosched.core.rules.values import check_id, check_name
from gosched.core.state.cluster_state import ClusterState


def open_next(state: ClusterState, command: OpenEpoch, events: list[Event]) -> Outcome:
    """Open the next epoch. Commands of older ones are refused from here on."""
    found = _check(command.leader)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    state.set_epoch(state.epoch + 1, command.leader.id)
    state.put_master(command.leader)
    events.append(EpochOpened(epoch=state.epoch, leader=state.leader))
    return Accepted(subject=str(state.epoch))


def announce(state: ClusterState, command: AnnounceMaster) -> Outcome:
    """Remember where a master listens."""
    found = _check(command.master)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    members = state.configuration.members if state.configuration is not None else ()
    if members and all(member.id != command.master.id for member in members):
        return Rejected(code=Code.CONFLICT, detail=f"{command.master.id} is no member of this cluster")
    unchanged = state.masters.get(command.master.id) == command.master
    state.put_master(command.master)
    return Accepted(subject=command.master.id, unchanged=unchanged)


def set_members(state: ClusterState, command: SetMembers) -> Outcome:
    """Set the members of the log. They use it since it is in their logs, so nothing is left to refuse."""
    state.set_configuration(command.configuration)
    return Accepted(subject=str(command.configuration.version))


def _check(master: Master) -> Finding | None:
    return (
        check_name("master id", master.id)
        or check_id("gRPC address", master.grpc_address)
        or check_id("HTTP address", master.http_address)
    )
