"""The chain of an audit log: whatever is changed in its files is found, and the place is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gosched.audit.chain import NOTHING, Head, head_of, next_line, read_line
from gosched.audit.chain_file import CURRENT, ChainFile, files_of
from gosched.audit.record import MAX_LINE_BYTES, AuditRecord, How, Outcome
from gosched.audit.verify import Verdict, verify

LINES = 12


def record(number: int = 0, **more: object) -> AuditRecord:
    given = {"time_ms": 1_700_000_000_000 + number, "master": "m1", "action": "SchedulerService/CancelJob"}
    made = {"user": "ann", "object": f"job j-{number}", "outcome": Outcome.ALLOWED, "revision": number}
    return AuditRecord(**{**given, **made, **more})  # type: ignore[arg-type]


def written(folder: Path, count: int = LINES, *, max_bytes: int = 1 << 20, max_files: int = 16) -> ChainFile:
    folder.mkdir(exist_ok=True)
    log = ChainFile(folder, max_bytes=max_bytes, max_files=max_files)
    log.open()
    for number in range(count):
        log.append([record(number)])
    return log


def lines() -> list[bytes]:
    head, found = Head(), []
    for number in range(LINES):
        head, line = next_line(head, record(number))
        found.append(line)
    return found


def verdict_of(folder: Path, found: list[bytes], expected: Head | None = None) -> Verdict:
    (folder / CURRENT).write_bytes(b"".join(found))
    return verify([folder], expected)


def test_what_nobody_touched_is_whole_and_its_head_is_told(tmp_path: Path) -> None:
    log = written(tmp_path)
    assert verify([tmp_path]) == Verdict(first=1, head=log.head, lines=LINES)
    assert log.head.seq == LINES
    assert verify([tmp_path], log.head).problem == ""
    assert os.stat(tmp_path / CURRENT).st_mode & 0o777 == 0o600


@settings(max_examples=150, deadline=None)
@given(place=st.integers(0, LINES - 1), offset=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_any_byte_that_is_changed_is_found_at_its_line(
    tmp_path_factory: pytest.TempPathFactory, place: int, offset: int, byte: int
) -> None:
    found = lines()
    changed = bytearray(found[place])
    offset %= len(changed) - 1  # the newline stays: without it two lines are one
    assume(changed[offset] != byte)
    changed[offset] = byte
    found[place] = bytes(changed)
    verdict = verdict_of(tmp_path_factory.mktemp("log"), found)
    assert f"{CURRENT}:{place + 1}: " in verdict.problem
    assert verdict.head.seq == place


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_line_that_is_removed_swapped_or_inserted_is_found(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    found, kind = lines(), data.draw(st.sampled_from(["remove", "swap", "insert", "join"]))
    place = data.draw(st.integers(1, LINES - 2))
    if kind == "remove":
        del found[place]
    elif kind == "swap":
        other = data.draw(st.integers(0, LINES - 1).filter(lambda n: n != place))
        found[place], found[other] = found[other], found[place]
    elif kind == "insert":
        extra = data.draw(st.sampled_from([*found, next_line(Head(), record(99))[1], b"{}\n", b"\n"]))
        assume(extra != found[place] or place)
        found.insert(place, extra)
    else:
        found[place] = found[place].rstrip(b"\n")
    assert verdict_of(tmp_path_factory.mktemp("log"), found).problem


def test_the_checks_above_can_fail(tmp_path: Path) -> None:
    """A chain that is made anew from a change on is whole: only a head that was noted elsewhere shows it."""
    before, noted = Head(), Head()
    for line in lines():
        noted = read_line(line.rstrip()).head
    made = list[bytes]()
    for number in range(LINES):
        before, line = next_line(before, record(number, user="eve" if number == 5 else "ann"))
        made.append(line)
    assert verdict_of(tmp_path, made).problem == ""
    assert "line 12 is another one than was noted" in verdict_of(tmp_path, made, noted).problem


def test_an_end_that_was_cut_off_shows_against_a_head_that_was_noted(tmp_path: Path) -> None:
    found = lines()
    noted = read_line(found[-1].rstrip()).head
    assert verdict_of(tmp_path, found[:-3]).problem == ""
    cut = verdict_of(tmp_path, found[:-3], noted)
    assert cut.problem == "the log ends with line 9, and line 12 was noted: its end was cut off"
    assert "is not among these lines" in verdict_of(tmp_path, found[6:], Head(seq=2, hash=noted.hash)).problem
    assert head_of(str(noted)) == noted
    with pytest.raises(ValueError, match="expected SEQ:HASH"):
        head_of("12:abc")


def test_the_chain_goes_on_over_rotated_files_and_the_oldest_go(tmp_path: Path) -> None:
    log = written(tmp_path, 40, max_bytes=2_000, max_files=4)
    names = [path.name for path in files_of(tmp_path)]
    assert len(names) == 4
    assert names[-1] == CURRENT
    verdict = verify([tmp_path])
    assert (verdict.problem, verdict.head) == ("", log.head)
    assert verdict.first == int(names[0][len("audit-") : -len(".jsonl")]) > 1
    assert "rotation removes the oldest files" in verdict.notes[0]
    assert verify([tmp_path / name for name in reversed(names)]) == verdict, "the order of arguments says nothing"
    middle = tmp_path / names[1]
    middle.rename(tmp_path / "away")
    assert "are missing" in verify([tmp_path]).problem
    (tmp_path / "away").rename(middle)
    rest = middle.read_bytes().split(b"\n", 1)[1]
    (tmp_path / names[0]).unlink()
    middle.write_bytes(rest)
    assert "the file begins with line" in verify([tmp_path]).problem


def test_a_chain_goes_on_after_a_restart_also_right_after_a_rotation(tmp_path: Path) -> None:
    log = written(tmp_path, 3)
    log.close()
    os.rename(tmp_path / CURRENT, tmp_path / "audit-000000000001.jsonl")  # killed in the middle of a rotation
    again = written(tmp_path, 2)
    assert again.head.seq == 5
    assert verify([tmp_path]).problem == ""


@pytest.mark.parametrize("kept", [1, 40, 150])
def test_a_torn_line_is_moved_aside_and_the_chain_goes_on(tmp_path: Path, kept: int) -> None:
    written(tmp_path, 3).close()
    torn = next_line(Head(seq=3, hash=NOTHING), record(3))[1][:kept]
    with (tmp_path / CURRENT).open("ab") as file:
        file.write(torn)
    before = verify([tmp_path])
    assert before.problem == ""
    assert "torn by a crash" in before.notes[0]
    log = ChainFile(tmp_path, max_bytes=1 << 20, max_files=2)
    log.open()
    assert bytes.fromhex(log.torn) == torn
    log.append([record(3, torn=log.torn)])
    assert log.torn == ""
    assert verify([tmp_path]) == Verdict(first=1, head=log.head, lines=4)


def test_a_line_is_bounded_and_harmless_whatever_callers_call_themselves() -> None:
    hostile = "\x1b[2J\n\u202e😀\ud800" * 10_000
    texts = dict.fromkeys(("master", "user", "roles", "address", "action", "object", "request_id"), hostile)
    huge = record(1, **texts, code=hostile, reason=hostile, torn=hostile, authenticated=How.CERTIFICATE)
    _, line = next_line(Head(seq=10**17, hash="f" * 64), huge)
    assert len(line) < MAX_LINE_BYTES
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert b"\x1b" not in line
    assert json.loads(line)["user"].endswith("...")
    assert read_line(line.rstrip()).record["user"].startswith("\x1b[2J\n")


def test_two_masters_do_not_write_to_one_folder(tmp_path: Path) -> None:
    log = written(tmp_path, 1)
    with pytest.raises(OSError, match="another master writes to it"):
        written(tmp_path)
    log.append([record(1)])
    log.close()
    written(tmp_path, 1).close()
    assert verify([tmp_path]).lines == 3


def test_a_file_that_another_took_away_or_wrote_to_shows(tmp_path: Path) -> None:
    log = written(tmp_path, 3)
    (tmp_path / CURRENT).unlink()
    log.append([record(3)])
    verdict = verify([tmp_path])
    assert (verdict.first, verdict.head.seq) == (4, 4)
    with (tmp_path / CURRENT).open("ab") as file:
        file.write(b"mine\n")
    log.append([record(4)])
    assert verify([tmp_path]).problem.endswith(f"{CURRENT}:2: it is no line of an audit log")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_a_log_that_belongs_to_root_is_continued_by_the_group_that_may_write_it() -> None:
    """As Kubernetes hands over a volume that was restored: the files are root's, and of the pod's group."""
    script = f"""
import os, tempfile
from pathlib import Path
from tests.audit.test_chain import CURRENT, verify, written
folder = Path(tempfile.mkdtemp())
written(folder, 3).close()
for path, mode in ((folder, 0o2770), (folder / CURRENT, 0o660)):
    os.chown(path, 0, {(group := 65534)})
    path.chmod(mode)
os.setgroups([]); os.setgid({group}); os.setuid({group})
written(folder, 2).close()
verdict = verify([folder])
print(verdict.lines, verdict.problem or "whole")
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout.strip(), ran.returncode) == ("5 whole", 0), ran.stderr
