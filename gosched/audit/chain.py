"""The chain of hashes: each line names the one before it, and so everything before.

A line is the JSON of a record between its place and its hash:

    {"seq":7,"prev":"<hash of line 6>","time":...,"hash":"<SHA-256 of all that stands before ,"hash">"}

Invariant: a line that is changed has another hash than it says; one that is missing, added or moved breaks the
sequence. A program that can write the file can make a whole new chain, and can cut off its end: only a head that was
noted elsewhere shows that.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from gosched.audit.record import AuditRecord, encoded, record_json

NOTHING = "0" * 64  # the hash before the first line
_END = re.compile(rb',"hash":"([0-9a-f]{64})"}')
_END_BYTES = len(',"hash":""}') + 64
_HEAD = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A line's place in the chain: of the newest one, it stands for all lines up to there."""

    seq: int = 0
    hash: str = NOTHING

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line that is whole and says its own hash."""

    head: Head
    prev: str
    #: Its JSON, without the chain's keys.
    record: dict[str, Any]


NO_HEAD = Head()


def head_of(text: str) -> Head:
    """Read SEQ:HASH. Raises ValueError."""
    found = _HEAD.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"expected SEQ:HASH, as verify prints it, got {text[:100]!r}")
    return Head(seq=int(found[1]), hash=found[2])


def next_line(before: Head, record: AuditRecord) -> tuple[Head, bytes]:
    """Return the line that follows, with its newline, and its place."""
    seq = before.seq + 1
    body = encoded({"seq": seq, "prev": before.hash, **record_json(record)}).encode()[:-1]
    digest = hashlib.sha256(body).hexdigest()
    return Head(seq=seq, hash=digest), b'%s,"hash":"%s"}\n' % (body, digest.encode())


def read_line(line: bytes) -> Line:
    """Read a line without its newline; what stands before its first brace, as syslog daemons put it there, is passed
    over. Raises ValueError with what is wrong."""
    begin = line.find(b"{")
    end = _END.fullmatch(line, max(0, len(line) - _END_BYTES))
    if begin < 0 or end is None:
        raise ValueError("it is no line of an audit log")
    body, said = line[begin : end.start()], end[1].decode()
    if hashlib.sha256(body).hexdigest() != said:
        raise ValueError("it was changed: its hash is another one")
    try:
        record = json.loads(body + b"}")
        seq, prev = record.pop("seq"), record.pop("prev")
    except (ValueError, KeyError, RecursionError) as error:
        raise ValueError("it is no line of an audit log") from error
    if not isinstance(seq, int) or not isinstance(prev, str):
        raise ValueError("it is no line of an audit log")
    return Line(head=Head(seq=seq, hash=said), prev=prev, record=record)
