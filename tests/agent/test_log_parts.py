"""The last lines of a log, those since a time, and when each was written: by the indexes beside the log's files."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gosched.agent.supervisor import log_times
from gosched.agent.supervisor.log_times import ENTRY, RESOLUTION_MS, SHARE, index_name
from gosched.agent.supervisor.logs import Log
from gosched.agent.tasks import log_files
from gosched.agent.tasks.log_files import offset_of_tail, offset_since, stream_files
from gosched.agent.tasks.log_times import LogTime, times_of
from gosched.agent.tasks.logs import Stream, StreamReader
from gosched.wire.v1 import scheduler_pb2
from tests.agent.conftest import Agent, FakeMaster, shell, wait_for

MakeAgent = Callable[..., Agent]


class Written:
    """A log that a supervisor wrote, on a clock of the test's."""

    def __init__(self, max_bytes: int = 1 << 20, keep: int = 4) -> None:
        Path("logs").mkdir()
        self.log = Log("stdout", -1, max_bytes, keep)
        self.now_ms = 1_000
        self.logs = Path("logs")

    def write(self, text: str, after_ms: int = 1000) -> None:
        self.now_ms += after_ms
        self.log.write(text.encode())


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Written]:
    monkeypatch.chdir(tmp_path)
    made: list[Written] = []

    def make(max_bytes: int = 1 << 20, keep: int = 4) -> Written:
        made.append(Written(max_bytes, keep))
        return made[0]

    monkeypatch.setattr(log_times, "now_ms", lambda: made[0].now_ms)
    return make


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64 * 1024])
@pytest.mark.parametrize("max_bytes", [16, 50, 1 << 20])
def test_the_last_lines_are_those_that_a_split_finds(
    written: Callable[..., Written], monkeypatch: pytest.MonkeyPatch, block: int, max_bytes: int
) -> None:
    monkeypatch.setattr(log_files, "CHUNK_BYTES", block)
    chance = random.Random(7)
    log = written(max_bytes, keep=1000)
    for _ in range(20):
        log.write("".join(chance.choice("ab\n") for _ in range(chance.randrange(12))))
        text = b"".join((log.logs / name).read_bytes() for _, name in stream_files(log.logs, "stdout"))
        lines = text.splitlines(keepends=True)
        for count in (0, 1, 2, 5, 1000):
            expected = b"".join(lines[len(lines) - count :]) if count < len(lines) else text
            at = offset_of_tail(log.logs, "stdout", count)
            assert text[at:] == expected, (text, count)


def test_a_line_counts_by_the_time_of_its_first_byte(written: Callable[..., Written]) -> None:
    log = written(max_bytes=30)
    log.log.times.max_entries = 100
    log.write("two\nlines\n")  # at 2000
    log.write("begun")  # 3000
    log.write(" before\n")  # 4000
    log.write("after\n")  # 5000, in the next file
    log.write("last")  # 6000
    assert len(stream_files(log.logs, "stdout")) == 2
    text = b"two\nlines\nbegun before\nafter\nlast"
    for since, expected in (
        (1, text),
        (2000, text),
        (2001, text[10:]),
        (3000, b"begun before\nafter\nlast"),
        (3001, b"after\nlast"),
        (4000, b"after\nlast"),
        (5000, b"after\nlast"),
        (5001, b"last"),
        (6001, b""),
    ):
        assert text[offset_since(log.logs, "stdout", since) :] == expected, since
    (base, name), _ = stream_files(log.logs, "stdout")
    assert times_of(log.logs, name, base, 29) == [
        LogTime(0, 2000),
        LogTime(10, 3000),
        LogTime(15, 4000),
        LogTime(23, 5000),
    ]
    assert times_of(log.logs, name, 12, 16) == [LogTime(10, 3000), LogTime(15, 4000)]


def test_lines_since_a_time_do_not_begin_within_an_older_one(written: Callable[..., Written]) -> None:
    log = written(max_bytes=6)
    log.write("a line\nnew\n")  # its end is in the next file, at the same time
    log.write("newer\n")
    first, second, _ = stream_files(log.logs, "stdout")
    assert (first[0], second[0]) == (0, 6)
    (log.logs / index_name(second[1])).write_bytes(ENTRY.pack(6, 2001))
    assert offset_since(log.logs, "stdout", 2001) == 7, "behind the end of the old line"


def test_a_single_line_longer_than_the_cap_is_shown(written: Callable[..., Written]) -> None:
    log = written(max_bytes=6, keep=2)
    log.write("x" * 22)
    piece = StreamReader(lambda: log.logs, Stream.STDOUT, 0).read()
    assert piece is not None
    assert (piece.offset, piece.data) == (12, b"xxxxxx")


def test_an_index_is_bounded_and_its_times_never_go_back(written: Callable[..., Written]) -> None:
    max_bytes = 4096
    log = written(max_bytes, keep=3)
    for number in range(2000):
        log.write("x", after_ms=RESOLUTION_MS if number % 3 else -5)
    names = sorted(path.name for path in log.logs.iterdir())
    files = [name for _, name in stream_files(log.logs, "stdout")]
    assert len(files) == 3
    assert names == sorted([*files, *map(index_name, files)]), "an index goes with its file"
    for base, name in stream_files(log.logs, "stdout"):
        index = (log.logs / index_name(name)).read_bytes()
        assert len(index) <= max_bytes // SHARE
        entries = [ENTRY.unpack_from(index, at) for at in range(0, len(index), ENTRY.size)]
        assert entries[0][0] == base
        assert entries == sorted(entries)


def test_what_is_read_within_the_resolution_has_one_entry(written: Callable[..., Written]) -> None:
    log = written()
    for _ in range(100):
        log.write("a line\n", after_ms=1)
    (_, name) = stream_files(log.logs, "stdout")[0]
    assert len(times_of(log.logs, name, 0, 700)) == 100 // RESOLUTION_MS


@pytest.mark.parametrize("index", [None, b"", b"\xff" * 160, b"short"])
def test_a_log_without_a_right_index_is_read_whole_where_it_may_be_new_enough(
    written: Callable[..., Written], index: bytes | None
) -> None:
    log = written()
    log.write("one\ntwo\n")
    (_, name) = stream_files(log.logs, "stdout")[0]
    path = log.logs / index_name(name)
    path.unlink()
    if index is not None:
        path.write_bytes(index)
    now_ms = int(time.time() * 1000)
    assert offset_since(log.logs, "stdout", now_ms - 60_000) == 0
    assert len(times_of(log.logs, name, 0, 8)) <= 8
    os.utime(log.logs / name, (1, 1))
    if index is None:
        assert offset_since(log.logs, "stdout", now_ms) == 8


def lines_of(chunks: list[scheduler_pb2.LogChunk], stream: int = 1) -> bytes:
    return b"".join(chunk.data for chunk in chunks if chunk.stream == stream)


def test_a_reader_gets_the_part_that_it_asks_for_and_then_what_follows(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    go = tmp_path / "go"
    agent.run(
        shell("j1/main/0.1", f"echo one; echo two; echo err >&2; until [ -e {go} ]; do sleep 0.02; done; echo new")
    )
    wait_for(lambda: lines_of(agent.logs("j1/main/0.1", follow=False)) == b"one\ntwo\n")
    before_ms = int(time.time() * 1000)
    assert lines_of(agent.logs("j1/main/0.1", follow=False, tail=1)) == b"two\n"
    time.sleep(0.05)
    go.touch()
    last = agent.logs("j1/main/0.1", tail=0)
    assert lines_of(last) in (b"new\n", b"")  # it may have been there already
    assert [(c.stream, c.offset, c.data) for c in last if c.start][1] == (2, 4, b"")
    master.await_end("j1/main/0.1")
    since = agent.logs("j1/main/0.1", since_ms=before_ms + 20)
    assert (lines_of(since), lines_of(since, 2)) == (b"new\n", b"")
    known = [scheduler_pb2.LogPosition(allocation_id="j1/main/0.1", stream=1, offset=4)]
    assert lines_of(agent.logs("j1/main/0.1", start=known, tail=1)) == b"two\nnew\n", "what is in `from` is whole"
    timed = agent.logs("j1/main/0.1", timestamps=True)
    (out,) = [chunk for chunk in timed if chunk.stream == 1 and chunk.data]
    assert [time.offset for time in out.times] == [0, 8]
    assert out.times[0].at_ms <= before_ms < out.times[1].at_ms <= time.time() * 1000
    assert not any(chunk.start or chunk.times for chunk in agent.logs("j1/main/0.1"))
