"""Outcomes: what a command came to, for the caller."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Code(IntEnum):
    """Why a command was refused."""

    UNSPECIFIED = 0
    INVALID = 1
    NOT_FOUND = 2
    ALREADY_EXISTS = 3
    STALE_EPOCH = 4
    STALE_INCARNATION = 5
    CONFLICT = 6
    EXHAUSTED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A gang of a plan that was not taken."""

    job_id: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """`subject` is the id that the command made or met; `unchanged`: it was there already."""

    subject: str = ""
    unchanged: bool = False
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Nothing was changed. `detail` is one line for people."""

    code: Code
    detail: str


Outcome = Accepted | Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An outcome as it is remembered for repeats of its request. `code` 0: accepted."""

    client_id: str
    request_id: str
    code: Code = Code.UNSPECIFIED
    detail: str = ""
    subject: str = ""
    unchanged: bool = False
