"""A replica that ends says why, whatever it still had to send, and whatever its front sends meanwhile."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import BinaryIO

from pysyncobj.poller import createPoller

from gosched.replication.peers.connection import Connection
from gosched.replication.replica import Replica
from gosched.replication.replica_config import ReplicaConfig
from gosched.wire.v1 import raft_pb2

LIMIT_S = 20.0


def frame_of(stream: BinaryIO) -> bytes:
    return stream.read(int.from_bytes(stream.read(4), "big"))


def test_last_words_come_whole_behind_a_frame_that_is_partly_sent(tmp_path: Path) -> None:
    front, link = socket.socketpair()
    front.settimeout(LIMIT_S)
    connection = Connection(createPoller("auto"), link, opened=_ignore, frame=_ignore, closed=_ignore)
    connection.begin()
    connection.send(b"x" * 4_000_000)
    connection.send(b"never sent")
    assert connection.unsent_bytes > 0
    replica = Replica(ReplicaConfig(member="a", data_dir=str(tmp_path)))
    replica._rest_of_frame = connection.rest_of_frame

    said = front.makefile("rb")
    ending = threading.Thread(target=replica.tell_failure, args=(link, "the disk is full"))
    ending.start()
    assert frame_of(said) == b"x" * 4_000_000
    front.sendall(b"a proposal that nobody reads")
    assert raft_pb2.ReplicaFrame.FromString(frame_of(said)).failed.detail == "the disk is full"
    assert ending.is_alive(), "it waits until the front has read it"
    said.close()
    front.close()
    ending.join(LIMIT_S)
    assert not ending.is_alive()
    link.close()


def _ignore(*_: object) -> None:
    pass
