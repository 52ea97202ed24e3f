"""Logs: capped, rotated, readable by offset while they grow and after the task has ended."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from gosched.agent.supervisor import logs as logs_module
from gosched.agent.supervisor.logs import RETRY_S, Log
from gosched.wire.v1 import scheduler_pb2
from tests.agent.conftest import Agent, FakeMaster, order, shell, wait_for

MakeAgent = Callable[..., Agent]

KIB = 1024
LINE = 17  # bytes: files of 1 MiB begin within lines


def position(allocation_id: str, stream: int, offset: int) -> Any:
    return scheduler_pb2.LogPosition(allocation_id=allocation_id, stream=stream, offset=offset)


def test_both_streams_come_whole_with_offsets_and_an_end(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", "echo out; echo err >&2; sleep 0.3; printf 'more'"))
    chunks = agent.logs("j1/main/0.1")
    for stream, text in ((1, b"out\nmore"), (2, b"err\n")):
        mine = [c for c in chunks if c.stream == stream]
        assert b"".join(c.data for c in mine) == text
        assert [c.end for c in mine] == [False] * (len(mine) - 1) + [True]
        assert mine[-1].offset == len(text)
    assert {c.task_id for c in chunks} == {"j1/main/0"}


def test_a_reader_goes_on_where_it_left_off(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", "printf 0123456789; printf abc >&2"))
    master.await_end("j1/main/0.1")
    chunks = agent.logs("j1/main/0.1", start=[position("j1/main/0.1", 1, 4)])
    assert [(c.offset, c.data) for c in chunks if c.stream == 1 and c.data] == [(4, b"456789")]
    assert b"".join(c.data for c in chunks if c.stream == 2) == b"abc"


def test_without_follow_a_running_task_gives_what_is_there_and_no_end(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", "echo now; sleep 300"))
    chunks = wait_for(lambda: agent.logs("j1/main/0.1", follow=False))
    assert [(c.data, c.end) for c in chunks] == [(b"now\n", False)]
    agent.stop("j1/main/0.1", 0)
    master.await_end("j1/main/0.1")


def test_50_mb_are_capped_on_disk_and_a_late_reader_begins_with_a_whole_line(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("log_max: 1Mi\nlog_files: 3\n")
    agent = make_agent(master, f"--config={config}").start(master)
    block = 1 << 12  # lines in a write
    total = 50 * KIB * KIB // (block * LINE) * block * LINE
    lines = f"'%016d\\n' * {block} % tuple(range(i, i + {block}))"
    program = f"import sys\nfor i in range(0, {total // LINE}, {block}): sys.stdout.write({lines})"
    agent.run(order("j1/main/0.1", sys.executable, "-c", program))
    assert master.await_end("j1/main/0.1", limit_s=90) == ("SUCCEEDED", 0, "")
    files = sorted((agent.spool("j1/main/0.1") / "logs").glob("stdout-*"))
    assert len(files) == 3
    assert all(f.stat().st_size <= KIB * KIB for f in files)
    chunks = [c for c in agent.logs("j1/main/0.1") if c.stream == 1]
    kept = b"".join(c.data for c in chunks)
    cut = chunks[0].offset - int(files[0].stem.partition("-")[2])
    assert 0 < cut <= LINE, "the rest of a line"
    assert chunks[0].offset == total - len(kept)
    assert str(chunks[0].offset) in chunks[0].note
    assert [c.note for c in chunks[1:]] == [""] * (len(chunks) - 1)
    assert kept.splitlines() == [b"%016d" % i for i in range(chunks[0].offset // LINE, total // LINE)]


def test_many_readers_follow_a_growing_log_and_all_see_every_byte(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.05; done"))
    got: list[bytes] = []
    threads = [threading.Thread(target=lambda: got.append(agent.stdout("j1/main/0.1"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [b"".join(b"line %d\n" % i for i in range(1, 9))] * 8


def test_logs_of_an_unknown_allocation_are_not_found(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    with pytest.raises(grpc.RpcError) as refused:
        agent.logs("j1/main/0.1")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_log_that_cannot_be_written_drops_bytes_and_shows_the_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    now = 100.0
    monkeypatch.setattr(logs_module, "time", SimpleNamespace(monotonic=lambda: now))
    log = Log("stdout", -1, 1000, 4)
    log.write(b"lost")  # there is no directory to write to
    (tmp_path / "logs").mkdir()
    log.write(b"lost as well: it does not try again at once")
    dropped = log.offset
    now += RETRY_S
    log.write(b"kept")
    (file,) = (tmp_path / "logs").glob("stdout-*")
    assert file.name == f"stdout-{dropped:020d}.log"
    assert file.read_bytes() == b"kept"
