"""Handles: a job of the cluster, with what people do to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from gosched.client.answers import Controlled, LogChunk, Submitted
from gosched.client.arguments import given_as
from gosched.client.errors import JobFailed, Misused

if TYPE_CHECKING:
    from gosched.api.details import JobDetail
    from gosched.api.explanation import JobExplanation
    from gosched.api.history import Attempt
    from gosched.client.client import GoSchedClient
    from gosched.client.exec import Exec
    from gosched.core.records.job import JobState

H = TypeVar("H")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobHandle(Submitted):
    """A job that was submitted, or looked up by `client.job()`. Its methods ask the cluster anew at each call."""

    name: str
    client: GoSchedClient = field(repr=False)

    @property
    def id(self) -> str:
        return self.job_id

    def status(self) -> JobDetail:
        """Return the job and its tasks as they are now."""
        return self.client.get_job(self.job_id)

    @property
    def state(self) -> JobState:
        """Its state now; each look is a call."""
        return self.status().state

    def wait(self, timeout: float | None = None) -> JobDetail:
        """Return the job once it has ended, however. Raises TimedOut after `timeout` seconds."""
        return self.client.wait(self.job_id, timeout)

    def result(self, timeout: float | None = None) -> JobDetail:
        """Return the job once it has succeeded. Raises JobFailed where it has not, TimedOut after `timeout` seconds."""
        return succeeded(self.wait(timeout))

    def watch(self, *, timeout_s: float | None = None) -> Iterator[JobDetail]:
        """Yield the job now and after each change, until it has ended. Raises TimedOut after `timeout_s`."""
        return self.client.watch(self.job_id, timeout_s=timeout_s)

    def logs(self, **how: Any) -> Iterator[LogChunk]:
        """Yield what its tasks wrote; the arguments are those of the client's `logs`: follow, task, attempt, ..."""
        return self.client.logs(self.job_id, **how)

    def explain(self) -> JobExplanation:
        """Return why it waits, or where it runs."""
        return self.client.explain(self.job_id)

    def attempts(self) -> list[Attempt]:
        """Return its attempts, the oldest first."""
        return self.client.list_attempts(self.job_id)

    def exec(self, command: Sequence[str], **how: Any) -> Exec:
        """Run a command beside one of its tasks; the arguments are those of the client's `exec`."""
        return self.client.exec(self.job_id, command, **how)

    def cancel(self, reason: str = "") -> None:
        """Cancel it. Tasks that run get their stop grace; `wait` returns when they have ended."""
        self.client.cancel(self.job_id, reason=reason)

    def control(self, action: str) -> Controlled:
        """Do one of these: hold, release, suspend, resume, requeue, freeze."""
        return self.client.control(self.job_id, action)

    def scale(self, tasks: int) -> Controlled:
        """Let it have so many of its tasks, from `gang.min` to all."""
        return self.client.scale(self.job_id, tasks)

    def __eq__(self, other: object) -> bool:
        return self.job_id == other.job_id if isinstance(other, JobHandle) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.job_id)

    def __repr__(self) -> str:
        return f"JobHandle(name={self.name!r}, id={self.job_id!r})"


def handles(jobs: object, kind: type[H]) -> list[H]:
    """Return the handles, of one or of several jobs. Raises Misused."""
    found: list[H] = []
    for job in jobs if isinstance(jobs, Iterable) else [jobs]:
        if not isinstance(job, kind):
            raise Misused(f"expected handles as submit() returns them, got {given_as(job)}; client.job(ID) makes one")
        found.append(job)
    return found


def succeeded(detail: JobDetail) -> JobDetail:
    """Return a job that has succeeded. Raises JobFailed."""
    if detail.job.state.name != "SUCCEEDED":
        raise JobFailed(detail)
    return detail
