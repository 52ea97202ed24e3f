"""The typed client for asyncio. What it asks is in `gosched/client/requests`, how in `transport.py`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from gosched.client import records
from gosched.client.aio.handle import AsyncJobHandle
from gosched.client.aio.transport import AsyncTransport, calling, following, listing, turning
from gosched.client.answers import NotSubmitted, Submitted
from gosched.client.arguments import checked
from gosched.client.errors import Refused
from gosched.client.handle import handles
from gosched.client.own_context import endpoints_and_tls
from gosched.client.requests import access, cluster, history, join, nodes, revocations, secrets, sharing
from gosched.client.requests import following as streams
from gosched.client.requests import jobs as job_calls
from gosched.client.requests.history import ENDS
from gosched.client.targets import TlsFiles, Token
from gosched.client.transport import left_s

if TYPE_CHECKING:
    from gosched.api.details import JobDetail
    from gosched.client.aio.exec import AsyncExec
    from gosched.wire.backup_file import BackupInfo


class AsyncGoSchedClient(AsyncTransport):
    """A client of one cluster, for asyncio: `async with AsyncGoSchedClient("http://localhost:8080") as client`.

    Its arguments and methods are those of GoSchedClient; calls are awaited, and what yields is used with `async for`.
    A client belongs to the loop in which it is used first.
    """

    @checked
    def __init__(
        self,
        endpoints: str | Sequence[str] | None = None,
        *,
        tls: TlsFiles | None = None,
        token: Token = None,
        timeout_s: float = 30.0,
        fails_fast: bool = False,
    ) -> None:
        super().__init__(*endpoints_and_tls(endpoints, tls, token), timeout_s, fails_fast=fails_fast)

    async def __aenter__(self) -> AsyncGoSchedClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncGoSchedClient({str(self._masters)!r})"

    async def close(self) -> None:
        """Close all connections. Streams that other tasks follow end."""
        await self._masters.close()

    @checked
    async def submit(self, job: records.JobLike, *, request_id: str | None = None) -> AsyncJobHandle:
        """Submit a job, as GoSchedClient.submit does."""
        from gosched.client.spec import spec_of
        from gosched.client.tracing import submit_span

        spec = spec_of(job)
        with submit_span([spec.name]) as span:
            answer = await self._do(job_calls.submit(spec, request_id, span.metadata))
            span.took(answer.job_id)
        return self._handle(answer, spec.name)

    @checked
    async def submit_all(
        self,
        jobs: records.JobLike | Sequence[records.JobLike],
        *,
        all_or_nothing: bool = False,
        request_id: str | None = None,
    ) -> list[AsyncJobHandle | NotSubmitted]:
        """Submit up to 10,000 jobs by one request, as GoSchedClient.submit_all does."""
        from gosched.client.spec import specs_of
        from gosched.client.tracing import submit_span

        specs = specs_of(jobs)
        with submit_span([spec.name for spec in specs]) as span:
            answers = await self._do(job_calls.submit_all(specs, all_or_nothing, request_id, span.metadata))
        return [
            self._handle(answer, spec.name) if isinstance(answer, Submitted) else answer
            for answer, spec in zip(answers, specs, strict=True)
        ]

    @checked
    async def job(self, job: str) -> AsyncJobHandle:
        """Return the handle of a job that is there, by its id, its name or TENANT/NAME."""
        found = (await self.get_job(job)).job
        return AsyncJobHandle(job_id=found.id, name=found.spec.name, warnings=(), unchanged=True, client=self)

    @checked
    async def wait(self, job: str, timeout: float | None = None) -> JobDetail:
        """Return the job once it has ended. Raises TimedOut after `timeout` seconds."""
        async for detail in self.watch(job, timeout_s=timeout):
            if detail.state.is_final:
                return detail
        raise AssertionError("watch() ends with the job")

    @checked
    async def as_completed(
        self, jobs: Iterable[AsyncJobHandle], timeout: float | None = None
    ) -> AsyncIterator[AsyncJobHandle]:
        """Yield each job when it has ended, in the order of the ends. Raises TimedOut after `timeout` seconds."""
        open_jobs = {job.job_id: job for job in handles(jobs, AsyncJobHandle)}
        ends = None if timeout is None else time.monotonic() + timeout
        while open_jobs:
            # The revision is noted before the jobs are looked at, so that no end falls between.
            revision = (await self.list_events(limit=1)).revision
            for job_id in list(open_jobs):
                if (await self.get_job(job_id)).state.is_final:
                    yield open_jobs.pop(job_id)
            if not open_jobs:
                return
            try:
                async for event in self.watch_events(after=revision, kinds=ENDS, timeout_s=left_s(ends)):
                    if event.job_id in open_jobs:
                        yield open_jobs.pop(event.job_id)
                    if not open_jobs:
                        return
            except Refused:
                continue  # what followed is not kept any more: look at each job again

    @checked
    async def exec(
        self,
        job: str,
        command: Sequence[str],
        *,
        task: str = "",
        env: Mapping[str, str] | None = None,
        size: tuple[int, int] | None = None,
    ) -> AsyncExec:
        """Run a command beside a task of a job, as GoSchedClient.exec does."""
        from gosched.client.aio.exec import AsyncExec
        from gosched.client.exec import CONNECT_S, exec_start

        start = exec_start(job, command, task, env, size)
        async for channel, _ in self._masters.tries(CONNECT_S):
            return AsyncExec(channel, start)
        raise AssertionError("tries() ends by raising")

    async def take_backup(self) -> tuple[BackupInfo, AsyncIterator[bytes]]:
        """Return what the backup is of, and its content, as GoSchedClient.take_backup does."""
        from gosched.client.aio.backup import take_backup

        revision = (await self.get_status()).revision
        return await take_backup(self._masters, min_revision=revision, timeout_s=self._timeout_s)

    get_job = calling(job_calls.get_job)
    list_jobs = listing(job_calls.list_jobs)
    job_rows = turning(job_calls.job_rows)
    cancel = calling(job_calls.cancel)
    request_cancel = calling(job_calls.request_cancel)
    control = calling(job_calls.control)
    scale = calling(job_calls.scale)
    explain = calling(job_calls.explain)
    plan = calling(job_calls.plan)
    watch = following(streams.watch)
    logs = following(streams.logs)

    list_events = calling(history.list_events)
    watch_events = following(history.watch_events)
    list_attempts = calling(history.list_attempts)
    finished_jobs = turning(history.finished_jobs)

    set_queues = calling(sharing.set_queues)
    set_quotas = calling(sharing.set_quotas)
    list_quotas = calling(sharing.list_quotas)
    set_window = calling(sharing.set_window)
    drop_window = calling(sharing.drop_window)
    list_reservations = calling(sharing.list_reservations)

    set_bindings = calling(access.set_bindings)
    list_bindings = calling(access.list_bindings)
    check_access = calling(access.check_access)
    create_token = calling(access.create_token)
    list_tokens = calling(access.list_tokens)
    revoke_token = calling(access.revoke_token)
    revoke_certificate = calling(revocations.revoke_certificate)
    list_revocations = calling(revocations.list_revocations)
    unrevoke_certificate = calling(revocations.unrevoke_certificate)

    # Secrets of tenants

    set_secret = calling(secrets.set_secret)
    list_secrets = calling(secrets.list_secrets)
    delete_secret = calling(secrets.delete_secret)
    rotate_secrets = calling(secrets.rotate_secrets)

    # Joining

    create_join_token = calling(join.create_join_token)
    list_join_tokens = calling(join.list_join_tokens)
    revoke_join_token = calling(join.revoke_join_token)

    list_nodes = listing(nodes.list_nodes)
    get_node = calling(nodes.get_node)
    list_usage = calling(nodes.list_usage)
    cordon = calling(nodes.cordon)
    uncordon = calling(nodes.uncordon)
    drain = calling(nodes.drain)
    remove_node = calling(nodes.remove_node)
    label_node = calling(nodes.label_node)

    get_status = calling(cluster.get_status)
    members = calling(cluster.members)
    add_master = calling(cluster.add_master)
    remove_master = calling(cluster.remove_master)
    transfer_leadership = calling(cluster.transfer_leadership)
    take_snapshot = calling(cluster.take_snapshot)
    master_health = calling(cluster.master_health)
    set_log_level = calling(cluster.set_log_level)
    finalize_upgrade = calling(cluster.finalize_upgrade)
    set_clock = calling(cluster.set_clock)

    def _handle(self, answer: Submitted, name: str) -> AsyncJobHandle:
        return AsyncJobHandle(
            job_id=answer.job_id, warnings=answer.warnings, unchanged=answer.unchanged, name=name, client=self
        )
