"""Checks the chain of an audit log by its files alone.

Invariant: a file is read line by line, and a line is bounded: the check of any file takes little memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gosched.audit.chain import NO_HEAD, NOTHING, Head, Line, read_line
from gosched.audit.chain_file import files_of, rotated_seq
from gosched.audit.log import STARTED

MAX_LINE_BYTES = 64 * 1024  # with what syslog daemons put before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line of a file, as `file:line`."""

    file: Path
    number: int

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`problem`: of the first bad line, with its place; empty: there is none."""

    problem: str = ""
    #: The first line's seq, and the newest line's place in the chain; 0: there is no line.
    first: int = 0
    head: Head = NO_HEAD
    lines: int = 0
    #: What is no problem, and worth knowing.
    notes: tuple[str, ...] = ()


class BadLine(ValueError):
    """A line that is none of an audit log, or that was changed."""


def files_in(paths: Iterable[Path]) -> list[Path]:
    """Return the files that are named or in folders that are named, by the seqs that they begin with. Raises
    OSError."""
    found = [file for path in paths for file in (files_of(path) if path.is_dir() else [path])]
    return sorted(found, key=_begins_with)


def lines_of(file: Path) -> Iterator[tuple[Place, Line | None]]:
    """Yield each line with its place; None: the last one has no end. Raises BadLine with the place, OSError."""
    with file.open("rb") as stream:
        for number, raw in enumerate(_raw_lines(stream), 1):
            place = Place(file=file, number=number)
            if not raw.endswith(b"\n"):
                if len(raw) >= MAX_LINE_BYTES:
                    raise BadLine(f"{place}: it is no line of an audit log")
                yield place, None
                return
            try:
                yield place, read_line(raw.rstrip(b"\r\n\0"))
            except ValueError as error:
                raise BadLine(f"{place}: {error}") from None


def verify(paths: Iterable[Path], expected: Head | None = None, *, restarts: bool = False) -> Verdict:
    """Check the chain over all files. `expected`: a line that was noted before, which has to be there. `restarts`: the
    chain may begin anew where the master was started, as in syslog. Raises OSError."""
    walk = _Walk(expected, restarts=restarts)
    files = files_in(paths)
    try:
        for file in files:
            walk.enter(file, is_last=file == files[-1])
            for place, line in lines_of(file):
                walk.step(place, line)
        walk.end()
    except BadLine as error:
        return walk.verdict(str(error))
    return walk.verdict()


class _Walk:
    """The chain as far as it was read."""

    def __init__(self, expected: Head | None, *, restarts: bool) -> None:
        self._expected = expected
        self._restarts = restarts
        self._first = 0
        self._head: Head | None = None
        self._lines = 0
        self._met = expected is None
        self._notes: list[str] = []
        self._named = 0
        self._is_last = False

    def enter(self, file: Path, *, is_last: bool) -> None:
        self._named, self._is_last = rotated_seq(file.name), is_last

    def step(self, place: Place, line: Line | None) -> None:
        """Take one more line. Raises BadLine."""
        if line is None:
            if not self._is_last:
                raise BadLine(f"{place}: the line has no end, and others follow")
            self._notes.append(f"{place}: the line is being written, or was torn by a crash; it is not counted")
            return
        self._check(place, line)
        if self._expected is not None and line.head.seq == self._expected.seq:
            if line.head.hash != self._expected.hash and not self._restarts:
                raise BadLine(f"{place}: line {line.head.seq} is another one than was noted: the chain was made anew")
            self._met = self._met or line.head.hash == self._expected.hash
        self._first = self._first or line.head.seq
        self._head = line.head
        self._lines += 1

    def end(self) -> None:
        """Raises BadLine where what was noted is missing."""
        if self._met or self._expected is None:
            return
        seq, head = self._expected.seq, self._head or NO_HEAD
        if seq > head.seq:
            raise BadLine(f"the log ends with line {head.seq}, and line {seq} was noted: its end was cut off")
        raise BadLine(f"line {seq}, which was noted, is not among these lines: they begin with {self._first}")

    def verdict(self, problem: str = "") -> Verdict:
        if not problem and self._first > 1:
            self._notes.append(f"the lines before {self._first} are not here: rotation removes the oldest files")
        head = self._head or NO_HEAD
        return Verdict(problem=problem, first=self._first, head=head, lines=self._lines, notes=tuple(self._notes))

    def _check(self, place: Place, line: Line) -> None:
        seq, before = line.head.seq, self._head
        named, self._named = self._named, 0
        if named and seq != named:
            raise BadLine(f"{place}: the file begins with line {seq}, and by its name with {named}")
        begins = seq == 1 and line.prev == NOTHING
        if before is None:
            if seq < 1 or (seq == 1 and not begins):
                raise BadLine(f"{place}: it is no beginning of a chain")
        elif begins and self._restarts and line.record.get("action") == STARTED:
            self._notes.append(f"{place}: the chain begins anew with a start of the master")
        elif seq != before.seq + 1:
            raise BadLine(f"{place}: line {seq} follows line {before.seq}: {_gap(before.seq, seq)}")
        elif line.prev != before.hash:
            raise BadLine(f"{place}: it does not continue the line before, which is another one than was written")


def _gap(before: int, seq: int) -> str:
    if seq > before + 1:
        missing = seq - before - 1
        return "one is missing" if missing == 1 else f"{missing} are missing"
    return "it was added or moved here"


def _raw_lines(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(MAX_LINE_BYTES):
        yield line


def _begins_with(file: Path) -> int:
    """Return the seq of a file's first line; one that cannot be read comes as its name says, or last."""
    with file.open("rb") as stream:
        line = stream.readline(MAX_LINE_BYTES)
    try:
        return read_line(line.rstrip(b"\r\n\0")).head.seq
    except ValueError:
        return rotated_seq(file.name) or (0 if os.path.getsize(file) == 0 else 1 << 62)
