"""The bytes of a log entry: a versioned batch of commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

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
from gosched.core.commands.command import Command
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
from gosched.core.features import NEWEST_LEVEL
from gosched.wire.codec import fill, to_record
from gosched.wire.v1 import log_pb2

# The schema of an entry is the feature level (`core/features.py`) that its reader must know.
# 2: queues with orders and limits, quotas, shares of GPUs, named CPUs, elastic gangs, placement rules.
# 3: evictions, fences, reservations, windows, deadlines, arrays, schedules, dependencies, timeouts.
# 4: isolation, usage, nodes closed and drained, jobs frozen.
# 5: feature levels, cluster ids, nodes removed, follow-ups, the members, wait reasons noted, bindings and tokens,
# secrets, revoked certificates, joins.
SCHEMA = NEWEST_LEVEL
OLDEST_SCHEMA = 1  # what it lacks has the defaults of the records

# Each kind of command, and its field in the message's `body`.
_FIELDS: dict[type, str] = {
    Noop: "noop",
    OpenEpoch: "open_epoch",
    SetFeatureLevel: "set_feature_level",
    SetQueues: "set_queues",
    SetQuotas: "set_quotas",
    AnnounceMaster: "announce_master",
    SetMembers: "set_members",
    SubmitJob: "submit_job",
    CancelJob: "cancel_job",
    DropFinishedJobs: "drop_finished_jobs",
    RegisterNode: "register_node",
    MarkNodeDead: "mark_node_dead",
    RemoveNode: "remove_node",
    CommitPlan: "commit_plan",
    ReportTasks: "report_tasks",
    ControlJob: "control_job",
    ControlNode: "control_node",
    LabelNode: "label_node",
    RunSchedule: "run_schedule",
    NoteWaitReasons: "note_wait_reasons",
    PassTime: "pass_time",
    SetClock: "set_clock",
    SetWindow: "set_window",
    DropWindow: "drop_window",
    SetBindings: "set_bindings",
    CreateToken: "create_token",
    RevokeToken: "revoke_token",
    SetSecret: "set_secret",
    DeleteSecret: "delete_secret",
    ResealSecret: "reseal_secret",
    RevokeCertificate: "revoke_certificate",
    UnrevokeCertificate: "unrevoke_certificate",
    CreateJoinToken: "create_join_token",
    RevokeJoinToken: "revoke_join_token",
    UseJoinToken: "use_join_token",
    RenewJoinedNode: "renew_joined_node",
    AwaitNode: "await_node",
    Skipped: "skipped",
}
_KINDS = {field: kind for kind, field in _FIELDS.items()}


class UnknownSchema(Exception):
    """The entry was written by a newer gosched. Applying part of it would make this master differ from the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The commands of a log entry."""

    #: Random id of the front that proposed it.
    proposer: str
    #: Counts up within the proposer; both together name the proposal.
    proposal: int
    commands: tuple[Command, ...]


def encode_command(command: Command) -> log_pb2.Command:
    message = log_pb2.Command(
        client_id=command.client_id, request_id=command.request_id, epoch=command.epoch, at_ms=command.at_ms
    )
    body = getattr(message, _FIELDS[type(command.body)])
    body.SetInParent()
    fill(command.body, body)
    return message


def encode_batch(proposer: str, proposal: int, commands: Sequence[log_pb2.Command], *, level: int = SCHEMA) -> bytes:
    """Return the bytes. `level`: the cluster's feature level. An entry that raises it is of the new level."""
    raised = [command.set_feature_level.level for command in commands if command.HasField("set_feature_level")]
    return log_pb2.CommandBatch(
        schema=max([level, *raised]), proposer=proposer, proposal=proposal, commands=commands
    ).SerializeToString()


def decode_batch(data: bytes) -> Batch:
    """Return the batch. Raises UnknownSchema for what a newer version wrote, and for bytes that are not a batch at
    all."""
    try:
        message = log_pb2.CommandBatch.FromString(data)
        if not OLDEST_SCHEMA <= message.schema <= SCHEMA:
            raise UnknownSchema(f"log entry of schema {message.schema}; this gosched knows {SCHEMA}: upgrade it")
        commands = tuple([_decode_command(m) for m in message.commands])
    except (DecodeError, ValueError) as error:
        raise UnknownSchema(f"log entry that this gosched cannot read ({error}): upgrade it") from error
    return Batch(proposer=message.proposer, proposal=message.proposal, commands=commands)


def name_of(data: bytes, position: int) -> str:
    """Return the name of a command of a batch, counted from 1; empty: there is none. Raises UnknownSchema."""
    commands = decode_batch(data).commands
    return type(commands[position - 1].body).__name__ if 0 < position <= len(commands) else ""


def skip_in(data: bytes, position: int, *, level: int) -> bytes:
    """Return the batch with `Skipped` in the place of a command; masters that read it know this level."""
    message = log_pb2.CommandBatch.FromString(data)
    command = message.commands[position - 1]
    skipped = Skipped(kind=name_of(data, position))
    command.skipped.SetInParent()  # of the oneof: the body before it goes
    fill(skipped, command.skipped)
    message.schema = max(message.schema, level)
    return message.SerializeToString()


def _decode_command(message: log_pb2.Command) -> Command:
    field = message.WhichOneof("body")
    if field is None:
        raise UnknownSchema("log entry with a command that this gosched does not know: upgrade it")
    return Command(
        body=to_record(getattr(message, field), _KINDS[field]),
        client_id=message.client_id,
        request_id=message.request_id,
        epoch=message.epoch,
        at_ms=message.at_ms,
    )
