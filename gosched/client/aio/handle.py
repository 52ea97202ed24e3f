"""Handles of the client for asyncio: a job of the cluster, with what people do to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gosched.client.answers import Controlled, LogChunk, Submitted
from gosched.client.handle import succeeded

if TYPE_CHECKING:
    from gosched.api.details import JobDetail
    from gosched.api.explanation import JobExplanation
    from gosched.api.history import Attempt
    from gosched.client.aio.client import AsyncGoSchedClient
    from gosched.client.aio.exec import AsyncExec


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AsyncJobHandle(Submitted):
    """A job that was submitted, or looked up by `client.job()`. Its methods ask the cluster anew at each call."""

    name: str
    client: AsyncGoSchedClient = field(repr=False)

    @property
    def id(self) -> str:
        return self.job_id

    async def status(self) -> JobDetail:
        """Return the job and its tasks as they are now."""
        return await self.client.get_job(self.job_id)

    async def wait(self, timeout: float | None = None) -> JobDetail:
        """Return the job once it has ended, however. Raises TimedOut after `timeout` seconds."""
        return await self.client.wait(self.job_id, timeout)

    async def result(self, timeout: float | None = None) -> JobDetail:
        """Return the job once it has succeeded. Raises JobFailed where it has not, TimedOut after `timeout` seconds."""
        return succeeded(await self.wait(timeout))

    def watch(self, *, timeout_s: float | None = None) -> AsyncIterator[JobDetail]:
        """Yield the job now and after each change, until it has ended. Raises TimedOut after `timeout_s`."""
        return self.client.watch(self.job_id, timeout_s=timeout_s)

    def logs(self, **how: Any) -> AsyncIterator[LogChunk]:
        """Yield what its tasks wrote; the arguments are those of the client's `logs`: follow, task, attempt, ..."""
        return self.client.logs(self.job_id, **how)

    async def explain(self) -> JobExplanation:
        """Return why it waits, or where it runs."""
        return await self.client.explain(self.job_id)

    async def attempts(self) -> list[Attempt]:
        """Return its attempts, the oldest first."""
        return await self.client.list_attempts(self.job_id)

    async def exec(self, command: Sequence[str], **how: Any) -> AsyncExec:
        """Run a command beside one of its tasks; the arguments are those of the client's `exec`."""
        return await self.client.exec(self.job_id, command, **how)

    async def cancel(self, reason: str = "") -> None:
        """Cancel it. Tasks that run get their stop grace; `wait` returns when they have ended."""
        await self.client.cancel(self.job_id, reason=reason)

    async def control(self, action: str) -> Controlled:
        """Do one of these: hold, release, suspend, resume, requeue, freeze."""
        return await self.client.control(self.job_id, action)

    async def scale(self, tasks: int) -> Controlled:
        """Let it have so many of its tasks, from `gang.min` to all."""
        return await self.client.scale(self.job_id, tasks)

    def __eq__(self, other: object) -> bool:
        return self.job_id == other.job_id if isinstance(other, AsyncJobHandle) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.job_id)

    def __repr__(self) -> str:
        return f"AsyncJobHandle(name={self.name!r}, id={self.job_id!r})"
