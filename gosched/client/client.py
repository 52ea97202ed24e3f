"""The typed client that the CLI, the SDK and the tests share.

Invariant: a call outlives a leader. What may have happened is asked again under the same request id; streams go on
where they broke off, with no line lost or doubled.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from gosched.api.details import JobDetail
from gosched.api.explanation import JobExplanation
from gosched.api.forecast import JobPlan, Reserved
from gosched.api.status import QuotaStatus, Status
from gosched.client.answers import ClockReset, Controlled, LogChunk, Submitted, WindowSet
from gosched.client.cluster import ClusterCalls
from gosched.client.errors import GoSchedError, TimedOut
from gosched.client.masters import Masters, TlsFiles
from gosched.client.nodes import NodeCalls
from gosched.core.commands.jobs import Action
from gosched.core.records.job import Job, JobState
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.records.window import Window
from gosched.core.resources import AmountMap
from gosched.core.spec.job_spec import JobSpec
from gosched.wire.codec import to_message, to_record
from gosched.wire.v1 import scheduler_pb2, types_pb2
from gosched.wire.v1.scheduler_pb2_grpc import SchedulerServiceStub

_PAGE = 1000
_STREAM_S = 60.0  # how long a stream that had begun looks for a master to go on with
_STREAM_NAMES = {1: "stdout", 2: "stderr"}


class GoSchedClient(NodeCalls, ClusterCalls):
    """A client of one cluster.

    `endpoints`: `http://host:8080`, or all masters as `host:9090,host:9091` or a list. `timeout_s` bounds how long a
    call looks for a leader. Every method raises a GoSchedError.
    """

    def __init__(self, endpoints: str | Sequence[str], *, tls: TlsFiles | None = None, timeout_s: float = 30.0) -> None:
        super().__init__(Masters(endpoints, tls), timeout_s)

    def __enter__(self) -> GoSchedClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._masters.close()

    def get_status(self, *, digest: bool = False) -> Status:
        """Return the cluster in numbers. `digest`: of the whole state, too, at the cost of a look at every record."""
        request = scheduler_pb2.GetClusterStatusRequest(digest=digest)
        return to_record(self._call(SchedulerServiceStub, "GetClusterStatus", request), Status)

    def submit(self, job: JobSpec | str | Path, *, request_id: str | None = None) -> Submitted:
        """Submit a job: a spec, the YAML text of one job, or the Path of a file with one. A repeat of an own
        `request_id` returns the first answer, also from another process."""
        spec = job if isinstance(job, JobSpec) else _read_spec(job)
        request = scheduler_pb2.SubmitJobRequest(**self._identity(request_id), spec=to_message(spec, types_pb2.JobSpec))
        answer = self._change(SchedulerServiceStub, "SubmitJob", request)
        return Submitted(job_id=answer.job_id, warnings=tuple(answer.warnings), unchanged=answer.unchanged)

    def get_job(self, job: str) -> JobDetail:
        """Return a job by its id, or the newest of that name."""
        return to_record(self._call(SchedulerServiceStub, "GetJob", scheduler_pb2.GetJobRequest(job=job)), JobDetail)

    def list_jobs(
        self,
        *,
        states: Sequence[JobState] = (),
        queue: str = "",
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> list[Job]:
        """Return jobs, the newest first."""
        jobs: list[Job] = []
        request = scheduler_pb2.ListJobsRequest(
            states=[f"JOB_STATE_{state.name}" for state in states], queue=queue, labels=labels or {}
        )
        while limit is None or len(jobs) < limit:
            request.page_size = _PAGE if limit is None else min(_PAGE, limit - len(jobs))
            page = self._call(SchedulerServiceStub, "ListJobs", request)
            jobs.extend(to_record(job, Job) for job in page.jobs)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        return jobs

    def cancel(self, job: str, *, reason: str = "", request_id: str | None = None) -> str:
        """Cancel a job, by its id or name, and return its id. Tasks that run get their stop grace."""
        request = scheduler_pb2.CancelJobRequest(**self._identity(request_id), job=job, reason=reason)
        return str(self._change(SchedulerServiceStub, "CancelJob", request).job_id)

    def explain(self, job: str) -> JobExplanation:
        """Return why a job waits, or where it runs; by its id, or the newest of that name."""
        return to_record(
            self._call(SchedulerServiceStub, "ExplainJob", scheduler_pb2.GetJobRequest(job=job)), JobExplanation
        )

    def control(self, job: str, action: Action, *, request_id: str | None = None) -> Controlled:
        """Hold, release, suspend, resume, requeue or freeze a job, by its id, or the newest of that name. FREEZE lets
        its tasks stand still where they are; what SUSPEND and REQUEUE end goes back to its old place in the queue."""
        request = scheduler_pb2.ControlJobRequest(**self._identity(request_id), job=job, action=f"ACTION_{action.name}")
        answer = self._change(SchedulerServiceStub, "ControlJob", request)
        return Controlled(job_id=answer.job_id, unchanged=answer.unchanged)

    def plan(self, jobs: Sequence[JobSpec]) -> JobPlan:
        """Return what would become of these jobs if they were submitted now, in this order. Commits nothing."""
        request = scheduler_pb2.PlanJobRequest(specs=[to_message(spec, types_pb2.JobSpec) for spec in jobs])
        return to_record(self._call(SchedulerServiceStub, "PlanJob", request), JobPlan)

    def set_window(self, window: Window, *, resources: AmountMap = (), request_id: str | None = None) -> WindowSet:
        """Reserve nodes for the window's queues and tenants; for maintenance, if it names none. `resources`, if the
        window names no nodes: enough are chosen to have so much. A window of that name is changed."""
        request = scheduler_pb2.SetWindowRequest(
            **self._identity(request_id), window=to_message(window, types_pb2.Window), resources=dict(resources)
        )
        answer = self._change(SchedulerServiceStub, "SetWindow", request)
        return WindowSet(window=to_record(answer.window, Window), in_the_way=tuple(answer.in_the_way))

    def drop_window(self, name: str, *, request_id: str | None = None) -> None:
        request = scheduler_pb2.DropWindowRequest(**self._identity(request_id), name=name)
        self._change(SchedulerServiceStub, "DropWindow", request)

    def list_reservations(self) -> Reserved:
        answer = self._call(SchedulerServiceStub, "ListReservations", scheduler_pb2.ListReservationsRequest())
        return to_record(answer, Reserved)

    def set_clock(self, *, request_id: str | None = None) -> ClockReset:
        """Set the state's clock back to the masters', and with it what it has stamped since."""
        request = scheduler_pb2.SetClockRequest(**self._identity(request_id))
        answer = self._change(SchedulerServiceStub, "SetClock", request)
        return ClockReset(from_ms=answer.from_ms, to_ms=answer.to_ms, unchanged=answer.unchanged)

    def set_queues(
        self, queues: Sequence[Queue], quotas: Sequence[Quota] | None = None, *, request_id: str | None = None
    ) -> bool:
        """Replace all queues, and all quotas where some are given, or change nothing. False: they were so already."""
        request = scheduler_pb2.SetQueuesRequest(
            **self._identity(request_id),
            queues=[to_message(queue, types_pb2.Queue) for queue in queues],
            quotas=[to_message(quota, types_pb2.Quota) for quota in quotas or ()],
            sets_quotas=quotas is not None,
        )
        return not self._change(SchedulerServiceStub, "SetQueues", request).unchanged

    def set_quotas(self, quotas: Sequence[Quota], *, replace: bool = False, request_id: str | None = None) -> bool:
        """Set the quotas of these tenants, all or none. A quota without any limit is removed, and with `replace` those
        of all other tenants, too. False: they were so already."""
        request = scheduler_pb2.SetQuotasRequest(
            **self._identity(request_id),
            quotas=[to_message(quota, types_pb2.Quota) for quota in quotas],
            replace=replace,
        )
        return not self._change(SchedulerServiceStub, "SetQuotas", request).unchanged

    def list_quotas(self) -> list[QuotaStatus]:
        """Return the quotas by tenant, also of tenants that have none and hold something."""
        answer = self._call(SchedulerServiceStub, "ListQuotas", scheduler_pb2.ListQuotasRequest())
        return [to_record(item, QuotaStatus) for item in answer.quotas]

    def watch(self, job: str, *, timeout_s: float | None = None) -> Iterator[JobDetail]:
        """Yield the job now and after each change, until it has ended. Raises TimedOut after `timeout_s`."""
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        request = scheduler_pb2.GetJobRequest(job=job)
        last: JobDetail | None = None
        for message in self._stream("WatchJob", lambda: request, ends):
            detail = to_record(message, JobDetail)
            request.job = detail.id  # from now on this very job, not a newer one of its name
            # A master that lags behind must not take us back. What a job waits for changes without a revision.
            if last is None or (detail.revision >= last.revision and detail != last):
                last = detail
                yield detail
            if detail.state.is_final:
                return

    def wait(self, job: str, timeout: float | None = None) -> JobDetail:
        """Return the job once it has ended. Raises TimedOut after `timeout` seconds."""
        for detail in self.watch(job, timeout_s=timeout):
            if detail.state.is_final:
                return detail
        raise AssertionError("watch() ends with the job")

    def logs(
        self, job: str, *, follow: bool = False, task: str = "", timeout_s: float | None = None
    ) -> Iterator[LogChunk]:
        """Yield what the job's tasks (or one: `worker/3`) wrote; with `follow`, until the job has ended."""
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        read: dict[tuple[str, scheduler_pb2.LogStream], int] = {}  # (allocation, stream) -> bytes seen
        job_id = self.get_job(job).id

        def request() -> scheduler_pb2.StreamJobLogsRequest:
            positions = [
                scheduler_pb2.LogPosition(allocation_id=allocation, stream=stream, offset=offset)
                for (allocation, stream), offset in read.items()
            ]
            return scheduler_pb2.StreamJobLogsRequest(job=job_id, task=task, follow=follow, **{"from": positions})

        for message in self._stream("StreamJobLogs", request, ends, until_closed=True):
            place = (message.allocation_id, message.stream)
            data = message.data[max(0, read.get(place, 0) - message.offset) :]
            if data:
                read[place] = message.offset + len(message.data)
            if data or message.note:
                yield LogChunk(
                    task_id=message.task_id,
                    allocation_id=message.allocation_id,
                    stream=_STREAM_NAMES.get(message.stream, ""),
                    offset=message.offset + len(message.data) - len(data),
                    data=data,
                    note=message.note,
                )

    def _stream(self, method: str, request: Any, ends: float | None, *, until_closed: bool = False) -> Iterator[Any]:
        """Yield the messages of a stream that is opened anew, by `request()`, whenever it breaks.

        A stream that a master closes has ended when `until_closed`; otherwise the caller ends it.
        """
        patience_s = self._timeout_s
        while True:
            for channel, _ in self._masters.tries(patience_s):
                left = None if ends is None else ends - time.monotonic()
                if left is not None and left <= 0:
                    raise TimedOut("time is up")
                stream = getattr(SchedulerServiceStub(channel), method)(request(), timeout=left)
                progressed = False
                try:
                    for message in stream:
                        progressed = True
                        yield message
                    if until_closed:
                        return
                except grpc.RpcError as error:
                    if ends is not None and time.monotonic() >= ends:
                        raise TimedOut("time is up") from None
                    self._masters.failed(error)
                finally:
                    with suppress(grpc.RpcError):
                        stream.cancel()
                if progressed:
                    patience_s = max(self._timeout_s, _STREAM_S)
                    break  # it worked for a while: the time to find a leader begins anew


def _read_spec(job: str | Path) -> JobSpec:
    from gosched.config import ConfigError, parse_job_file  # pydantic is slow to import, and specs need none

    try:
        text, source = (job.read_bytes(), str(job)) if isinstance(job, Path) else (job, "job")
        specs = parse_job_file(text, source)
    except (ConfigError, OSError) as error:
        raise GoSchedError(str(error)) from error
    if len(specs) != 1:
        raise GoSchedError(f"{len(specs)} jobs in it: submit them one by one")
    return specs[0]
