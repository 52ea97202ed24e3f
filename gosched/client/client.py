"""The typed client that the CLI, the SDK and the tests share.

Rule kept: a call outlives a leader. What may have happened is asked again under the same request id; streams go on
where they broke off, with no line lost or doubled.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from gosched.client.cluster import ClusterCalls, take_backup
from gosched.client.errors import GoSchedError, NotFound, Refused, TimedOut, Unavailable
from gosched.client.forecast import JobPlan, Reserved, WindowSet
from gosched.client.masters import Masters, TlsFiles
from gosched.client.model import (
    ClockReset,
    Controlled,
    JobDetail,
    JobExplanation,
    LogChunk,
    NodeDetail,
    QuotaStatus,
    Status,
    Submitted,
    Upgraded,
)
from gosched.client.usage import LiveUsage, NodeControlled
from gosched.core.commands.jobs import Action
from gosched.core.records.job import Job, JobState
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.records.window import Window
from gosched.core.resources import AmountMap
from gosched.core.spec.job_spec import JobSpec
from gosched.wire.backup_file import BackupInfo
from gosched.wire.codec import to_message, to_record
from gosched.wire.v1 import cluster_pb2, node_pb2, scheduler_pb2, types_pb2
from gosched.wire.v1.cluster_pb2_grpc import ClusterServiceStub
from gosched.wire.v1.node_pb2_grpc import NodeServiceStub
from gosched.wire.v1.scheduler_pb2_grpc import SchedulerServiceStub

_PAGE = 1000
_STREAM_S = 60.0  # how long a stream that had begun looks for a master to go on with
_STREAM_NAMES = {1: "stdout", 2: "stderr"}


class GoSchedClient(ClusterCalls):
    """`endpoints`: `http://host:8080`, or all masters as `host:9090,host:9091` or a list.

    Every method raises a GoSchedError; `timeout_s` bounds how long a call looks for a leader.
    """

    def __init__(self, endpoints: str | Sequence[str], *, tls: TlsFiles | None = None, timeout_s: float = 30.0) -> None:
        self._masters = Masters(endpoints, tls)
        self._timeout_s = timeout_s
        self._client_id = uuid.uuid4().hex

    def __enter__(self) -> GoSchedClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._masters.close()

    def get_status(self, *, digest: bool = False) -> Status:
        """`digest`: of the whole state too, which costs the master a look at every record."""
        request = scheduler_pb2.GetClusterStatusRequest(digest=digest)
        return Status.of(self._scheduler("GetClusterStatus", request))

    def submit(self, job: JobSpec | str | Path, *, request_id: str | None = None) -> Submitted:
        """`job`: a spec, the YAML text of one job, or the Path of a file with one. A repeat of an own `request_id`
        returns the first answer, also from another process."""
        spec = job if isinstance(job, JobSpec) else _read_spec(job)
        request = scheduler_pb2.SubmitJobRequest(
            request_id=request_id or uuid.uuid4().hex,
            client_id=self._client_for(request_id),
            spec=to_message(spec, types_pb2.JobSpec),
        )
        answer = self._change("SubmitJob", request)
        return Submitted(job_id=answer.job_id, warnings=tuple(answer.warnings), unchanged=answer.unchanged)

    def get_job(self, job: str) -> JobDetail:
        """By id, or the newest of that name."""
        return JobDetail.of(self._scheduler("GetJob", scheduler_pb2.GetJobRequest(job=job)))

    def list_jobs(
        self,
        *,
        states: Sequence[JobState] = (),
        queue: str = "",
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> list[Job]:
        """Newest first."""
        jobs: list[Job] = []
        request = scheduler_pb2.ListJobsRequest(
            states=[f"JOB_STATE_{state.name}" for state in states], queue=queue, labels=labels or {}
        )
        while limit is None or len(jobs) < limit:
            request.page_size = _PAGE if limit is None else min(_PAGE, limit - len(jobs))
            page = self._scheduler("ListJobs", request)
            jobs.extend(to_record(job, Job) for job in page.jobs)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        return jobs

    def cancel(self, job: str, *, reason: str = "", request_id: str | None = None) -> str:
        """Returns the job's id. Tasks that run get their stop grace."""
        request = scheduler_pb2.CancelJobRequest(
            request_id=request_id or uuid.uuid4().hex,
            client_id=self._client_for(request_id),
            job=job,
            reason=reason,
        )
        return str(self._change("CancelJob", request).job_id)

    def explain(self, job: str) -> JobExplanation:
        """Why a job waits, or where it runs; by id, or the newest of that name."""
        return JobExplanation.of(self._scheduler("ExplainJob", scheduler_pb2.GetJobRequest(job=job)))

    def control(self, job: str, action: Action, *, request_id: str | None = None) -> Controlled:
        """By id, or the newest of that name. FREEZE lets its tasks stand still where they are; what SUSPEND and REQUEUE
        end goes back to its old place in the queue."""
        request = scheduler_pb2.ControlJobRequest(
            request_id=request_id or uuid.uuid4().hex,
            client_id=self._client_for(request_id),
            job=job,
            action=f"ACTION_{action.name}",
        )
        answer = self._change("ControlJob", request)
        return Controlled(job_id=answer.job_id, unchanged=answer.unchanged)

    def plan(self, jobs: Sequence[JobSpec]) -> JobPlan:
        """What would become of these jobs if they were submitted now, in this order. Commits nothing."""
        request = scheduler_pb2.PlanJobRequest(specs=[to_message(spec, types_pb2.JobSpec) for spec in jobs])
        return JobPlan.of(self._scheduler("PlanJob", request))

    def set_window(self, window: Window, *, resources: AmountMap = (), request_id: str | None = None) -> WindowSet:
        """Keeps nodes for the window's queues and tenants, or for nobody. `resources`, if the window names no nodes:
        enough are chosen to have so much. A window of that name is changed."""
        request = scheduler_pb2.SetWindowRequest(
            request_id=request_id or uuid.uuid4().hex,
            client_id=self._client_for(request_id),
            window=to_message(window, types_pb2.Window),
            resources=dict(resources),
        )
        return WindowSet.of(self._change("SetWindow", request))

    def drop_window(self, name: str, *, request_id: str | None = None) -> None:
        request = scheduler_pb2.DropWindowRequest(
            request_id=request_id or uuid.uuid4().hex, client_id=self._client_for(request_id), name=name
        )
        self._change("DropWindow", request)

    def list_reservations(self) -> Reserved:
        return Reserved.of(self._scheduler("ListReservations", scheduler_pb2.ListReservationsRequest()))

    def set_clock(self, *, request_id: str | None = None) -> ClockReset:
        """Sets the state's clock back to the masters', and with it what it has stamped since."""
        request = scheduler_pb2.SetClockRequest(
            request_id=request_id or uuid.uuid4().hex, client_id=self._client_for(request_id)
        )
        answer = self._change("SetClock", request)
        return ClockReset(from_ms=answer.from_ms, to_ms=answer.to_ms, unchanged=answer.unchanged)

    def set_queues(
        self, queues: Sequence[Queue], quotas: Sequence[Quota] | None = None, *, request_id: str | None = None
    ) -> bool:
        """Replaces all queues, and all quotas where some are given, or changes nothing. False: they were so already."""
        request = scheduler_pb2.SetQueuesRequest(
            request_id=request_id or uuid.uuid4().hex,
            client_id=self._client_for(request_id),
            queues=[to_message(queue, types_pb2.Queue) for queue in queues],
            quotas=[to_message(quota, types_pb2.Quota) for quota in quotas or ()],
            sets_quotas=quotas is not None,
        )
        return not self._change("SetQueues", request).unchanged

    def set_quotas(self, quotas: Sequence[Quota], *, replace: bool = False, request_id: str | None = None) -> bool:
        """Sets the quotas of these tenants, all or none; one without any limit is taken away, and with `replace` those
        of all other tenants too. False: they were so already."""
        request = scheduler_pb2.SetQuotasRequest(
            request_id=request_id or uuid.uuid4().hex,
            client_id=self._client_for(request_id),
            quotas=[to_message(quota, types_pb2.Quota) for quota in quotas],
            replace=replace,
        )
        return not self._change("SetQuotas", request).unchanged

    def list_quotas(self) -> list[QuotaStatus]:
        """By tenant; also tenants without a quota that hold something."""
        answer = self._scheduler("ListQuotas", scheduler_pb2.ListQuotasRequest())
        return [QuotaStatus.of(item) for item in answer.quotas]

    def list_nodes(self, *, labels: Mapping[str, str] | None = None) -> list[NodeDetail]:
        request = node_pb2.ListNodesRequest(labels=labels or {})
        return [NodeDetail.of(view) for view in self._nodes("ListNodes", request).nodes]

    def get_node(self, node: str) -> NodeDetail:
        """By id or name. Raises Refused when several nodes have that name."""
        nodes = self.list_nodes()
        found = [n for n in nodes if n.node.id == node] or [n for n in nodes if n.node.name == node]
        if not found:
            raise NotFound(f"there is no node {node!a}")
        if len(found) > 1:
            ids = ", ".join(sorted(n.node.id for n in found))
            raise Refused(f"{len(found)} nodes are named {node!a}: say which by its id: {ids}")
        return found[0]

    def list_usage(self, *, job: str = "", node: str = "", tasks: bool = False) -> LiveUsage:
        """Of all nodes or one, by id; with `tasks` of their tasks too. Or of the tasks of one job, by id or name."""
        return LiveUsage.of(self._nodes("ListUsage", node_pb2.ListUsageRequest(job=job, node=node, tasks=tasks)))

    def cordon(self, node: str, *, reason: str = "", request_id: str | None = None) -> NodeControlled:
        """By id or name. It gets no new work; what runs there goes on."""
        return self._control_node("CordonNode", node, reason, request_id)

    def uncordon(self, node: str, *, request_id: str | None = None) -> NodeControlled:
        """By id or name. It takes work again, whoever closed it."""
        return self._control_node("UncordonNode", node, "", request_id)

    def drain(
        self, node: str, *, reason: str = "", deadline_s: float | None = None, request_id: str | None = None
    ) -> NodeControlled:
        """By id or name. It gets no new work, and what can start again elsewhere leaves at once. What cannot stays
        until it ends, or is stopped after `deadline_s`."""
        return self._control_node("DrainNode", node, reason, request_id, deadline_s)

    def remove_node(self, node: str, *, request_id: str | None = None) -> NodeControlled:
        """Forgets a node that is DEAD; by id, or by a name that no other node has."""
        return self._control_node("RemoveNode", node, "", request_id)

    def finalize_upgrade(self, *, request_id: str | None = None) -> Upgraded:
        """Raises the cluster's feature level to the newest that all masters know."""
        request = cluster_pb2.FinalizeUpgradeRequest(
            request_id=request_id or uuid.uuid4().hex, client_id=self._client_for(request_id)
        )
        answer = _warned(
            lambda: self._masters.call(
                lambda channel, timeout: ClusterServiceStub(channel).FinalizeUpgrade(request, timeout=timeout),
                timeout_s=self._timeout_s,
            )
        )
        return Upgraded(feature_level=answer.feature_level, unchanged=answer.unchanged)

    def take_backup(self) -> tuple[BackupInfo, Iterator[bytes]]:
        """What the backup is of, and its content, which can be read once: for `gosched.wire.backup_file`. All that was
        acknowledged before is in it, from whichever master."""
        return take_backup(self._masters, min_revision=self.get_status().revision, timeout_s=self._timeout_s)

    def watch(self, job: str, *, timeout_s: float | None = None) -> Iterator[JobDetail]:
        """The job now and after each change, until it has ended. Raises TimedOut when `timeout_s` are over."""
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        request = scheduler_pb2.GetJobRequest(job=job)
        last: JobDetail | None = None
        for message in self._stream("WatchJob", lambda: request, ends):
            detail = JobDetail.of(message)
            request.job = detail.id  # from now on this very job, not a newer one of its name
            # A master that lags behind must not take us back. What a job waits for changes without a revision.
            if last is None or (detail.revision >= last.revision and detail != last):
                last = detail
                yield detail
            if detail.state.is_final:
                return

    def wait(self, job: str, timeout: float | None = None) -> JobDetail:
        """Returns the job once it has ended. Raises TimedOut after `timeout` seconds."""
        for detail in self.watch(job, timeout_s=timeout):
            if detail.state.is_final:
                return detail
        raise AssertionError("watch() ends with the job")

    def logs(
        self, job: str, *, follow: bool = False, task: str = "", timeout_s: float | None = None
    ) -> Iterator[LogChunk]:
        """What the job's tasks (or one: `worker/3`) wrote; with `follow`, until the job has ended."""
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

    def _change(self, method: str, request: Any) -> Any:
        return _warned(lambda: self._scheduler(method, request))

    def _control_node(
        self, method: str, node: str, reason: str, request_id: str | None, deadline_s: float | None = None
    ) -> NodeControlled:
        request = node_pb2.ControlNodeRequest(
            request_id=request_id or uuid.uuid4().hex,
            client_id=self._client_for(request_id),
            node=node,
            reason=reason,
            drain_in_ms=0 if deadline_s is None else max(1, int(deadline_s * 1000)),
        )
        return NodeControlled.of(_warned(lambda: self._nodes(method, request)))

    def _nodes(self, method: str, request: Any) -> Any:
        return self._masters.call(
            lambda channel, timeout: getattr(NodeServiceStub(channel), method)(request, timeout=timeout),
            timeout_s=self._timeout_s,
        )

    def _scheduler(self, method: str, request: Any) -> Any:
        return self._masters.call(
            lambda channel, timeout: getattr(SchedulerServiceStub(channel), method)(request, timeout=timeout),
            timeout_s=self._timeout_s,
        )

    def _stream(self, method: str, request: Any, ends: float | None, *, until_closed: bool = False) -> Iterator[Any]:
        """Messages of a stream that is opened anew, by `request()`, whenever it breaks.

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

    def _client_for(self, request_id: str | None) -> str:
        """Answers are remembered by client and request; an own request id means the same to every process."""
        return "own-request-id" if request_id else self._client_id


def _warned(change: Callable[[], Any]) -> Any:
    """A leader that lost its majority may have logged what it could not commit; the next one may commit it."""
    try:
        return change()
    except Unavailable as error:
        raise Unavailable(f"{error}. It may still take effect: look before you repeat it") from error


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
