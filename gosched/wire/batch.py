"""The bytes of a log entry: a versioned batch of commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from gosched.core import command as c
from gosched.core.features import NEWEST_LEVEL
from gosched.wire.codec import fill, to_record
from gosched.wire.v1 import log_pb2

# The schema of an entry is the feature level (`core/features.py`) that its reader must know.
# 2: queues with orders and limits, quotas, shares of GPUs, named CPUs, elastic gangs, placement rules.
# 3: evictions, fences, reservations, windows, deadlines, arrays, schedules, dependencies, timeouts.
# 4: isolation, usage, nodes closed and drained, jobs frozen.
# 5: feature levels, cluster ids, nodes removed, follow-ups, the members.
SCHEMA = NEWEST_LEVEL
OLDEST_SCHEMA = 1  # what it lacks has the defaults of the records

# Each kind of command, and its field in the message's `body`.
_FIELDS: dict[type, str] = {
    c.Noop: "noop",
    c.OpenEpoch: "open_epoch",
    c.SetFeatureLevel: "set_feature_level",
    c.SetQueues: "set_queues",
    c.SetQuotas: "set_quotas",
    c.AnnounceMaster: "announce_master",
    c.SetMembers: "set_members",
    c.SubmitJob: "submit_job",
    c.CancelJob: "cancel_job",
    c.DropFinishedJobs: "drop_finished_jobs",
    c.RegisterNode: "register_node",
    c.MarkNodeDead: "mark_node_dead",
    c.RemoveNode: "remove_node",
    c.CommitPlan: "commit_plan",
    c.ReportTasks: "report_tasks",
    c.ControlJob: "control_job",
    c.ControlNode: "control_node",
    c.RunSchedule: "run_schedule",
    c.PassTime: "pass_time",
    c.SetClock: "set_clock",
    c.SetWindow: "set_window",
    c.DropWindow: "drop_window",
}
_KINDS = {field: kind for kind, field in _FIELDS.items()}


class UnknownSchema(Exception):
    """The entry was written by a newer gosched. Applying part of it would make this master differ from the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """`proposer` and `proposal` name the proposal that made the entry."""

    proposer: str
    proposal: int
    commands: tuple[c.Command, ...]


def encode_command(command: c.Command) -> log_pb2.Command:
    message = log_pb2.Command(
        client_id=command.client_id, request_id=command.request_id, epoch=command.epoch, at_ms=command.at_ms
    )
    body = getattr(message, _FIELDS[type(command.body)])
    body.SetInParent()
    fill(command.body, body)
    return message


def encode_batch(proposer: str, proposal: int, commands: Sequence[log_pb2.Command], *, level: int = SCHEMA) -> bytes:
    """`level`: the cluster's feature level. An entry that raises it is of the new level."""
    raised = [command.set_feature_level.level for command in commands if command.HasField("set_feature_level")]
    return log_pb2.CommandBatch(
        schema=max([level, *raised]), proposer=proposer, proposal=proposal, commands=commands
    ).SerializeToString()


def decode_batch(data: bytes) -> Batch:
    """Raises UnknownSchema for what a newer version wrote, and for bytes that are not a batch at all."""
    try:
        message = log_pb2.CommandBatch.FromString(data)
        if not OLDEST_SCHEMA <= message.schema <= SCHEMA:
            raise UnknownSchema(f"log entry of schema {message.schema}; this gosched knows {SCHEMA}: upgrade it")
        commands = tuple([_decode_command(m) for m in message.commands])
    except (DecodeError, ValueError) as error:
        raise UnknownSchema(f"log entry that this gosched cannot read ({error}): upgrade it") from error
    return Batch(proposer=message.proposer, proposal=message.proposal, commands=commands)


def _decode_command(message: log_pb2.Command) -> c.Command:
    field = message.WhichOneof("body")
    if field is None:
        raise UnknownSchema("log entry with a command that this gosched does not know: upgrade it")
    return c.Command(
        body=to_record(getattr(message, field), _KINDS[field]),
        client_id=message.client_id,
        request_id=message.request_id,
        epoch=message.epoch,
        at_ms=message.at_ms,
    )
