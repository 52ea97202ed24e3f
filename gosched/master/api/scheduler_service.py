"""SchedulerService: what users ask. Served by the leader; the front of a follower forwards to it.

Invariant: a job is read after a barrier, so that no user is told less than was acknowledged before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gosched.core.commands.cluster import DropWindow, SetQueues, SetQuotas, SetWindow
from gosched.core.commands.command import Body
from gosched.core.commands.jobs import Action, CancelJob, ControlJob, SubmitJob
from gosched.core.limits import MAX_NAME_LENGTH, MAX_SPEC_BYTES
from gosched.core.outcome import Accepted
from gosched.core.records.job import Job
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.records.window import Window
from gosched.core.rules.values import check_line
from gosched.core.spec.job_spec import JobSpec
from gosched.master.agents.exec import Execs, start_of
from gosched.master.api.explanation import explain_job
from gosched.master.api.forecast import MAX_SPECS, forecast
from gosched.master.api.status import StatusReader
from gosched.master.api.status_digest import StatusDigest
from gosched.master.base.callers import caller_of
from gosched.master.base.errors import accepted, invalid, not_found, parsed
from gosched.master.base.job_changes import JobChanges
from gosched.master.base.leadership import Leadership
from gosched.master.base.proposals import Proposals
from gosched.master.cluster.clock_keeper import ClockKeeper
from gosched.master.jobs.admission import Admissions
from gosched.master.jobs.job_logs import JobLogs
from gosched.master.jobs.job_view import job_view, watch_job
from gosched.master.planning.cycles import Cycles
from gosched.master.planning.windows import chosen_nodes, in_the_way, list_reservations, named_nodes
from gosched.replication.interface import Replication
from gosched.wire.codec import fill, map_pairs, to_message
from gosched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc

DEFAULT_PAGE = 1000
MAX_PAGE = 10_000
MAX_PAGE_BYTES = 4 * 1024 * 1024
MAX_RULES_BYTES = 480 * 1024  # of queues or quotas; they travel in one log entry
SPEC_OVERHEAD_BYTES = 64 * 1024  # of the message, beyond its texts

_Change = (
    scheduler_pb2.SubmitJobRequest
    | scheduler_pb2.CancelJobRequest
    | scheduler_pb2.ControlJobRequest
    | scheduler_pb2.SetQueuesRequest
    | scheduler_pb2.SetQuotasRequest
    | scheduler_pb2.SetWindowRequest
    | scheduler_pb2.DropWindowRequest
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerService(scheduler_pb2_grpc.SchedulerServiceServicer):
    replication: Replication
    leadership: Leadership
    proposals: Proposals
    cycles: Cycles
    changes: JobChanges
    logs: JobLogs
    execs: Execs
    status: StatusReader
    admissions: Admissions
    keeper: ClockKeeper
    status_digest: StatusDigest
    windows: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def SubmitJob(self, request: scheduler_pb2.SubmitJobRequest, context: Any) -> scheduler_pb2.SubmitJobResponse:
        _check_request_id(request.client_id, request.request_id)
        size = request.spec.ByteSize()
        if size > MAX_SPEC_BYTES + SPEC_OVERHEAD_BYTES:
            raise invalid(f"the job takes {size} bytes; at most {MAX_SPEC_BYTES} are allowed: keep data in files")
        spec = parsed(request.spec, JobSpec)
        async with self.admissions.submission(spec, request.client_id, request.request_id) as submission:
            taken = await self._change(submission.command, request)
        warnings = self.cycles.warnings(spec)
        return scheduler_pb2.SubmitJobResponse(
            job_id=taken.subject,
            warnings=[submission.warning, *warnings] if submission.warning else warnings,
            unchanged=taken.unchanged,
            revision=self.replication.state.revision,
        )

    async def CancelJob(self, request: scheduler_pb2.CancelJobRequest, context: Any) -> scheduler_pb2.CancelJobResponse:
        if found := check_line("reason", request.reason):
            raise invalid(str(found))
        taken = await self._change(CancelJob(job_id=request.job, reason=request.reason), request)
        return scheduler_pb2.CancelJobResponse(job_id=taken.subject, revision=self.replication.state.revision)

    async def ControlJob(
        self, request: scheduler_pb2.ControlJobRequest, context: Any
    ) -> scheduler_pb2.ControlJobResponse:
        try:
            action = Action(request.action)
        except ValueError as error:
            raise invalid(f"this version knows no action {request.action}") from error
        taken = await self._change(ControlJob(job_id=request.job, action=action), request)
        return scheduler_pb2.ControlJobResponse(
            job_id=taken.subject, unchanged=taken.unchanged, revision=self.replication.state.revision
        )

    async def PlanJob(self, request: scheduler_pb2.PlanJobRequest, context: Any) -> scheduler_pb2.PlanJobResponse:
        if not 0 < len(request.specs) <= MAX_SPECS:
            raise invalid(f"1 to {MAX_SPECS} jobs are planned together; {len(request.specs)} were given")
        specs = [parsed(spec, JobSpec) for spec in request.specs]
        await self.proposals.barrier()
        plan = await forecast(self.replication.state, self.cycles, self.admissions, specs)
        return to_message(plan, scheduler_pb2.PlanJobResponse)

    async def GetJob(self, request: scheduler_pb2.GetJobRequest, context: Any) -> scheduler_pb2.JobView:
        job = await self._fresh_job(request.job)
        view = job_view(self.replication.state, job, self.cycles.explanations)
        return to_message(view, scheduler_pb2.JobView)

    async def WatchJob(
        self, request: scheduler_pb2.GetJobRequest, context: Any
    ) -> AsyncIterator[scheduler_pb2.JobView]:
        job = await self._fresh_job(request.job)
        async for view in watch_job(self.replication, self.leadership, self.changes, self.cycles, job.id):
            yield to_message(view, scheduler_pb2.JobView)

    async def ListJobs(self, request: scheduler_pb2.ListJobsRequest, context: Any) -> scheduler_pb2.ListJobsResponse:
        before = _parse_token(request.page_token)
        size = request.page_size or DEFAULT_PAGE
        if size < 0:
            raise invalid(f"page_size {size} must not be negative")
        await self.proposals.barrier()
        state = self.replication.state
        answer = scheduler_pb2.ListJobsResponse(revision=state.revision)
        page_bytes = last = 0
        for job in reversed(state.jobs.values()):  # made in order of sequence, and kept so by snapshots
            if (before and job.sequence >= before) or not _chosen(job, request):
                continue
            if len(answer.jobs) >= min(size, MAX_PAGE) or page_bytes > MAX_PAGE_BYTES:
                answer.next_page_token = str(last)
                break
            fill(job, answer.jobs.add())
            page_bytes += answer.jobs[-1].ByteSize()
            last = job.sequence
        return answer

    async def StreamJobLogs(
        self, request: scheduler_pb2.StreamJobLogsRequest, context: Any
    ) -> AsyncIterator[scheduler_pb2.LogChunk]:
        job = await self._fresh_job(request.job)
        caller = caller_of(context)
        async for chunk in self.logs.stream(job.id, request, caller.name):
            yield chunk

    async def ExecTask(
        self, requests: AsyncIterator[scheduler_pb2.ExecRequest], context: Any
    ) -> AsyncIterator[scheduler_pb2.ExecResponse]:
        start = await start_of(requests)
        job = await self._fresh_job(start.job)
        async for response in self.execs.run(job, start, requests):
            yield response

    async def ExplainJob(self, request: scheduler_pb2.GetJobRequest, context: Any) -> scheduler_pb2.JobExplanation:
        job = await self._fresh_job(request.job)
        explanation = await explain_job(self.replication.state, job.id, self.cycles, self.status)
        return to_message(explanation, scheduler_pb2.JobExplanation)

    async def SetQueues(self, request: scheduler_pb2.SetQueuesRequest, context: Any) -> scheduler_pb2.SetQueuesResponse:
        queues = tuple([parsed(queue, Queue) for queue in request.queues])
        quotas = tuple([parsed(quota, Quota) for quota in request.quotas])
        command = SetQueues(queues=queues, quotas=quotas, sets_quotas=request.sets_quotas)
        unchanged = (await self._change(command, request)).unchanged
        return scheduler_pb2.SetQueuesResponse(unchanged=unchanged, revision=self.replication.state.revision)

    async def SetQuotas(self, request: scheduler_pb2.SetQuotasRequest, context: Any) -> scheduler_pb2.SetQuotasResponse:
        quotas = tuple([parsed(quota, Quota) for quota in request.quotas])
        unchanged = (await self._change(SetQuotas(quotas=quotas, replace=request.replace), request)).unchanged
        return scheduler_pb2.SetQuotasResponse(unchanged=unchanged, revision=self.replication.state.revision)

    async def ListQuotas(
        self, request: scheduler_pb2.ListQuotasRequest, context: Any
    ) -> scheduler_pb2.ListQuotasResponse:
        await self.proposals.barrier()
        quotas = [to_message(quota, scheduler_pb2.QuotaStatus) for quota in self.status.quotas()]
        return scheduler_pb2.ListQuotasResponse(quotas=quotas, revision=self.replication.state.revision)

    async def SetWindow(self, request: scheduler_pb2.SetWindowRequest, context: Any) -> scheduler_pb2.SetWindowResponse:
        window = parsed(request.window, Window)
        if bool(window.nodes) == bool(request.resources):
            raise invalid("give the nodes of the window, or the resources that nodes are chosen for")
        await self.proposals.barrier()
        state = self.replication.state
        async with self.windows:  # so that no two windows are given the same nodes
            nodes = (
                named_nodes(state, window.nodes)
                if window.nodes
                else chosen_nodes(state, dict(request.resources), window)
            )
            await self._change(SetWindow(window=replace(window, nodes=nodes)), request)
        answer = scheduler_pb2.SetWindowResponse(revision=state.revision)
        made = state.windows.get(window.name)
        if made is not None:  # else dropped since: this is the repeat of an old request
            fill(made, answer.window)
            answer.in_the_way.extend(in_the_way(state, made))
        return answer

    async def DropWindow(
        self, request: scheduler_pb2.DropWindowRequest, context: Any
    ) -> scheduler_pb2.DropWindowResponse:
        await self._change(DropWindow(name=request.name), request)
        return scheduler_pb2.DropWindowResponse(revision=self.replication.state.revision)

    async def ListReservations(
        self, request: scheduler_pb2.ListReservationsRequest, context: Any
    ) -> scheduler_pb2.ListReservationsResponse:
        await self.proposals.barrier()
        return to_message(list_reservations(self.replication.state), scheduler_pb2.ListReservationsResponse)

    async def SetClock(self, request: scheduler_pb2.SetClockRequest, context: Any) -> scheduler_pb2.SetClockResponse:
        _check_request_id(request.client_id, request.request_id)
        taken = await self.keeper.set_back(request.client_id, request.request_id)
        state = self.replication.state
        return scheduler_pb2.SetClockResponse(
            from_ms=int(taken.subject), to_ms=state.clock_ms, unchanged=taken.unchanged, revision=state.revision
        )

    async def GetClusterStatus(
        self, request: scheduler_pb2.GetClusterStatusRequest, context: Any
    ) -> scheduler_pb2.ClusterStatus:
        status = await self.status_digest.status() if request.digest else self.status.read()
        return to_message(status, scheduler_pb2.ClusterStatus)

    async def _change(self, command: Body, request: _Change) -> Accepted:
        """Propose a user's command. Raises ApiError."""
        _check_request_id(request.client_id, request.request_id)
        if not isinstance(command, SubmitJob) and request.ByteSize() > MAX_RULES_BYTES:
            raise invalid(f"they take {request.ByteSize()} bytes together; at most {MAX_RULES_BYTES} fit in one change")
        return accepted(
            await self.proposals.propose(command, client_id=request.client_id, request_id=request.request_id)
        )

    async def _fresh_job(self, id_or_name: str) -> Job:
        await self.proposals.barrier()
        job = self.replication.state.find_job(id_or_name)
        if job is None:
            raise not_found(f"there is no job {id_or_name[:MAX_NAME_LENGTH]!a}")
        return job


def _check_request_id(client_id: str, request_id: str) -> None:
    if max(len(client_id), len(request_id)) > MAX_NAME_LENGTH:
        raise invalid(f"client_id and request_id have at most {MAX_NAME_LENGTH} characters")


def _parse_token(token: str) -> int:
    if not token:
        return 0
    if not (token.isascii() and token.isdigit() and len(token) < 20):
        raise invalid("page_token is not one that this cluster gave")
    return int(token)


def _chosen(job: Job, request: scheduler_pb2.ListJobsRequest) -> bool:
    if request.states and int(job.shown_state) not in {int(state) for state in request.states}:
        return False
    if request.queue and job.spec.queue != request.queue:
        return False
    return _matches(request.labels, job)


def _matches(labels: Mapping[str, str], job: Job) -> bool:
    return all(pair in job.spec.labels for pair in map_pairs(labels))
