"""Maps the frozen records of gosched/core to protobuf messages of the same name, field by field, and back.

The pairs below are the whole list. Both directions are compiled once per pair, so the hot path has no reflection.

Invariant: a record and its message have the same fields; a field that only one of them has is an error at import.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from google.protobuf.message import Message

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
)
from gosched.core.commands.jobs import CancelJob, ControlJob, DropFinishedJobs, NextRun, RunSchedule, SubmitJob
from gosched.core.commands.nodes import ControlNode, MarkNodeDead, RegisterNode, RemoveNode, ReportTasks, TaskReport
from gosched.core.commands.plans import CommitPlan, Eviction, GangPlacement
from gosched.core.orders import StopOrder, TaskOrder
from gosched.core.outcome import Answer
from gosched.core.primitives import StringMap
from gosched.core.records.allocation import Allocation, TaskPlacement
from gosched.core.records.fence import Fence
from gosched.core.records.follow_up import FollowUp, FollowUpStep
from gosched.core.records.job import Children, Job
from gosched.core.records.master import Configuration, Master, Member
from gosched.core.records.node import Hardware, Node
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.task import Task
from gosched.core.records.tenant import Account, Quota, Tenant
from gosched.core.records.usage import Spent, Usage
from gosched.core.records.window import Window
from gosched.core.resources import AmountMap, Resources
from gosched.core.spec.array import Array, Axis
from gosched.core.spec.dependency import Dependency
from gosched.core.spec.isolation import Isolation, Rlimit, Volume
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import Affinity, AntiAffinity, SpreadRule, Taint, Toleration, TopologyRule
from gosched.core.spec.policies import GangPolicy, Preemption, RetryPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.wire.api_pairs import API_PAIRS
from gosched.wire.v1 import log_pb2, node_pb2, types_pb2, worker_pb2

R = TypeVar("R")
M = TypeVar("M", bound=Message)
Encoder = Callable[[Any, Any], None]  # (record, message to fill)
Decoder = Callable[[Any], Any]

# Children before parents.
_PAIRS: tuple[tuple[type, type[Message]], ...] = (
    (Resources, types_pb2.Resources),
    (Usage, types_pb2.Usage),
    (Spent, types_pb2.Spent),
    (TopologyRule, types_pb2.TopologyRule),
    (SpreadRule, types_pb2.SpreadRule),
    (Affinity, types_pb2.Affinity),
    (AntiAffinity, types_pb2.AntiAffinity),
    (Toleration, types_pb2.Toleration),
    (Taint, types_pb2.Taint),
    (Volume, types_pb2.Volume),
    (Rlimit, types_pb2.Rlimit),
    (Isolation, types_pb2.Isolation),
    (TaskGroup, types_pb2.TaskGroup),
    (GangPolicy, types_pb2.GangPolicy),
    (RetryPolicy, types_pb2.RetryPolicy),
    (Preemption, types_pb2.Preemption),
    (Dependency, types_pb2.Dependency),
    (Axis, types_pb2.Axis),
    (Array, types_pb2.Array),
    (JobSpec, types_pb2.JobSpec),
    (Children, types_pb2.Children),
    (Job, types_pb2.Job),
    (Task, types_pb2.Task),
    (Allocation, types_pb2.Allocation),
    (TaskPlacement, types_pb2.TaskPlacement),
    (Fence, types_pb2.Fence),
    (Share, types_pb2.Share),
    (Reservation, types_pb2.Reservation),
    (Window, types_pb2.Window),
    (Hardware, types_pb2.Hardware),
    (Node, types_pb2.Node),
    (Queue, types_pb2.Queue),
    (Quota, types_pb2.Quota),
    (Account, types_pb2.Account),
    (Tenant, types_pb2.Tenant),
    (Master, types_pb2.Master),
    (Member, types_pb2.Member),
    (Configuration, types_pb2.Configuration),
    (FollowUpStep, log_pb2.FollowUpStep),
    (FollowUp, log_pb2.FollowUp),
    (Answer, log_pb2.Answer),
    (Noop, log_pb2.Noop),
    (OpenEpoch, log_pb2.OpenEpoch),
    (SetFeatureLevel, log_pb2.SetFeatureLevel),
    (SetQueues, log_pb2.SetQueues),
    (SetQuotas, log_pb2.SetQuotas),
    (AnnounceMaster, log_pb2.AnnounceMaster),
    (SetMembers, log_pb2.SetMembers),
    (SubmitJob, log_pb2.SubmitJob),
    (CancelJob, log_pb2.CancelJob),
    (DropFinishedJobs, log_pb2.DropFinishedJobs),
    (RegisterNode, log_pb2.RegisterNode),
    (MarkNodeDead, log_pb2.MarkNodeDead),
    (RemoveNode, log_pb2.RemoveNode),
    (ControlJob, log_pb2.ControlJob),
    (ControlNode, log_pb2.ControlNode),
    (RunSchedule, log_pb2.RunSchedule),
    (PassTime, log_pb2.PassTime),
    (NextRun, log_pb2.NextRun),
    (SetClock, log_pb2.SetClock),
    (SetWindow, log_pb2.SetWindow),
    (DropWindow, log_pb2.DropWindow),
    (Eviction, log_pb2.Eviction),
    (GangPlacement, log_pb2.GangPlacement),
    (CommitPlan, log_pb2.CommitPlan),
    (TaskReport, types_pb2.TaskReport),
    (ReportTasks, log_pb2.ReportTasks),
    (TaskOrder, worker_pb2.TaskOrder),
    (StopOrder, worker_pb2.StopOrder),
)

# Messages that hold all fields of a record beside others: `fill` and `to_record` take them, too.
_WIDER: tuple[tuple[type, type[Message]], ...] = ((RegisterNode, node_pb2.RegisterNodeRequest),)

_ENCODERS: dict[type, Encoder] = {}
_DECODERS: dict[type, Decoder] = {}
_MESSAGES: dict[type, type[Message]] = {}


def to_message(record: Any, kind: type[M]) -> M:
    """Return the message of a record; `kind` says which, for the type checker."""
    message = kind()
    _ENCODERS[type(record)](record, message)
    return message


def fill(record: Any, message: Message) -> None:
    """Write a record into an empty message that is there already."""
    _ENCODERS[type(record)](record, message)


def to_record(message: Message, kind: type[R]) -> R:
    """Return the record of a message. Raises ValueError on an enum number that this version does not know."""
    record: R = _DECODERS[kind](message)
    return record


def message_type(kind: type) -> type[Message]:
    return _MESSAGES[kind]


def map_pairs(mapping: Any) -> Any:
    """Return a protobuf map as the sorted pairs of a record."""
    return tuple(sorted(mapping.items()))


def _compile(kind: type, message: type[Message]) -> None:
    hints = get_type_hints(kind)
    known = message.DESCRIPTOR.fields_by_name
    names = [f.name for f in fields(kind)] if is_dataclass(kind) else list(hints)  # of a named tuple
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
    """Return the source for writing the field from record `r` to message `m`, and for reading it from `m`."""
    if get_origin(hint) in (Union, types.UnionType):  # `int | None`
        if (record := get_args(hint)[0]) in _ENCODERS:
            write, read = _field(name, record, field, scope)
            return f"if r.{name} is not None: {write}", f"({read} if m.HasField('{name}') else None)"
        return (f"if r.{name} is not None: m.{name} = r.{name}", f"(m.{name} if m.HasField('{name}') else None)")
    if hint in (StringMap, AmountMap):
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


def _check_wider(kind: type, message: type[Message]) -> None:
    missing = _shapes(_MESSAGES[kind]) - _shapes(message)
    if missing:
        raise TypeError(f"{message.__name__} lacks fields of {kind.__name__}: {sorted(missing)}")


def _shapes(message: type[Message]) -> set[tuple[str, int, str]]:
    """Return name and type of each field; of one that holds messages, their name too."""
    described = message.DESCRIPTOR.fields
    return {(f.name, f.type, f.message_type.name if f.message_type is not None else "") for f in described}


for _kind, _message in (*_PAIRS, *API_PAIRS):
    _compile(_kind, _message)
for _kind, _message in _WIDER:
    _check_wider(_kind, _message)
