"""Maps the frozen records of gosched/core to protobuf messages of the same name, field by field, and back.

The pairs below are the whole list. A field that only one side has is an error at import: neither side can
drift. Both directions are compiled once per pair, so the hot path has no reflection.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import fields
from enum import IntEnum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from google.protobuf.message import Message

from gosched.core import cluster, command, follow_ups, job, outcome, resources, spec, usage
from gosched.wire.v1 import log_pb2, types_pb2

R = TypeVar("R")
M = TypeVar("M", bound=Message)
Encoder = Callable[[Any, Any], None]  # (record, message to fill)
Decoder = Callable[[Any], Any]

# Children before parents.
_PAIRS: tuple[tuple[type, type[Message]], ...] = (
    (resources.Resources, types_pb2.Resources),
    (usage.Usage, types_pb2.Usage),
    (usage.Spent, types_pb2.Spent),
    (spec.TopologyRule, types_pb2.TopologyRule),
    (spec.SpreadRule, types_pb2.SpreadRule),
    (spec.Affinity, types_pb2.Affinity),
    (spec.AntiAffinity, types_pb2.AntiAffinity),
    (spec.Toleration, types_pb2.Toleration),
    (spec.Taint, types_pb2.Taint),
    (spec.Volume, types_pb2.Volume),
    (spec.Rlimit, types_pb2.Rlimit),
    (spec.Isolation, types_pb2.Isolation),
    (spec.TaskGroup, types_pb2.TaskGroup),
    (spec.GangPolicy, types_pb2.GangPolicy),
    (spec.RetryPolicy, types_pb2.RetryPolicy),
    (spec.Preemption, types_pb2.Preemption),
    (spec.Dependency, types_pb2.Dependency),
    (spec.Axis, types_pb2.Axis),
    (spec.Array, types_pb2.Array),
    (spec.JobSpec, types_pb2.JobSpec),
    (job.Children, types_pb2.Children),
    (job.Job, types_pb2.Job),
    (job.Task, types_pb2.Task),
    (cluster.Allocation, types_pb2.Allocation),
    (cluster.TaskPlacement, types_pb2.TaskPlacement),
    (cluster.Fence, types_pb2.Fence),
    (cluster.Share, types_pb2.Share),
    (cluster.Reservation, types_pb2.Reservation),
    (cluster.Window, types_pb2.Window),
    (cluster.Hardware, types_pb2.Hardware),
    (cluster.Node, types_pb2.Node),
    (cluster.Queue, types_pb2.Queue),
    (cluster.Quota, types_pb2.Quota),
    (cluster.Account, types_pb2.Account),
    (cluster.Tenant, types_pb2.Tenant),
    (cluster.Master, types_pb2.Master),
    (cluster.Member, types_pb2.Member),
    (cluster.Configuration, types_pb2.Configuration),
    (follow_ups.FollowUpStep, log_pb2.FollowUpStep),
    (follow_ups.FollowUp, log_pb2.FollowUp),
    (outcome.Answer, log_pb2.Answer),
    (command.Noop, log_pb2.Noop),
    (command.OpenEpoch, log_pb2.OpenEpoch),
    (command.SetFeatureLevel, log_pb2.SetFeatureLevel),
    (command.SetQueues, log_pb2.SetQueues),
    (command.SetQuotas, log_pb2.SetQuotas),
    (command.AnnounceMaster, log_pb2.AnnounceMaster),
    (command.SetMembers, log_pb2.SetMembers),
    (command.SubmitJob, log_pb2.SubmitJob),
    (command.CancelJob, log_pb2.CancelJob),
    (command.DropFinishedJobs, log_pb2.DropFinishedJobs),
    (command.RegisterNode, log_pb2.RegisterNode),
    (command.MarkNodeDead, log_pb2.MarkNodeDead),
    (command.RemoveNode, log_pb2.RemoveNode),
    (command.ControlJob, log_pb2.ControlJob),
    (command.ControlNode, log_pb2.ControlNode),
    (command.RunSchedule, log_pb2.RunSchedule),
    (command.PassTime, log_pb2.PassTime),
    (command.NextRun, log_pb2.NextRun),
    (command.SetClock, log_pb2.SetClock),
    (command.SetWindow, log_pb2.SetWindow),
    (command.DropWindow, log_pb2.DropWindow),
    (command.Eviction, log_pb2.Eviction),
    (command.GangPlacement, log_pb2.GangPlacement),
    (command.CommitPlan, log_pb2.CommitPlan),
    (command.TaskReport, log_pb2.TaskReport),
    (command.ReportTasks, log_pb2.ReportTasks),
)

_ENCODERS: dict[type, Encoder] = {}
_DECODERS: dict[type, Decoder] = {}
_MESSAGES: dict[type, type[Message]] = {}


def to_message(record: Any, kind: type[M]) -> M:
    """The message of a record; `kind` says which, for the type checker."""
    message = kind()
    _ENCODERS[type(record)](record, message)
    return message


def fill(record: Any, message: Message) -> None:
    """Writes a record into an empty message that is there already."""
    _ENCODERS[type(record)](record, message)


def to_record(message: Message, kind: type[R]) -> R:
    """The record of a message. Raises ValueError on an enum number that this version does not know."""
    record: R = _DECODERS[kind](message)
    return record


def message_type(kind: type) -> type[Message]:
    return _MESSAGES[kind]


def map_pairs(mapping: Any) -> Any:
    """A protobuf map as the sorted pairs of a record."""
    return tuple(sorted(mapping.items()))


def _compile(kind: type, message: type[Message]) -> None:
    hints = get_type_hints(kind)
    known = message.DESCRIPTOR.fields_by_name
    names = [f.name for f in fields(kind)]
    if set(names) != set(known):
        raise TypeError(f"{kind.__name__} and its message differ: {sorted(set(names) ^ set(known))}")
    writers: list[str] = []
    readers: list[str] = []
    scope: dict[str, Any] = {"map_pairs": map_pairs, "kind": kind}
    for name in names:
        write, read = _field(name, hints[name], known[name], scope)
        writers.append(write)
        readers.append(f"{name}={read}")
    body = "\n".join(f"    {line}" for line in writers) or "    pass"
    exec(f"def encode(r, m):\n{body}\ndef decode(m):\n    return kind({', '.join(readers)})\n", scope)  # noqa: S102 - names from our own classes only
    _ENCODERS[kind], _DECODERS[kind], _MESSAGES[kind] = scope["encode"], scope["decode"], message


def _field(name: str, hint: Any, field: Any, scope: dict[str, Any]) -> tuple[str, str]:
    """Source for writing the field from record `r` to message `m`, and for reading it from `m`."""
    if get_origin(hint) in (Union, types.UnionType):  # `int | None`
        return (f"if r.{name} is not None: m.{name} = r.{name}", f"(m.{name} if m.HasField('{name}') else None)")
    if hint in (spec.StringMap, resources.AmountMap):
        return f"if r.{name}: m.{name}.update(r.{name})", f"map_pairs(m.{name})"
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        if item in _ENCODERS:
            scope[f"e_{name}"], scope[f"d_{name}"] = _ENCODERS[item], _DECODERS[item]
            return (
                f"for x in r.{name}: e_{name}(x, m.{name}.add())",
                f"tuple([d_{name}(x) for x in m.{name}])",
            )
        if issubclass(item, IntEnum):
            scope[f"k_{name}"] = item
            return f"if r.{name}: m.{name}.extend(r.{name})", f"tuple([k_{name}(x) for x in m.{name}])"
        return f"if r.{name}: m.{name}.extend(r.{name})", f"tuple(m.{name})"
    if hint in _ENCODERS:
        scope[f"e_{name}"], scope[f"d_{name}"] = _ENCODERS[hint], _DECODERS[hint]
        return f"e_{name}(r.{name}, m.{name}); m.{name}.SetInParent()", f"d_{name}(m.{name})"
    if issubclass(hint, IntEnum):
        numbers = {v.number for v in field.enum_type.values}
        if numbers != {int(v) for v in hint}:
            raise TypeError(f"{hint.__name__} and {field.enum_type.name} have different numbers")
        scope[f"k_{name}"] = hint
        return f"m.{name} = r.{name}", f"k_{name}(m.{name})"
    return f"m.{name} = r.{name}", f"m.{name}"


for _kind, _message in _PAIRS:
    _compile(_kind, _message)
