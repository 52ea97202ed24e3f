"""Why a job waits, as a record: one code, one line, and the facts behind them.

Invariant: the line is for people and true at the view's revision; numbers that programs compare have fields of their
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gosched.api.explanation import Victim as ShownVictim
from gosched.api.explanation import WaitExplanation
from gosched.core.reasons import WaitReason
from gosched.core.records.reservation import Reservation
from gosched.core.state.job_names import name_beside
from gosched.scheduling.preemption.eviction_rules import Victim
from gosched.scheduling.snapshot.running_gangs import RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(WaitExplanation):
    """What a cycle finds out about a job that waits."""

    code: WaitReason
    #: There is more to say, at the cost of a look at every node.
    brief: bool = False
    #: Even if all ready nodes were empty they could not hold it, so that waiting does not help.
    is_hopeless: bool = False


def reserved(why: Explanation, reservation: Reservation | None) -> Explanation:
    """Explain a gang with a reserved start, or, without a reservation, one that lost it."""
    if reservation is None:
        return replace(why, start_ms=0, start_from="")
    count = len(dict.fromkeys(share.node_id for share in reservation.shares))
    nodes = f"{count} {'node' if count == 1 else 'nodes'}"
    start_from = f"reserved for its {'deadline' if reservation.for_deadline else 'place in the queue'}, on {nodes}"
    if reservation.standing:
        start_from = f"a guess: {nodes} kept for it, and what runs there tells no end"
    return replace(why, start_ms=reservation.start_ms, start_from=start_from)


def name_of(other: PendingGang | RunningGang, gang: PendingGang) -> str:
    """Return what a line about a gang calls another one."""
    return name_beside(other.name, other.job_id, (other.tenant, other.queue), (gang.tenant, gang.queue))


def blocked_by_reservations(names: Sequence[str]) -> Explanation:
    """Explain a gang that would fit now if it were not for these reservations and windows."""
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    message = f"it fits now, but the capacity is reserved for {shown}; a timeout that ends before would let it start"
    return Explanation(code=WaitReason.RESERVED, message=message)


def cut_short(why: Explanation) -> Explanation:
    """Explain a gang for which no victims were found, though not all was searched."""
    return replace(
        why, message=f"{why.message}; the search for victims ran out of budget, it goes on in the next cycle"
    )


def with_victims(why: Explanation, victims: Sequence[Victim], now_ms: int) -> Explanation:
    """Explain a gang whose queue only observes, with the victims that it would have had."""
    return replace(why, victims=observed(victims, now_ms))


def observed(victims: Sequence[Victim], now_ms: int) -> tuple[ShownVictim, ...]:
    return tuple(
        [
            ShownVictim(
                job_id=victim.gang.job_id,
                name=victim.gang.name,
                tasks=victim.tasks,
                whole=not victim.ranks,
                cause=victim.cause.name.lower(),
                lost_ms=victim.gang.lost_ms(now_ms, victim.tasks),
            )
            for victim in victims
        ]
    )


def too_early(gang: PendingGang, now_ms: int) -> Explanation | None:
    """Explain a gang whose begin, or the end of its backoff, is still to come; None: it may start now."""
    if gang.not_before_ms <= now_ms:
        return None
    until = _utc(gang.not_before_ms)
    if gang.begin_ms > now_ms:
        message = f"it does not begin before {until}"
        return Explanation(code=WaitReason.BEGIN, message=message, start_ms=gang.begin_ms, start_from="its begin")
    return Explanation(code=WaitReason.BACKOFF, message=f"waits until {until} before it is tried again")


def queued(before: int) -> Explanation:
    jobs = "1 job was" if before == 1 else f"{before} jobs were"
    return Explanation(code=WaitReason.QUEUED, message=f"{jobs} considered before it; its turn comes in a later cycle")


def evicted_in_this_plan() -> Explanation:
    return Explanation(code=WaitReason.QUEUED, message="this plan evicts its job for another one")


def too_large(max_bytes: int) -> Explanation:
    message = f"has too many tasks for one log entry of {max_bytes // 1024} KiB; split it into several jobs"
    return Explanation(code=WaitReason.TOO_LARGE, message=message)


def held_back(code: WaitReason, limit: str) -> Explanation:
    return Explanation(code=code, message=limit, limit=limit)


def _utc(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms // 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
