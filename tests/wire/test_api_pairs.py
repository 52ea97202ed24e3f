"""What the API answers with keeps every field, from the message to the record and back."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message

from gosched.wire.api_pairs import API_PAIRS
from gosched.wire.codec import message_type, to_message, to_record
from tests.api.messages import full
from tests.wire.records import record_at

KINDS = [record_at(place) for place in API_PAIRS]
PAIRS = [(kind, message_type(kind)) for kind in KINDS]
ids = [kind.__name__ for kind in KINDS]


@pytest.mark.parametrize(("kind", "message"), PAIRS, ids=ids)
def test_no_field_is_lost_between_the_message_and_the_record(kind: type, message: type[Message]) -> None:
    sent = full(message, step=1037)
    assert all(sent.HasField(f.name) for f in sent.DESCRIPTOR.fields if f.has_presence), "the check sees all fields"
    assert to_message(to_record(sent, kind), message) == sent


@pytest.mark.parametrize(("kind", "message"), PAIRS, ids=ids)
def test_what_is_unset_in_a_message_of_an_older_release_stays_unset(kind: type, message: type[Message]) -> None:
    record = to_record(message(), kind)
    assert to_record(to_message(record, message), kind) == record
