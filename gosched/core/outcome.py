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
    MACHINE_BUG = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A gang or a reservation of a plan that was not taken."""

    job_id: str
    #: One line for people.
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The command was carried out."""

    #: Id that the command made or met; empty: none.
    subject: str = ""
    #: It was so already.
    unchanged: bool = False
    #: Of single gangs and reservations; empty: none.
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The command was refused; nothing was changed."""

    code: Code
    #: One line for people.
    detail: str


Outcome = Accepted | Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An outcome as it is remembered for repeats of its request."""

    client_id: str
    request_id: str
    #: UNSPECIFIED: accepted.
    code: Code = Code.UNSPECIFIED
    #: Of a rejection; otherwise empty.
    detail: str = ""
    #: As in Accepted.
    subject: str = ""
    #: As in Accepted.
    unchanged: bool = False
