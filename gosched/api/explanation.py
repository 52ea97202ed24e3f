"""Why a job waits: one code and one line, and the facts behind them.

Invariant: a line is for people, and true at the revision of its record; numbers that others compare have fields of
their own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

from gosched.api.status import QueueStatus
from gosched.core.records.job import Job
from gosched.core.resources import AmountMap


class Refused(NamedTuple):
    """A filter, and how many nodes it was the first to refuse. A tuple: the planner and users of the SDK compare and
    unpack it as one."""

    filter: str
    nodes: int


class NodeTasks(NamedTuple):
    """A node, and how many tasks of a job are there. A tuple, as `Refused` is."""

    node_id: str
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A job that holds what another one waits for."""

    job_id: str
    name: str
    queue: str
    #: Of what is waited for, by resource.
    held: AmountMap
    #: When it ends; 0: unknown.
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A job that is evicted, would be, or would have been, or elastic tasks of it."""

    job_id: str
    name: str
    #: How many of its tasks.
    tasks: int
    #: All of them.
    whole: bool
    #: preempt, reclaim, backfill, window or repair.
    cause: str
    #: Work since its start or last checkpoint, times `tasks`.
    lost_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWait:
    """Why a job of a listing waits."""

    job_id: str
    code: str
    #: One line.
    message: str
    #: The estimated start; 0: none is in sight.
    start_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitExplanation:
    """What holds a job that waits, or would."""

    #: Empty: no cycle has looked at it yet.
    code: str = ""
    #: One line.
    message: str = ""
    #: The queue's or tenant's limit that holds it; empty: none does.
    limit: str = ""
    refused: tuple[Refused, ...] = ()
    #: What came closest; empty: not known.
    nearest: str = ""
    #: The estimated start; 0: none is in sight.
    start_ms: int = 0
    #: What that estimate rests on.
    start_from: str = ""
    #: The jobs that hold what it waits for, in the order of their ends.
    holders: tuple[Holder, ...] = ()
    #: The smallest change found that would start it now; empty: none.
    change: str = ""
    #: The jobs that it would evict if its queue did more than observe.
    victims: tuple[Victim, ...] = ()

    def of_job(
        self,
        job: Job,
        *,
        position: int = 0,
        nodes: tuple[NodeTasks, ...] = (),
        queue: QueueStatus | None = None,
        revision: int = 0,
        expected_end_ms: int = 0,
        likely_end_ms: int = 0,
    ) -> JobExplanation:
        """Return this as the explanation of `job`, with what else is known of it."""
        why = {field.name: getattr(self, field.name) for field in fields(WaitExplanation)}
        return JobExplanation(
            **why,
            job=job,
            position=position,
            nodes=nodes,
            queue=queue,
            revision=revision,
            expected_end_ms=expected_end_ms,
            likely_end_ms=likely_end_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExplanation(WaitExplanation):
    """A job, what holds it if it is pending, and where it runs."""

    job: Job
    #: In its queue, 1 is next; 0: no cycle has looked at it.
    position: int = 0
    #: The nodes that its tasks are on now.
    nodes: tuple[NodeTasks, ...] = ()
    #: None: the queue is gone.
    queue: QueueStatus | None = None
    revision: int = 0
    #: Of one that runs: when it ends as half of the jobs like it did; 0: not known.
    expected_end_ms: int = 0
    #: When it ends as nine of ten of them did; 0: not known.
    likely_end_ms: int = 0
