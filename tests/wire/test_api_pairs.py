"""What the API answers with keeps every field, from the message to the record and back."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message

from gosched.wire.api_pairs import API_PAIRS
from gosched.wire.codec import to_message, to_record
from tests.api.messages import full

ids = [kind.__name__ for kind, _ in API_PAIRS]


@pytest.mark.parametrize(("kind", "message"), API_PAIRS, ids=ids)
def test_no_field_is_lost_between_the_message_and_the_record(kind: type, message: type[Message]) -> None:
    sent = full(message, step=1037)
    assert all(sent.HasField(f.name) for f in sent.DESCRIPTOR.fields if f.has_presence), "the check sees all fields"
    assert to_message(to_record(sent, kind), message) == sent


@pytest.mark.parametrize(("kind", "message"), API_PAIRS, ids=ids)
def test_what_is_unset_in_a_message_of_an_older_release_stays_unset(kind: type, message: type[Message]) -> None:
    record = to_record(message(), kind)
    assert to_record(to_message(record, message), kind) == record
