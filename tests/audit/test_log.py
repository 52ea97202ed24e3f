"""The audit log of a running master: real files, a real syslog socket, full disks, floods of refusals."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gosched.audit.chain import Head, read_line
from gosched.audit.chain_file import ChainFile, files_of
from gosched.audit.log import GATHER_S, STARTED, AuditLog
from gosched.audit.record import AuditRecord, Outcome
from gosched.audit.repeats import BULK_FREE, BULK_S, MAX_KINDS, MAX_KINDS_EACH, WINDOW_S, Bulk, Repeats
from gosched.audit.syslog import Syslog
from gosched.audit.verify import verify
from gosched.master.base.audited import Audit
from gosched.master.base.methods import OWN
from gosched.wire.v1 import scheduler_pb2
from tests.audit.lines import whole_lines
from tests.audit.test_chain import record

LIMIT_S = 20.0


def until(met: Callable[[], object]) -> None:
    ends = time.monotonic() + LIMIT_S
    while not met():
        assert time.monotonic() < ends, "not met in time"
        time.sleep(0.01)


def file_log(folder: Path, max_bytes: int = 1 << 20) -> ChainFile:
    return ChainFile(folder, max_bytes=max_bytes, max_files=50)


def put_hundred(log: AuditLog, part: int) -> None:
    for number in range(100):
        log.put(record(part * 100 + number, user=f"u{part}-{number}"))


class Sick:
    """A target that fails, or hangs, as the test says."""

    torn = ""

    def __init__(self) -> None:
        self.head = Head()
        self.fails = threading.Event()
        self.goes = threading.Event()
        self.goes.set()
        self.taken: list[AuditRecord] = []
        self.tries = 0

    def open(self) -> None: ...

    def append(self, records: Sequence[AuditRecord]) -> None:
        self.goes.wait(LIMIT_S)
        self.tries += 1
        if self.fails.is_set():
            raise OSError(28, "No space left on device")
        self.taken += records

    def close(self) -> None: ...


def test_records_of_many_threads_are_on_the_disk_soon_and_each_start_continues_the_chain(tmp_path: Path) -> None:
    for start in range(2):
        log = AuditLog(file_log(tmp_path, max_bytes=20_000), "m1")
        log.start()
        writers = [threading.Thread(target=put_hundred, args=(log, n)) for n in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        until(lambda: len(whole_lines(tmp_path)) == (start + 1) * 401)  # noqa: B023
        log.close()
    found = whole_lines(tmp_path)
    assert len(files_of(tmp_path)) > 2
    assert [line["action"] for line in found].count(STARTED) == 2
    objects = [line["object"] for line in found if line["action"] != STARTED]
    assert sorted(objects) == sorted([f"job j-{n}" for n in range(400)] * 2)
    assert verify([tmp_path]).problem == ""


def test_a_slow_disk_holds_up_no_call_and_what_is_lost_beyond_the_bound_is_counted_and_said() -> None:
    sick, lost, failed = Sick(), list[int](), list[str]()
    log = AuditLog(sick, "m1", lost=lost.append, failed=failed.append, max_waiting=50)
    sick.goes.clear()
    log.start()
    began = time.monotonic()
    for number in range(80):
        log.put(record(number, user=f"u{number}"))
    assert time.monotonic() - began < 1.0
    assert sum(lost) == 31  # the record of the start waits, too
    sick.goes.set()
    until(lambda: len(sick.taken) == 50)
    log.put(record(1000))
    until(lambda: len(sick.taken) == 51)
    log.close()
    assert [taken.lost for taken in sick.taken if taken.lost] == [31]
    assert failed == []


def test_records_that_come_soon_after_one_another_are_written_together() -> None:
    sick = Sick()
    log = AuditLog(sick, "m1")
    began = time.monotonic()
    log.start()
    until(lambda: len(sick.taken) == 1)
    for number in range(30):
        log.put(record(number, user=f"u{number}"))
        time.sleep(0.002)
    log.close()
    assert [taken.object for taken in sick.taken[1:]] == [f"job j-{number}" for number in range(30)]
    gathered = (time.monotonic() - began) / GATHER_S
    assert sick.tries <= 2 + gathered, "one for the start, one at the end, and one for each time of gathering"


def test_a_disk_that_takes_nothing_is_reported_once_and_nothing_is_lost_while_there_is_room() -> None:
    sick, lost, failed = Sick(), list[int](), list[str]()
    log = AuditLog(sick, "m1", lost=lost.append, failed=failed.append)
    sick.fails.set()
    log.start()
    log.put(record(1))
    until(lambda: sick.tries >= 2)
    sick.fails.clear()
    until(lambda: len(sick.taken) == 2)
    assert (failed, lost) == (["No space left on device"], [])
    sick.fails.set()
    log.put(record(2))
    until(lambda: len(failed) == 2)
    log.close()
    assert lost == [1]
    assert "1 records are lost at the end" in failed[-1]


FULL = """
import json, resource, sys, time
from pathlib import Path
from gosched.audit.chain_file import ChainFile
from tests.audit.test_chain import record
folder = Path(sys.argv[1])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
log = ChainFile(folder, max_bytes=1 << 20, max_files=4)
log.open()
failed = 0
for number in range(60):
    try:
        log.append([record(number)])
    except OSError as error:
        failed += 1
        size = (folder / "audit.jsonl").stat().st_size
        assert (folder / "audit.jsonl").read_bytes().endswith(b"\\n"), "a part of a line was left"
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
log.append([record(99)])
print(json.dumps([failed, log.head.seq, size]))
"""


def test_a_file_that_takes_a_part_of_a_line_ends_where_it_ended_and_goes_on_later(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        capture_output=True,
        check=False,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr.decode()
    failed, seq, size = json.loads(done.stdout)
    assert failed > 40
    assert size < 3000
    verdict = verify([tmp_path])
    assert (verdict.problem, verdict.lines) == ("", 61 - failed)
    assert verdict.head.seq == seq


def test_lines_go_to_a_syslog_socket_with_the_chain_and_on_to_one_that_is_made_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "log")

    def listening() -> socket.socket:
        daemon = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        daemon.settimeout(LIMIT_S)
        daemon.bind(path)
        return daemon

    failed = list[str]()
    daemon = listening()
    log = AuditLog(Syslog(path), "m1", failed=failed.append, batch=1)
    log.start()
    log.put(record(1))
    log.put(record(2, outcome=Outcome.REFUSED, code="PERMISSION_DENIED", reason="no\x00\n"))
    messages = [daemon.recv(65536) for _ in range(3)]
    daemon.close()
    os.unlink(path)
    log.put(record(3))
    until(lambda: failed)
    daemon = listening()
    messages.append(daemon.recv(65536))
    log.close()
    daemon.close()
    assert [message.partition(b">")[0] for message in messages] == [b"<85", b"<85", b"<84", b"<85"]
    assert [read_line(message).head.seq for message in messages] == [1, 2, 3, 4]
    file = tmp_path / "daemon.log"
    file.write_bytes(b"".join(b"Nov 24 host " + message + b"\n" for message in messages))
    assert verify([file]).problem == ""
    file.write_bytes(file.read_bytes() * 2)
    assert "it was added or moved here" in verify([file]).problem
    assert verify([file], restarts=True).problem == ""


def test_a_log_whose_folder_or_socket_is_not_there_says_so_at_start(tmp_path: Path) -> None:
    for target in (file_log(tmp_path / "none"), Syslog(str(tmp_path / "none"))):
        with pytest.raises(OSError, match="No such file"):
            AuditLog(target, "m1").start()


def test_repeats_of_what_failed_are_one_record_with_a_count() -> None:
    repeats = Repeats()
    refused = record(outcome=Outcome.REFUSED, code="PERMISSION_DENIED", reason="no")
    assert repeats.take(refused, 0.0) == refused
    assert [repeats.take(replace(refused, time_ms=n), 1.0) for n in range(1000)] == [None] * 1000
    assert repeats.take(replace(refused, user="ben"), 1.0)
    assert repeats.due(WINDOW_S - 1) == []
    assert repeats.due(WINDOW_S + 2) == [replace(refused, time_ms=999, count=1000)]
    assert not repeats.are_open


def test_a_flood_of_refusals_that_all_differ_is_bounded() -> None:
    repeats = Repeats()
    taken = [
        repeats.take(record(outcome=Outcome.REFUSED, user=f"u{number}", reason=f"{number}"), number / 100_000)
        for number in range(20_000)
    ]
    written = [one for one in taken if one is not None]
    due = repeats.due(WINDOW_S + 1)
    assert len(written) == MAX_KINDS
    assert len(due) == 1
    assert due[0].count == 20_000 - MAX_KINDS
    assert len(written) + sum(one.count for one in due) == 20_000


def test_one_users_kinds_of_calls_leave_room_for_those_of_others() -> None:
    repeats = Repeats()
    mine = [record(user="ann", outcome=Outcome.FAILED, reason=f"no job {number}") for number in range(5_000)]
    written = [one for one in mine if repeats.take(one, 0.0) is not None]
    theirs = record(user="ben", outcome=Outcome.REFUSED, reason="no")
    assert len(written) == MAX_KINDS_EACH
    assert repeats.take(theirs, 1.0) == theirs
    (others,) = repeats.due(WINDOW_S + 2)
    assert (others.user, others.count, others.action) == ("ann", 5_000 - MAX_KINDS_EACH, "AuditLog/Others")
    assert "over 50 kinds of calls of 'ann' had no effect within 5 s" in others.reason
    assert repeats.take(mine[0], 9.0) == mine[0], "its kinds are forgotten with their windows"


def test_what_changed_nothing_is_counted_and_what_did_is_named_in_few_lines(tmp_path: Path) -> None:
    """One user makes 3,000 changes and 3,000 that change nothing; those of another one have a line each."""
    log = AuditLog(file_log(tmp_path), "m1")
    log.start()
    for number in range(3_000):
        log.put(record(number, user="ann", request_id=f"r{number}"))
        log.put(record(number, user="ann", unchanged=True))
        if number % 1_000 == 0:
            log.put(record(number, user="ben"))
    log.close()
    found = [line for line in whole_lines(tmp_path) if line["action"] != STARTED]
    ann = [line for line in found if line["user"] == "ann"]
    assert len([line for line in found if line["user"] == "ben"]) == 3
    changes = [line for line in ann if "unchanged" not in line]
    named = [name for line in changes for name in line["object"].split("; ")]
    assert sorted(named) == sorted(f"job j-{number}" for number in range(3_000))
    assert sum(line.get("count", 1) for line in changes) == 3_000
    assert sum(line.get("count", 1) for line in ann if "unchanged" in line) == 3_000
    assert len(ann) < 150
    assert verify([tmp_path]).problem == ""


def test_a_call_whose_answer_says_that_nothing_was_changed_is_recorded_as_such() -> None:
    taken: list[AuditRecord] = []
    outcome = scheduler_pb2.SubmitOutcome
    for answer in (
        scheduler_pb2.SubmitJobResponse(unchanged=True),
        scheduler_pb2.SubmitJobResponse(),
        scheduler_pb2.SubmitJobsResponse(outcomes=[outcome(unchanged=True), outcome(unchanged=True)]),
        scheduler_pb2.SubmitJobsResponse(outcomes=[outcome(unchanged=True), outcome()]),
    ):
        with Audit(taken.append, "m1", lambda: 7).watch(f"{OWN}SchedulerService/SubmitJob") as audited:
            audited.answer = answer
    assert [one.unchanged for one in taken] == [True, False, True, False]


def test_changes_beyond_the_first_have_their_line_within_a_second_and_equal_ones_take_no_room() -> None:
    bulk = Bulk()
    change = record(user="ann")
    assert [bulk.take(change, 0.0) for _ in range(BULK_FREE)] == [[change]] * BULK_FREE
    assert [bulk.take(replace(change, time_ms=n), 0.5) for n in range(10_000)] == [[]] * 10_000
    assert bulk.due(BULK_S - 0.1) == []
    assert bulk.due(BULK_S) == [replace(change, time_ms=9_999, count=10_000)]
    assert not bulk.are_open
    assert bulk.take(change, 2.0) == [change]


def test_a_flood_through_the_log_leaves_room_for_changes(tmp_path: Path) -> None:
    log = AuditLog(file_log(tmp_path), "m1", max_waiting=600)
    log.start()
    for number in range(5_000):
        log.put(record(number, outcome=Outcome.REFUSED, object="", reason="no"))
    log.put(record(1))
    log.close()
    found = whole_lines(tmp_path)
    assert [line.get("count", 1) for line in found if line["outcome"] == "refused"] == [1, 4_999]
    assert [line["object"] for line in found if line["outcome"] == "allowed" and line["action"] != STARTED] == [
        "job j-1"
    ]
