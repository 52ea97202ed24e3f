"""What the client returns about the future: plans that nobody committed, and what is reserved."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.client.model import JobExplanation, Victim
from gosched.core.records.fence import Fence
from gosched.core.records.reservation import Reservation
from gosched.core.records.window import Window
from gosched.wire.codec import to_record
from gosched.wire.v1 import scheduler_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """What would become of a job. `outcome`: starts, starts_after_evictions, waits or refused. `start_ms`: now, or the
    estimated start; 0: unknown. `explanation`: of one that waits or is refused."""

    name: str
    outcome: str
    nodes: tuple[tuple[str, int], ...]
    victims: tuple[Victim, ...]
    start_ms: int
    explanation: JobExplanation | None
    warnings: tuple[str, ...]

    @staticmethod
    def of(message: scheduler_pb2.PlannedJob) -> PlannedJob:
        return PlannedJob(
            name=message.name,
            outcome=message.outcome,
            nodes=tuple((item.node_id, item.tasks) for item in message.nodes),
            victims=tuple(Victim.of(item) for item in message.victims),
            start_ms=message.start_ms,
            explanation=JobExplanation.of(message.explanation) if message.HasField("explanation") else None,
            warnings=tuple(message.warnings),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedStart:
    """The reserved start of another job, before and after; 0: none is promised."""

    job_id: str
    name: str
    before_ms: int
    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """`jobs` in the order in which they were given; `moved`: reserved starts of others that would change."""

    jobs: tuple[PlannedJob, ...]
    moved: tuple[MovedStart, ...]
    revision: int

    @staticmethod
    def of(message: scheduler_pb2.PlanJobResponse) -> JobPlan:
        return JobPlan(
            jobs=tuple(PlannedJob.of(item) for item in message.jobs),
            moved=tuple(
                MovedStart(job_id=m.job_id, name=m.name, before_ms=m.before_ms, after_ms=m.after_ms)
                for m in message.moved
            ),
            revision=message.revision,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSet:
    """A window as it was set, with its nodes. `in_the_way`: ids of running jobs that may not have ended by its start
    and cannot be evicted."""

    window: Window
    in_the_way: tuple[str, ...]

    @staticmethod
    def of(message: scheduler_pb2.SetWindowResponse) -> WindowSet:
        return WindowSet(window=to_record(message.window, Window), in_the_way=tuple(message.in_the_way))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """`windows` were made by people; `reservations` are promised starts of pending jobs; `fences` hold the room of jobs
    whose victims have not ended yet."""

    windows: tuple[Window, ...]
    reservations: tuple[Reservation, ...]
    fences: tuple[Fence, ...]
    revision: int

    @staticmethod
    def of(message: scheduler_pb2.ListReservationsResponse) -> Reserved:
        return Reserved(
            windows=tuple(to_record(item, Window) for item in message.windows),
            reservations=tuple(to_record(item, Reservation) for item in message.reservations),
            fences=tuple(to_record(item, Fence) for item in message.fences),
            revision=message.revision,
        )
