"""What a caller waits for is done before a turn of the replica waits for the next message."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.replication.replica import Replica
from gosched.replication.replica_config import ReplicaConfig
from gosched.wire.batch import encode_batch
from gosched.wire.v1 import raft_pb2

MAX_TURNS = 500


class Front:
    """Its end of the link."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._received = b""
        self.told: list[raft_pb2.ReplicaFrame] = []
        link.setblocking(False)

    def propose(self) -> None:
        batch = encode_batch("front", 1, [], level=5)
        frame = raft_pb2.ReplicaFrame(propose=raft_pb2.Propose(proposal=1, batch=batch)).SerializeToString()
        self._link.sendall(len(frame).to_bytes(4, "big") + frame)

    def read(self) -> None:
        try:
            self._received += self._link.recv(1 << 20)
        except BlockingIOError:
            return
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < end:
                return
            self.told.append(raft_pb2.ReplicaFrame.FromString(self._received[4:end]))
            self._received = self._received[end:]

    @property
    def last_applied(self) -> int:
        return max([frame.applied.entry.index for frame in self.told if frame.HasField("applied")], default=0)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[tuple[Replica, Front]]:
    """A cluster of one, which leads."""
    ours, theirs = socket.socketpair()
    replica = Replica(ReplicaConfig(member="a", data_dir=str(tmp_path)))
    replica.open(theirs)
    try:
        for _ in range(MAX_TURNS):
            replica.turn()
            if replica._node._isLeader() and replica._node.raftLastApplied == replica._journal.last_index:
                break
        yield replica, Front(ours)
    finally:
        ours.close()
        replica.close()


def test_what_was_proposed_is_synced_and_what_was_applied_is_told_before_the_turn_waits(
    alone: tuple[Replica, Front], monkeypatch: pytest.MonkeyPatch
) -> None:
    replica, front = alone
    node, journal = replica._node, replica._journal
    before, waits = journal.last_index, []
    poll = node._poller.poll

    def wait(timeout: float) -> None:
        front.read()
        waits.append((journal.last_index, journal.synced_index, node.raftLastApplied, front.last_applied))
        if journal.last_index > node.raftLastApplied:
            assert timeout == 0, "nobody's answer would end this wait"
        poll(timeout)

    monkeypatch.setattr(node._poller, "poll", wait)
    front.propose()
    for _ in range(MAX_TURNS):
        replica.turn()
        if node.raftLastApplied > before:
            break
    written = [(last, synced) for last, synced, _, _ in waits if last > before]
    assert written
    assert all(synced == last for last, synced in written)
    applied = [(applied, told) for _, _, applied, told in waits if applied > before]
    assert applied
    assert all(told == applied for applied, told in applied)
