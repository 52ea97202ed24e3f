"""One job and one node, each with what belongs to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gosched.core.records.job import Job, JobState
from gosched.core.records.node import Node
from gosched.core.records.task import Task
from gosched.core.resources import Resources


class WaitLine(NamedTuple):
    """Why a job waits. A tuple: users of the SDK unpack it."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """A job and its tasks at one revision."""

    job: Job
    tasks: tuple[Task, ...]
    #: Of a pending job; None, or without code and message: nothing is known.
    explanation: WaitLine | None = None
    revision: int
    #: Of an array: names of the elements that failed last.
    failed_elements: tuple[str, ...] = ()
    #: Of one that runs: when it ends as half of the jobs like it did; 0: not known.
    expected_end_ms: int = 0
    #: When it ends as nine of ten of them did; 0: not known.
    likely_end_ms: int = 0

    @property
    def id(self) -> str:
        return self.job.id

    @property
    def state(self) -> JobState:
        """As it is shown: SUSPENDED of a frozen job."""
        return self.job.shown_state

    @property
    def waiting_for(self) -> WaitLine | None:
        """Return why a pending job waits; None: it does not, or nothing is known."""
        return self.explanation if self.explanation and any(self.explanation) else None

    @property
    def exit_code(self) -> int:
        """Return the job's own: 0 when it succeeded; of its first failed task; 1 when there is none to name."""
        if self.job.state is JobState.SUCCEEDED:
            return 0
        return self.job.exit_code or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDetail:
    """A node and what runs there."""

    node: Node
    used: Resources
    #: How many tasks hold a place there.
    tasks: int
    #: None: the agent has sent no heartbeat to this leader yet.
    heartbeat_age_ms: int | None
