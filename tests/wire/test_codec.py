"""Every pair of the codec's list compiles: a record and its message have the same fields."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gosched.core.commands.nodes import RegisterNode
from gosched.core.resources import Resources
from gosched.core.spec.task_group import TaskGroup
from gosched.wire.codec import (
    MAX_ALL_INTERNED_BYTES,
    MAX_INTERNED_BYTES,
    PAIRS,
    message_type,
    to_message,
    to_record,
)
from gosched.wire.v1 import node_pb2, types_pb2
from tests.wire.records import record_at


@pytest.mark.parametrize("place", PAIRS)
def test_a_record_and_its_message_have_the_same_fields(place: str) -> None:
    kind = record_at(place)
    message = message_type(kind)
    record = to_record(message(), kind)
    assert to_record(to_message(record, message), kind) == record


def test_a_registration_holds_all_that_the_replicated_command_has() -> None:
    command, wider = message_type(RegisterNode).DESCRIPTOR, node_pb2.RegisterNodeRequest.DESCRIPTOR

    def shapes(described):  # type: ignore[no-untyped-def]
        return {(f.name, f.type, f.message_type.name if f.message_type else "") for f in described.fields}

    assert shapes(command) <= shapes(wider)


def test_a_program_loads_the_messages_that_it_uses_alone() -> None:
    """The codec's list names all records and all messages, and imports none of them."""
    loaded = "import sys, gosched.wire.codec; print([m for m in sys.modules if m.startswith('gosched.wire.v1.')])"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"


def test_equal_task_groups_are_decoded_to_one_record_and_their_number_is_bounded() -> None:
    def group(*command: str) -> TaskGroup:
        return TaskGroup(name="main", count=1, command=command, resources=Resources(cpu_millis=100))

    def decoded(*command: str) -> TaskGroup:
        return to_record(to_message(group(*command), types_pb2.TaskGroup), TaskGroup)

    assert decoded("true") is decoded("true")
    assert decoded("true") == group("true")
    assert decoded("false") == group("false")
    long = "x" * MAX_INTERNED_BYTES
    assert decoded(long) == decoded(long)
    assert decoded(long) is not decoded(long)
    first = decoded("true")
    for number in range(MAX_ALL_INTERNED_BYTES // 1000 + 2):
        decoded("x" * 1000, str(number))
    assert decoded("true") is not first
    assert decoded("true") == first
