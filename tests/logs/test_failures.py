"""What ends a process or a call for want of a resource is named, with what to do; a bug is still called one."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
import structlog

from gosched.logs.failures import exhausted, failure_of
from gosched.master.api.leader_routing import _status_of
from gosched.observe.faults import Faults
from gosched.replication.replica_config import ReplicaConfig
from gosched.wire.v1 import raft_pb2

LIMIT_S = 30.0
FULL = """
from gosched.replication import replica
def open(self, link):
    bytearray(1 << 60)
replica.Replica.open = open
replica.main()
"""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), ("out of memory", "MiB", "Give the master more memory")),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), ("out of memory",)),
        (OSError(errno.EMFILE, "Too many open files"), ("too many open files", "LimitNOFILE")),
        (OSError(errno.ENFILE, "x"), ("fs.file-max",)),
        (OSError(errno.ENOSPC, "No space left on device", "f"), ("the disk is full", "'f'")),
        (RuntimeError("can't start new thread"), ("TasksMax",)),
    ],
)
def test_what_ran_out_is_named_and_is_no_bug(error: Exception, words: tuple[str, ...]) -> None:
    said = failure_of(error)
    assert all(word in said for word in words), said
    assert "report" not in said
    assert _status_of(error)[:2] == (grpc.StatusCode.RESOURCE_EXHAUSTED, exhausted(error))


@pytest.mark.parametrize("error", [KeyError(2), OSError(errno.ECONNRESET, "reset"), RuntimeError("no"), None])
def test_anything_else_is_a_bug_to_be_reported(error: Exception | None) -> None:
    assert failure_of(error) == f"internal error, please report it: {error!r}"
    assert not exhausted(error)


def test_a_replica_out_of_memory_says_so_as_its_last_words(tmp_path: Path) -> None:
    front, link = socket.socketpair()
    front.settimeout(LIMIT_S)
    config = ReplicaConfig(member="a", data_dir=str(tmp_path)).to_json()
    log = json.dumps({"form": "json", "level": "info", "real_fd": 2})
    words = [sys.executable, "-c", FULL, str(link.fileno()), config, log]
    with subprocess.Popen(words, pass_fds=[link.fileno()], stderr=subprocess.PIPE, env=os.environ) as replica:
        link.close()
        said = front.makefile("rb")
        frame = raft_pb2.ReplicaFrame.FromString(said.read(int.from_bytes(said.read(4), "big")))
        said.close()
        front.close()
        _, stderr = replica.communicate(timeout=LIMIT_S)
    assert frame.failed.detail.startswith("out of memory: this process has ")
    assert (replica.returncode, stderr) == (1, b"")


def test_a_part_of_a_master_that_is_out_of_memory_logs_these_words() -> None:
    with structlog.testing.capture_logs() as captured:
        Faults().caught("planner", MemoryError())
    (record,) = captured
    assert record["event"].startswith("out of memory: ")
    assert "exc_info" not in record
