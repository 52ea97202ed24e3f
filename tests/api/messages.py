"""Messages with a value in every field, made by walking their descriptors: what a test of all fields starts from."""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

M = TypeVar("M", bound=Message)

FIRST_MS = 1_700_000_000_000
#: By resource: built-in names, a GPU model, one of the cluster's own.
AMOUNTS = {"cpu": 1500, "memory": 3 << 30, "gpu": 2000, "gpu:h100": 500, "licenses": 3}


def full(kind: type[M], *, step: int) -> M:
    """Fill the n-th number of a message with n * `step`, a moment or an amount with more."""
    message = kind()
    _fill(message, [0], step)
    return message


def _fill(message: Message, count: list[int], step: int) -> None:
    for field in message.DESCRIPTOR.fields:
        if field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry:
            values = getattr(message, field.name)
            numbers = field.message_type.fields_by_name["value"].cpp_type != FieldDescriptor.CPPTYPE_STRING
            values.update(AMOUNTS if numbers else {"zone": "b", "team": "nlp"})
        elif field.is_repeated and field.message_type is not None:
            for _ in range(2):
                _fill(getattr(message, field.name).add(), count, step)
        elif field.is_repeated:
            getattr(message, field.name).extend([_value(field, count, step) for _ in range(2)])
        elif field.message_type is not None:
            _fill(getattr(message, field.name), count, step)
        else:
            setattr(message, field.name, _value(field, count, step))


def _value(field: FieldDescriptor, count: list[int], step: int) -> Any:
    count[0] += 1
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if (field.containing_type.name, field.name) in _OF_ONE_GROUP:
            return "worker"
        case FieldDescriptor.CPPTYPE_STRING:
            return f"{field.name}-{count[0]}"
        case FieldDescriptor.CPPTYPE_BOOL:
            return True
        case FieldDescriptor.CPPTYPE_ENUM:
            return field.enum_type.values[1 + count[0] % (len(field.enum_type.values) - 1)].number
        case _ if field.name.endswith("_at_ms") or field.name in _MOMENTS:
            return FIRST_MS + count[0] * step
        case _:
            return count[0] * step


_OF_ONE_GROUP = {("TaskGroup", "name"), ("Task", "group")}
_MOMENTS = {"clock_ms", "start_ms", "end_ms", "until_ms", "before_ms", "after_ms", "last_success_ms", "drain_by_ms"}
