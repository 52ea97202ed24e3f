"""Why a job waits, as a record: one code, one line, and the facts behind them.

Invariant: the line is for people and true at the view's revision; numbers that programs compare have fields of their
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from gosched.core.commands.plans import Cause
from gosched.core.records.reservation import Reservation
from gosched.core.resources import AmountMap
from gosched.scheduling.preemption.eviction_rules import Victim
from gosched.scheduling.snapshot.task_requests import PendingGang


class Reason(StrEnum):
    NO_NODE = "NO_NODE"
    NODE_SELECTOR = "NODE_SELECTOR"
    CONSTRAINTS = "CONSTRAINTS"
    GPU_MODEL = "GPU_MODEL"
    NODE_TOO_SMALL = "NODE_TOO_SMALL"
    INSUFFICIENT = "INSUFFICIENT"
    TOPOLOGY = "TOPOLOGY"
    FRAGMENTED = "FRAGMENTED"
    QUEUE_LIMIT = "QUEUE_LIMIT"
    QUOTA = "QUOTA"
    MAX_RUNNING_JOBS = "MAX_RUNNING_JOBS"
    RESERVED = "RESERVED"
    BACKOFF = "BACKOFF"
    QUEUED = "QUEUED"
    TOO_LARGE = "TOO_LARGE"
    PLANNER_BUG = "PLANNER_BUG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A running job that holds what another one waits for."""

    job_id: str
    name: str
    queue: str
    #: The amounts by resource, on the nodes in question.
    held: AmountMap
    #: When it ends as far as is known; 0: not known.
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A victim that would have been evicted if the queue did more than observe."""

    job_id: str
    name: str
    #: The number of tasks that would have been evicted.
    tasks: int
    #: Whether these are all of the job.
    whole: bool
    cause: Cause
    #: Its work since the start or the last checkpoint, times its tasks.
    lost_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why one job waits. What was not found, or not looked for, is empty."""

    code: Reason
    #: One line for people.
    message: str
    #: The limit of the queue or tenant that holds it back.
    limit: str = ""
    #: Filters, each with the number of nodes that it was the first to refuse.
    refused: tuple[tuple[str, int], ...] = ()
    #: What came closest to holding it.
    nearest: str = ""
    #: There is more to say, at the cost of a look at every node.
    brief: bool = False
    #: The reserved or estimated start; 0: none is in sight.
    start_ms: int = 0
    #: What `start_ms` rests on.
    start_from: str = ""
    #: What holds the resources that it waits for, the first to end first.
    holders: tuple[Holder, ...] = ()
    #: The smallest change found that would start it now, as a line.
    change: str = ""
    #: What would be evicted for it if its queue did more than observe.
    victims: tuple[Observed, ...] = ()


def reserved(why: Explanation, reservation: Reservation | None) -> Explanation:
    """Explain a gang with a reserved start, or, without a reservation, one that lost it."""
    if reservation is None:
        return replace(why, start_ms=0, start_from="")
    what = "deadline" if reservation.for_deadline else "place in the queue"
    nodes = len(dict.fromkeys(share.node_id for share in reservation.shares))
    start_from = f"reserved for its {what}, on {nodes} {'node' if nodes == 1 else 'nodes'}"
    return replace(why, start_ms=reservation.start_ms, start_from=start_from)


def blocked_by_reservations(names: Sequence[str]) -> Explanation:
    """Explain a gang that would fit now if it were not for these reservations and windows."""
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    message = f"there is room for it now, but reserved for {shown}; it could start with a timeout that ends before"
    return Explanation(code=Reason.RESERVED, message=message)


def cut_short(why: Explanation) -> Explanation:
    """Explain a gang for which no victims were found, though not all was searched."""
    return replace(why, message=f"{why.message}; the search for others to evict ran out of its budget, it goes on")


def with_victims(why: Explanation, victims: Sequence[Victim], now_ms: int) -> Explanation:
    """Explain a gang whose queue only observes, with the victims that it would have had."""
    return replace(why, victims=observed(victims, now_ms))


def observed(victims: Sequence[Victim], now_ms: int) -> tuple[Observed, ...]:
    return tuple(
        [
            Observed(
                job_id=victim.gang.job_id,
                name=victim.gang.name,
                tasks=victim.tasks,
                whole=not victim.ranks,
                cause=victim.cause,
                lost_ms=victim.gang.lost_ms(now_ms, victim.tasks),
            )
            for victim in victims
        ]
    )


def backoff(gang: PendingGang) -> Explanation:
    until = datetime.fromtimestamp(gang.not_before_ms // 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Explanation(code=Reason.BACKOFF, message=f"waits until {until} before it is tried again")


def queued(before: int) -> Explanation:
    jobs = "1 job was" if before == 1 else f"{before} jobs were"
    return Explanation(code=Reason.QUEUED, message=f"{jobs} looked at before it; its turn comes in a later cycle")


def evicted_in_this_plan() -> Explanation:
    return Explanation(code=Reason.QUEUED, message="its job gives way to another one in this plan")


def too_large(max_bytes: int) -> Explanation:
    message = f"has too many tasks for one log entry of {max_bytes // 1024} KiB; split it into several jobs"
    return Explanation(code=Reason.TOO_LARGE, message=message)


def held_back(code: str, limit: str) -> Explanation:
    return Explanation(code=Reason(code), message=limit, limit=limit)
