"""The typed client that the CLI, the SDK and the tests share. What it asks is in `requests/`, how in `transport.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from gosched.client import records
from gosched.client.answers import NotSubmitted, Submitted
from gosched.client.arguments import checked
from gosched.client.handle import JobHandle
from gosched.client.own_context import endpoints_and_tls
from gosched.client.requests import access, cluster, history, join, nodes, revocations, secrets, sharing
from gosched.client.requests import following as streams
from gosched.client.requests import jobs as job_calls
from gosched.client.targets import TlsFiles, Token
from gosched.client.transport import Transport, calling, following, listing, turning

if TYPE_CHECKING:
    from gosched.api.details import JobDetail
    from gosched.client.exec import Exec
    from gosched.wire.backup_file import BackupInfo


class GoSchedClient(Transport):
    """A client of one cluster.

    `endpoints`: `http://host:8080` or `https://host:8080`, or all masters as `host:9090,host:9091` or a list; None:
    those that goschedctl uses, from GOSCHED_ENDPOINTS or the context file. `token`: what is sent with each call, or
    what returns it; it needs `tls`, of which the CA suffices. `timeout_s` bounds how long a call looks for a leader;
    `fails_fast`: it looks for a second alone while all masters refuse the connection, and none has answered
    this client yet. Every method raises a GoSchedError. Threads may share a client.
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

    def __enter__(self) -> GoSchedClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"GoSchedClient({str(self._masters)!r})"

    def close(self) -> None:
        """Close all connections. Streams that other threads follow end."""
        self._masters.close()

    @checked
    def submit(self, job: records.JobLike, *, request_id: str | None = None) -> JobHandle:
        """Submit a job: a Job, a mapping with the keys of a job file, the YAML text of one job, or the path of a file
        with one. A repeat of an own `request_id` returns the first answer, also from another process. The job continues
        the caller's trace: the current span of OpenTelemetry, else TRACEPARENT of the environment."""
        from gosched.client.spec import spec_of
        from gosched.client.tracing import submit_span

        spec = spec_of(job)
        with submit_span([spec.name]) as span:
            answer = self._do(job_calls.submit(spec, request_id, span.metadata))
            span.took(answer.job_id)
        return self._handle(answer, spec.name)

    @checked
    def submit_all(
        self,
        jobs: records.JobLike | Sequence[records.JobLike],
        *,
        all_or_nothing: bool = False,
        request_id: str | None = None,
    ) -> list[JobHandle | NotSubmitted]:
        """Submit up to 10,000 jobs by one request, and return what became of each. `all_or_nothing`: none is submitted
        where one is found wrong before the first submission. A repeat of an own `request_id` submits none twice."""
        from gosched.client.spec import specs_of
        from gosched.client.tracing import submit_span

        specs = specs_of(jobs)
        with submit_span([spec.name for spec in specs]) as span:
            answers = self._do(job_calls.submit_all(specs, all_or_nothing, request_id, span.metadata))
        return [
            self._handle(answer, spec.name) if isinstance(answer, Submitted) else answer
            for answer, spec in zip(answers, specs, strict=True)
        ]

    @checked
    def job(self, job: str) -> JobHandle:
        """Return the handle of a job that is there, by its id, its name or TENANT/NAME."""
        found = self.get_job(job).job
        return JobHandle(job_id=found.id, name=found.spec.name, warnings=(), unchanged=True, client=self)

    @checked
    def wait(self, job: str, timeout: float | None = None) -> JobDetail:
        """Return the job once it has ended. Raises TimedOut after `timeout` seconds."""
        for detail in self.watch(job, timeout_s=timeout):
            if detail.state.is_final:
                return detail
        raise AssertionError("watch() ends with the job")

    @checked
    def exec(
        self,
        job: str,
        command: Sequence[str],
        *,
        task: str = "",
        env: Mapping[str, str] | None = None,
        size: tuple[int, int] | None = None,
    ) -> Exec:
        """Run a command beside a task of a job, such as worker/3; by default the first that runs. `size`: rows and
        columns of its terminal; None: it has none."""
        from gosched.client.exec import Exec

        return Exec(self, job, command, task=task, env=env, size=size)

    def take_backup(self) -> tuple[BackupInfo, Iterator[bytes]]:
        """Return what the backup is of, and its content, to read once: for `gosched.wire.backup_file`. It has all that
        was acknowledged before, whichever master it comes from."""
        from gosched.client.backup import take_backup

        return take_backup(self._masters, min_revision=self.get_status().revision, timeout_s=self._timeout_s)

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

    def _handle(self, answer: Submitted, name: str) -> JobHandle:
        return JobHandle(
            job_id=answer.job_id, warnings=answer.warnings, unchanged=answer.unchanged, name=name, client=self
        )
