"""Every pair of the codec's list compiles: a record and its message have the same fields."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gosched.core.commands.nodes import RegisterNode
from gosched.wire.codec import PAIRS, message_type, to_message, to_record
from gosched.wire.v1 import node_pb2
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
