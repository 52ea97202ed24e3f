"""Snapshots as files: a state read back and gone on with is the state that never stopped."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.tables import TABLES
from gosched.replication.disk.damage import DamagedLog
from gosched.replication.snapshots.snapshot import Snapshot, decode, encode, ends, restored, verify
from gosched.state_machine import apply
from gosched.wire.batch import decode_batch, encode_batch, encode_command
from gosched.wire.codec import message_type
from gosched.wire.v1 import log_pb2
from tests.state_machine.chaos import commands, opening

PREVIOUS, LAST = (b"\x00p", 41, 3), (b"\x00l", 42, 3)


def lived_in(seed: int) -> ClusterState:
    state = ClusterState()
    for command in [*opening(), *commands(Random(seed), state, 60)]:
        apply(state, command)
    return state


def as_file(state: ClusterState) -> bytes:
    return b"".join(encode(Snapshot(state.freeze(), PREVIOUS, LAST)))


def test_each_table_has_a_place_in_snapshots_and_is_put_by_a_restore() -> None:
    for table in TABLES:
        assert table.record in log_pb2.SnapshotRecord.DESCRIPTOR.fields_by_name
        assert message_type(table.kind).DESCRIPTOR.name == table.kind.__name__
        assert callable(getattr(ClusterState, f"put_{table.record}"))


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 150), cut=st.integers(0, 149))
def test_a_snapshot_plus_the_tail_equals_the_full_replay(seed: int, count: int, cut: int) -> None:
    state = ClusterState()
    log: list[bytes] = []
    for command in opening():
        log.append(encode_batch("p", 0, [encode_command(command)]))
        apply(state, command)
    before = len(log)
    saved = as_file(state)
    for number, command in enumerate(commands(Random(seed), state, count), 1):
        log.append(encode_batch("p", number, [encode_command(command)]))
        apply(state, command)
        if number == min(cut, count):
            saved = as_file(state)
    again = restored(decode(saved))
    for entry in log[before + min(cut, count) :]:
        for command in decode_batch(entry).commands:
            apply(again, command)
    assert again.digest() == state.digest()
    assert list(again.finished_oldest_first()) == list(state.finished_oldest_first())
    assert as_file(again) == as_file(state), "to the byte: two masters may compare their files"


def test_a_snapshot_of_a_lived_in_state_is_read_back_with_its_ends() -> None:
    state = lived_in(7)
    for command in commands(Random(7), state, 400):
        apply(state, command)
        if len(state.allocations) > 2 and state.answered and state.tenants:
            break
    assert len(state.allocations) > 2, "the run must reach a state with something in every table"
    data = as_file(state)
    assert ends(data) == (PREVIOUS, LAST)
    assert restored(decode(data)).digest() == state.digest()


def test_any_flipped_byte_and_any_missing_end_is_noticed() -> None:
    sound = as_file(lived_in(7))
    verify(sound)
    for at in range(0, len(sound), 37):
        damaged = bytearray(sound)
        damaged[at] ^= 0x10
        with pytest.raises(DamagedLog):
            decode(bytes(damaged))
    for size in (0, 5, len(sound) // 2, len(sound) - 1):
        with pytest.raises(DamagedLog):
            decode(sound[:size])
