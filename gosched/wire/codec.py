"""Maps the frozen records of gosched/core and gosched/api to their protobuf messages, field by field, and back.

The pairs below are the whole list. A pair is compiled when it is first used, both directions at once: so the hot path
has no reflection, and a short program such as a command pays for the records that it uses alone.

Invariant: a record and its message have the same fields; a field that only one of them has is an error, which a test
looks for in all pairs.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum
from importlib import import_module
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from google.protobuf.message import Message

from gosched.core.primitives import StringMap
from gosched.core.replace import draft_of
from gosched.core.resources import AmountMap
from gosched.wire.api_pairs import API_PAIRS

# Records that are equal in many others.
INTERNED = frozenset(
    {
        "core.spec.task_group.TaskGroup",
        "core.spec.array.Array",
        "core.spec.policies.GangPolicy",
        "core.spec.policies.RetryPolicy",
        "core.spec.policies.Preemption",
        "core.records.job.Children",
    }
)
# Texts that are equal in many records: each is kept once, with its hash.
INTERNED_TEXTS = frozenset({"queue", "tenant", "user", "node_id"})
MAX_INTERNED_BYTES = 4 * 1024  # of one: larger ones are seldom equal
MAX_ALL_INTERNED_BYTES = 1024 * 1024  # of each kind
_RECORD_BYTES = 256  # that a record takes at least

R = TypeVar("R")
M = TypeVar("M", bound=Message)
T = TypeVar("T")
Encoder = Callable[[Any, Any], None]  # (record, message to fill)
Decoder = Callable[[Any], Any]

#: Records and their messages, by where they are in `gosched` and `gosched.wire.v1`.
PAIRS: Mapping[str, str] = {
    "core.resources.Resources": "types_pb2.Resources",
    "core.records.usage.Usage": "types_pb2.Usage",
    "core.records.usage.Spent": "types_pb2.Spent",
    "core.spec.placement_rules.TopologyRule": "types_pb2.TopologyRule",
    "core.spec.placement_rules.SpreadRule": "types_pb2.SpreadRule",
    "core.spec.placement_rules.Affinity": "types_pb2.Affinity",
    "core.spec.placement_rules.AntiAffinity": "types_pb2.AntiAffinity",
    "core.spec.placement_rules.Toleration": "types_pb2.Toleration",
    "core.spec.placement_rules.Taint": "types_pb2.Taint",
    "core.spec.isolation.Volume": "types_pb2.Volume",
    "core.spec.isolation.Rlimit": "types_pb2.Rlimit",
    "core.spec.isolation.Isolation": "types_pb2.Isolation",
    "core.spec.secret_use.SecretUse": "types_pb2.SecretUse",
    "core.spec.task_group.TaskGroup": "types_pb2.TaskGroup",
    "core.spec.policies.GangPolicy": "types_pb2.GangPolicy",
    "core.spec.policies.RetryPolicy": "types_pb2.RetryPolicy",
    "core.spec.policies.Preemption": "types_pb2.Preemption",
    "core.spec.dependency.Dependency": "types_pb2.Dependency",
    "core.spec.array.Axis": "types_pb2.Axis",
    "core.spec.array.Array": "types_pb2.Array",
    "core.spec.job_spec.JobSpec": "types_pb2.JobSpec",
    "core.records.job.Children": "types_pb2.Children",
    "core.records.job.Job": "types_pb2.Job",
    "core.records.task.Task": "types_pb2.Task",
    "core.records.allocation.Allocation": "types_pb2.Allocation",
    "core.records.allocation.TaskPlacement": "types_pb2.TaskPlacement",
    "core.records.fence.Fence": "types_pb2.Fence",
    "core.records.reservation.Share": "types_pb2.Share",
    "core.records.reservation.Reservation": "types_pb2.Reservation",
    "core.records.window.Window": "types_pb2.Window",
    "core.records.node.Hardware": "types_pb2.Hardware",
    "core.records.node.Node": "types_pb2.Node",
    "core.records.queue.Queue": "types_pb2.Queue",
    "core.records.tenant.Quota": "types_pb2.Quota",
    "core.records.tenant.Account": "types_pb2.Account",
    "core.records.tenant.Tenant": "types_pb2.Tenant",
    "core.records.access.Binding": "types_pb2.Binding",
    "core.records.access.Token": "types_pb2.Token",
    "core.records.secret.Secret": "types_pb2.Secret",
    "core.records.run_history.RunHistory": "types_pb2.RunHistory",
    "core.records.tenant.UnixAccount": "types_pb2.UnixAccount",
    "core.records.revocation.Revocation": "types_pb2.Revocation",
    "core.records.join.JoinToken": "types_pb2.JoinToken",
    "core.records.join.JoinedNode": "types_pb2.JoinedNode",
    "core.records.master.Master": "types_pb2.Master",
    "core.records.master.Member": "types_pb2.Member",
    "core.records.master.Configuration": "types_pb2.Configuration",
    "core.records.follow_up.FollowUpStep": "log_pb2.FollowUpStep",
    "core.records.follow_up.FollowUp": "log_pb2.FollowUp",
    "core.outcome.Answer": "log_pb2.Answer",
    "core.outcome.Answered": "log_pb2.Answered",
    "core.commands.cluster.Noop": "log_pb2.Noop",
    "core.commands.cluster.Skipped": "log_pb2.Skipped",
    "core.commands.cluster.OpenEpoch": "log_pb2.OpenEpoch",
    "core.commands.cluster.SetFeatureLevel": "log_pb2.SetFeatureLevel",
    "core.commands.cluster.SetQueues": "log_pb2.SetQueues",
    "core.commands.cluster.SetQuotas": "log_pb2.SetQuotas",
    "core.commands.cluster.AnnounceMaster": "log_pb2.AnnounceMaster",
    "core.commands.cluster.SetMembers": "log_pb2.SetMembers",
    "core.commands.jobs.SubmitJob": "log_pb2.SubmitJob",
    "core.commands.jobs.CancelJob": "log_pb2.CancelJob",
    "core.commands.jobs.DropFinishedJobs": "log_pb2.DropFinishedJobs",
    "core.commands.nodes.RegisterNode": "log_pb2.RegisterNode",
    "core.commands.nodes.MarkNodeDead": "log_pb2.MarkNodeDead",
    "core.commands.nodes.AwaitNode": "log_pb2.AwaitNode",
    "core.commands.nodes.RemoveNode": "log_pb2.RemoveNode",
    "core.commands.jobs.ControlJob": "log_pb2.ControlJob",
    "core.commands.nodes.ControlNode": "log_pb2.ControlNode",
    "core.commands.nodes.LabelNode": "log_pb2.LabelNode",
    "core.commands.jobs.RunSchedule": "log_pb2.RunSchedule",
    "core.commands.jobs.WaitNote": "log_pb2.WaitNote",
    "core.commands.jobs.NoteWaitReasons": "log_pb2.NoteWaitReasons",
    "core.commands.cluster.PassTime": "log_pb2.PassTime",
    "core.commands.jobs.NextRun": "log_pb2.NextRun",
    "core.commands.cluster.SetClock": "log_pb2.SetClock",
    "core.commands.cluster.SetWindow": "log_pb2.SetWindow",
    "core.commands.cluster.DropWindow": "log_pb2.DropWindow",
    "core.commands.access.SetBindings": "log_pb2.SetBindings",
    "core.commands.access.CreateToken": "log_pb2.CreateToken",
    "core.commands.access.RevokeToken": "log_pb2.RevokeToken",
    "core.commands.secrets.SetSecret": "log_pb2.SetSecret",
    "core.commands.secrets.DeleteSecret": "log_pb2.DeleteSecret",
    "core.commands.secrets.ResealSecret": "log_pb2.ResealSecret",
    "core.commands.revocation.RevokeCertificate": "log_pb2.RevokeCertificate",
    "core.commands.revocation.UnrevokeCertificate": "log_pb2.UnrevokeCertificate",
    "core.commands.join.CreateJoinToken": "log_pb2.CreateJoinToken",
    "core.commands.join.RevokeJoinToken": "log_pb2.RevokeJoinToken",
    "core.commands.join.UseJoinToken": "log_pb2.UseJoinToken",
    "core.commands.join.RenewJoinedNode": "log_pb2.RenewJoinedNode",
    "core.commands.plans.Eviction": "log_pb2.Eviction",
    "core.commands.plans.GangPlacement": "log_pb2.GangPlacement",
    "core.commands.plans.CommitPlan": "log_pb2.CommitPlan",
    "core.commands.nodes.TaskReport": "types_pb2.TaskReport",
    "core.commands.nodes.ReportTasks": "log_pb2.ReportTasks",
    "core.orders.TaskOrder": "worker_pb2.TaskOrder",
    "core.orders.StopOrder": "worker_pb2.StopOrder",
    **API_PAIRS,
}


class _Compiled(dict[type, T]):
    """Encoders or decoders by record; one that is missing is compiled."""

    def __missing__(self, kind: type) -> T:
        _compile(kind, message_type(kind))
        return self[kind]


_ENCODERS: _Compiled[Encoder] = _Compiled()
_DECODERS: _Compiled[Decoder] = _Compiled()


class _Values(dict[int, IntEnum]):
    """The values of an enum by their numbers: a look into a dict takes a fifth of the time of a call of the enum."""

    def __init__(self, kind: type[IntEnum]) -> None:
        super().__init__({int(value): value for value in kind})
        self._kind = kind

    def __missing__(self, number: int) -> IntEnum:
        return self._kind(number)  # raises ValueError


class _Interned:
    """Decodes equal messages to one record: thousands of jobs have the same task groups."""

    def __init__(self, decode: Decoder) -> None:
        self._decode = decode
        self._known: dict[bytes, Any] = {}
        self._size = 0  # of all, in bytes

    def __call__(self, message: Message) -> Any:
        data = message.SerializeToString()
        record = self._known.get(data)
        if record is None:
            record = self._decode(message)
            if len(data) <= MAX_INTERNED_BYTES:
                size = len(data) + _RECORD_BYTES
                self._size += size
                if self._size > MAX_ALL_INTERNED_BYTES:
                    self._known.clear()
                    self._size = size
                self._known[data] = record
        return record


def to_message(record: Any, kind: type[M]) -> M:
    """Return the message of a record; `kind` says which, for the type checker."""
    message = kind()
    _ENCODERS[type(record)](record, message)
    return message


def fill(record: Any, message: Message) -> None:
    """Write a record into an empty message that is there already: its own, or one that holds its fields and more."""
    _ENCODERS[type(record)](record, message)


def to_record(message: Message, kind: type[R]) -> R:
    """Return the record of a message, its own or one that holds its fields and more. Raises ValueError on an enum
    number that this version does not know."""
    record: R = _DECODERS[kind](message)
    return record


def message_type(kind: type) -> type[Message]:
    """Return the message of a record. Raises KeyError where it has none."""
    module, _, name = PAIRS[_place(kind)].rpartition(".")
    found: type[Message] = getattr(import_module(f"gosched.wire.v1.{module}"), name)
    return found


def map_pairs(mapping: Any) -> Any:
    """Return a protobuf map as the sorted pairs of a record."""
    return tuple(sorted(mapping.items())) if mapping else ()


def _place(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("gosched.")


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and _place(hint) in PAIRS


def _compile(kind: type, message: type[Message]) -> None:
    hints = get_type_hints(kind)
    known = message.DESCRIPTOR.fields_by_name
    names = [f.name for f in fields(kind)] if is_dataclass(kind) else list(hints)  # of a named tuple
    if set(names) != set(known):
        raise TypeError(f"{kind.__name__} and its message differ: {sorted(set(names) ^ set(known))}")
    writers: list[str] = []
    readers: list[str] = []
    scope: dict[str, Any] = {"map_pairs": map_pairs, "kind": kind, "new": object.__new__, "intern": sys.intern}
    for name in names:
        write, read = _field(name, hints[name], known[name], scope)
        writers.append(write)
        readers.append(read)
    body = "\n".join(f"    {line}" for line in writers) or "    pass"
    exec(f"def encode(r, m):\n{body}\n{_decoder(kind, names, readers, scope)}", scope)  # noqa: S102 - names from our own classes only
    decode = scope["decode"]
    _ENCODERS[kind], _DECODERS[kind] = scope["encode"], _Interned(decode) if _place(kind) in INTERNED else decode


def _decoder(kind: type, names: Sequence[str], readers: Sequence[str], scope: dict[str, Any]) -> str:
    """Return the source for making a record of a message `m`."""
    if not is_dataclass(kind):
        values = ", ".join(f"{name}={read}" for name, read in zip(names, readers, strict=True))
        return f"def decode(m):\n    return kind({values})\n"
    scope["draft"] = draft_of(kind)
    lines = "".join(f"    r.{name} = {read}\n" for name, read in zip(names, readers, strict=True))
    return f"def decode(m):\n    r = new(draft)\n{lines}    r.__class__ = kind\n    return r\n"


def _field(name: str, hint: Any, field: Any, scope: dict[str, Any]) -> tuple[str, str]:
    """Return the source for writing the field from record `r` to message `m`, and for reading it from `m`."""
    if get_origin(hint) in (Union, types.UnionType):  # `int | None`
        if _is_record(record := get_args(hint)[0]):
            write, read = _field(name, record, field, scope)
            return f"if r.{name} is not None: {write}", f"({read} if m.HasField('{name}') else None)"
        return (f"if r.{name} is not None: m.{name} = r.{name}", f"(m.{name} if m.HasField('{name}') else None)")
    if hint in (StringMap, AmountMap):
        return f"if r.{name}: m.{name}.update(r.{name})", f"map_pairs(m.{name})"
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        if _is_record(item):
            scope[f"e_{name}"], scope[f"d_{name}"] = _ENCODERS[item], _DECODERS[item]
            return (
                f"for x in r.{name}: e_{name}(x, m.{name}.add())",
                f"(tuple([d_{name}(x) for x in m.{name}]) if m.{name} else ())",
            )
        if issubclass(item, IntEnum):
            scope[f"k_{name}"] = _Values(item)
            return f"if r.{name}: m.{name}.extend(r.{name})", f"tuple([k_{name}[x] for x in m.{name}])"
        return f"if r.{name}: m.{name}.extend(r.{name})", f"tuple(m.{name})"
    if _is_record(hint):
        scope[f"e_{name}"], scope[f"d_{name}"] = _ENCODERS[hint], _DECODERS[hint]
        return f"e_{name}(r.{name}, m.{name}); m.{name}.SetInParent()", f"d_{name}(m.{name})"
    if issubclass(hint, IntEnum):
        numbers = {v.number for v in field.enum_type.values}
        if numbers != {int(v) for v in hint}:
            raise TypeError(f"{hint.__name__} and {field.enum_type.name} have different numbers")
        scope[f"k_{name}"] = _Values(hint)
        return f"if r.{name}: m.{name} = r.{name}", f"k_{name}[m.{name}]"
    if hint is float:  # -0.0 is false, and not what a field without a value is read as
        return f"m.{name} = r.{name}", f"m.{name}"
    read = f"intern(m.{name})" if name in INTERNED_TEXTS else f"m.{name}"
    return f"if r.{name}: m.{name} = r.{name}", read
