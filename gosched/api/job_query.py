"""Which jobs are listed, in which order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.primitives import StringMap
from gosched.core.records.job import JobState

MAX_PAGE = 10_000  # jobs


class JobOrder(IntEnum):
    """What jobs are listed by. Jobs that have not started or ended come last where they are listed by that."""

    UNSPECIFIED = 0
    #: When they were submitted, which is the order of their sequence numbers.
    SUBMITTED = 1
    STARTED = 2
    ENDED = 3
    NAME = 4
    PRIORITY = 5


class Direction(IntEnum):
    """UNSPECIFIED: names ascend, everything else descends."""

    UNSPECIFIED = 0
    ASCENDING = 1
    DESCENDING = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """A choice of jobs, and one page of them. What is empty or 0 does not choose."""

    #: As people see them: a frozen job is SUSPENDED.
    states: tuple[JobState, ...] = ()
    #: A queue and everything below it.
    queue: str = ""
    tenant: str = ""
    #: Who submitted it.
    user: str = ""
    #: All of them.
    labels: StringMap = ()
    #: Submitted or ended then or later, in ms since 1970.
    since_ms: int = 0
    #: Of the jobs that have ended only those that did so then or later, in ms since 1970.
    ended_since_ms: int = 0
    #: An array or a schedule, by id or name: its children.
    parent: str = ""
    #: UNSPECIFIED: SUBMITTED.
    order: JobOrder = JobOrder.UNSPECIFIED
    direction: Direction = Direction.UNSPECIFIED
    #: 0: a thousand; at most MAX_PAGE.
    page_size: int = 0
    #: Of the page before; empty: the first page.
    page_token: str = ""
    #: The answer has rows in place of jobs.
    rows: bool = False

    @property
    def descends(self) -> bool:
        if self.direction is Direction.UNSPECIFIED:
            return self.order is not JobOrder.NAME
        return self.direction is Direction.DESCENDING
