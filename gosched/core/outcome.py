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
    OUT_OF_TIME = 9  # the request's id says that it was made too long ago, or later than now


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A gang or a reservation of a plan that was not taken."""

    job_id: str
    #: One line for people.
    detail: str
    #: The state machine met a bug with it.
    is_bug: bool = False


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
class Answered:
    """A request that was answered, as it is remembered for its repeats."""

    #: Of who asked and of the request id (core/request_ids.py).
    key: str
    #: Mark of the user who asked; empty: a caller that is not judged as a user.
    user: str = ""
    #: Until when it is remembered at least, by the state's clock, in ms since 1970.
    until_ms: int
    #: UNSPECIFIED: accepted.
    code: Code = Code.UNSPECIFIED
    #: Of a rejection; otherwise empty.
    detail: str = ""
    #: As in Accepted.
    subject: str = ""
    #: As in Accepted.
    unchanged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The same below FeatureLevel.BOUNDED."""

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
