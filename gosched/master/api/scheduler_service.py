"""SchedulerService: what users ask. Served by the leader, but for ReadJobs; the front of a follower forwards to it.

Invariant: a job is read after a barrier, so that no user is told less than was acknowledged before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gosched.api.job_query import JobQuery
from gosched.api.job_row import JobRow, without_contents
from gosched.core.access import Object, Permission, job_object
from gosched.core.commands.cluster import DropWindow, SetQueues, SetQuotas, SetWindow
from gosched.core.commands.command import Body
from gosched.core.commands.jobs import Action, CancelJob, ControlJob, SubmitJob
from gosched.core.features import FeatureLevel
from gosched.core.outcome import Accepted
from gosched.core.records.job import Job
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.records.window import Window
from gosched.core.rules.values import check_id, check_line
from gosched.core.sharing import parent_of
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import PreemptionPolicy
from gosched.core.state.cluster_state import ClusterState
from gosched.core.trace_context import TraceContext, context_of_call
from gosched.master.agents.exec import Execs, start_of
from gosched.master.agents.spark_scaling import scales_itself
from gosched.master.api.explanation import MAX_WAITS, explain_job, job_waits
from gosched.master.api.forecast import MAX_SPECS, forecast
from gosched.master.api.redaction import detail_for, explanation_for, job_for, plan_for, reserved_for, row_for, wait_for
from gosched.master.api.rules import changed_queues, changed_quotas, changed_since, rules_etag, tried
from gosched.master.api.status import StatusReader
from gosched.master.api.status_digest import StatusDigest
from gosched.master.base.access import Access
from gosched.master.base.callers import Caller
from gosched.master.base.errors import accepted, invalid, not_found, parsed, unmet
from gosched.master.base.job_changes import JobChanges
from gosched.master.base.leadership import Leadership
from gosched.master.base.proposals import Proposals, has_answers_only
from gosched.master.cluster.clock_keeper import ClockKeeper
from gosched.master.history.recorder import NotedReason
from gosched.master.jobs.admission import Admissions
from gosched.master.jobs.batches import Batches, spec_of
from gosched.master.jobs.job_listing import list_jobs
from gosched.master.jobs.job_logs import JobLogs
from gosched.master.jobs.job_reading import read_jobs
from gosched.master.jobs.job_rows import job_row
from gosched.master.jobs.job_view import job_view, watch_job
from gosched.master.planning.cycles import Cycles
from gosched.master.planning.windows import chosen_nodes, in_the_way, list_reservations, named_nodes
from gosched.observe.tracing_leader import LeaderTraces, submission, submission_context
from gosched.replication.interface import Replication
from gosched.state_machine.secrets import missing_secret_problem
from gosched.wire.codec import fill, to_message
from gosched.wire.roles import Role
from gosched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc

MAX_RULES_BYTES = 480 * 1024  # of queues or quotas; they travel in one log entry

T = TypeVar("T")
_Rules = SetQueues | SetQuotas
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
    batches: Batches
    access: Access
    #: Why jobs wait, and since when, as the history noted it last.
    noted: Callable[[], Mapping[str, NotedReason]]
    traces: LeaderTraces | None = None
    windows: asyncio.Lock = field(default_factory=asyncio.Lock)
    rules: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def SubmitJob(self, request: scheduler_pb2.SubmitJobRequest, context: Any) -> scheduler_pb2.SubmitJobResponse:
        spec = spec_of(request.spec)
        traced = context_of_call(context.invocation_metadata())
        warnings: list[str] = []

        async def change() -> Accepted:
            self.access.check_submission(context.caller, spec)
            async with self.admissions.submission(spec) as admitted:
                state = self.replication.state
                command = _from_submitter(admitted.command, self.access, state, request.user, context.caller)
                command = _in_trace(command, state, traced, self.traces)
                warnings.extend([admitted.warning] if admitted.warning else [])
                call.propose()
                return await self._change(command, request)

        with submission(self.traces, traced) as call:
            taken = await self.proposals.once(request, change)
            call.taken(self.replication.state.jobs.get(taken.subject), unchanged=taken.unchanged)
        return scheduler_pb2.SubmitJobResponse(
            job_id=taken.subject,
            warnings=[] if has_answers_only() else [*warnings, *self.cycles.warnings(spec)],
            unchanged=taken.unchanged,
            revision=self.replication.state.revision,
        )

    async def SubmitJobs(
        self, request: scheduler_pb2.SubmitJobsRequest, context: Any
    ) -> scheduler_pb2.SubmitJobsResponse:
        caller = context.caller
        traced = context_of_call(context.invocation_metadata())

        def named(command: SubmitJob) -> SubmitJob:
            state = self.replication.state
            command = _from_submitter(command, self.access, state, request.user, caller)
            return _in_trace(command, state, traced, self.traces)

        def check(spec: JobSpec) -> None:
            self.access.check_submission(caller, spec)

        with submission(self.traces, traced, method="SubmitJobs", jobs=len(request.specs)):
            return await self.batches.submit(request, named, check)

    async def ReadJobs(self, request: scheduler_pb2.ReadJobsRequest, context: Any) -> scheduler_pb2.ReadJobsResponse:
        return await read_jobs(request)

    async def CancelJob(self, request: scheduler_pb2.CancelJobRequest, context: Any) -> scheduler_pb2.CancelJobResponse:
        async def change() -> Accepted:
            job_id = self._changeable(request, context.caller)
            if found := check_line("reason", request.reason):
                raise invalid(str(found))
            return await self._change(CancelJob(job_id=job_id, reason=request.reason), request)

        taken = await self.proposals.once(request, change)
        return scheduler_pb2.CancelJobResponse(
            job_id=taken.subject, unchanged=taken.unchanged, revision=self.replication.state.revision
        )

    async def ControlJob(
        self, request: scheduler_pb2.ControlJobRequest, context: Any
    ) -> scheduler_pb2.ControlJobResponse:
        try:
            action = Action(request.action)
        except ValueError as error:
            raise invalid(f"this version knows no action {request.action}") from error

        async def change() -> Accepted:
            job_id = self._changeable(request, context.caller)
            if action is not Action.SCALE and request.tasks:
                raise invalid(f"a number of tasks is of scale, not of {action.name.lower()}")
            if action is Action.SCALE:
                self._check_scalable(job_id)
            return await self._change(ControlJob(job_id=job_id, action=action, tasks=request.tasks), request)

        taken = await self.proposals.once(request, change)
        return scheduler_pb2.ControlJobResponse(
            job_id=taken.subject, unchanged=taken.unchanged, revision=self.replication.state.revision
        )

    def _check_scalable(self, job_id: str) -> None:
        """Raises ApiError."""
        state = self.replication.state
        if state.feature_level < FeatureLevel.BOUNDED:
            raise unmet("the cluster scales no jobs yet: `goschedctl cluster finalize-upgrade` raises its level")
        job = state.find_job(job_id)
        if job is not None and scales_itself(job.spec):
            raise unmet(f"the Spark application of job {job.spec.name} says how many executors it wants, and when")

    async def PlanJob(self, request: scheduler_pb2.PlanJobRequest, context: Any) -> scheduler_pb2.PlanJobResponse:
        if not 0 < len(request.specs) <= MAX_SPECS:
            raise invalid(f"1 to {MAX_SPECS} jobs are planned together; {len(request.specs)} were given")
        specs = [parsed(spec, JobSpec) for spec in request.specs]
        for spec in specs:
            self.access.check_submission(context.caller, spec)
        await self.proposals.barrier()
        if absent := next(filter(None, [missing_secret_problem(self.replication.state, spec) for spec in specs]), ""):
            raise not_found(absent)
        caller = context.caller
        user = caller.name if caller.role is Role.CLIENT else ""
        plan = await forecast(self.replication.state, self.cycles, self.admissions, specs, caller.name, user)
        return to_message(
            plan_for(plan, self._seen_jobs(context.caller), self.access.wording(context.caller)),
            scheduler_pb2.PlanJobResponse,
        )

    async def GetJob(self, request: scheduler_pb2.GetJobRequest, context: Any) -> scheduler_pb2.JobView:
        job = await self._fresh_job(request.job, context.caller, Permission.VIEW_JOB)
        view = job_view(self.replication.state, job, self.cycles.explanations)
        view = detail_for(view, self._seen_jobs(context.caller), self.access.wording(context.caller))
        return to_message(view, scheduler_pb2.JobView)

    async def WatchJob(
        self, request: scheduler_pb2.GetJobRequest, context: Any
    ) -> AsyncIterator[scheduler_pb2.JobView]:
        job = await self._fresh_job(request.job, context.caller, Permission.VIEW_JOB)
        views = watch_job(self.replication, self.leadership, self.changes, self.cycles, job.id)
        async for view in self._while_allowed(context.caller, Permission.VIEW_JOB, job, views):
            shown = detail_for(view, self._seen_jobs(context.caller), self.access.wording(context.caller))
            yield to_message(shown, scheduler_pb2.JobView)

    async def ListJobs(self, request: scheduler_pb2.ListJobsRequest, context: Any) -> scheduler_pb2.ListJobsResponse:
        query = parsed(request, JobQuery)
        await self.proposals.barrier()
        if query.parent:
            query = replace(query, parent=self.access.find_job(context.caller, Permission.VIEW_JOB, query.parent).id)
        state, explanations, noted = self.replication.state, self.cycles.explanations, self.noted()
        lists, sees = self.access.lists(context.caller), self.access.sees(context.caller)
        seen, words = self._seen_jobs(context.caller), self.access.wording(context.caller)

        def row(job: Job) -> JobRow:
            found = job_row(state, job, explanations, noted)
            return row_for(found, words) if sees is None or sees(job_object(job)) else without_contents(found)

        def whole(job: Job) -> Job:
            return job_for(job, seen, words)

        viewer = self.access.viewer(context.caller)
        return await list_jobs(state, query, row, whole, lists=lists, sees=sees, viewer=viewer)

    async def StreamJobLogs(
        self, request: scheduler_pb2.StreamJobLogsRequest, context: Any
    ) -> AsyncIterator[scheduler_pb2.LogChunk]:
        job = await self._fresh_job(request.job, context.caller, Permission.READ_LOGS)
        chunks = self.logs.stream(job.id, request, context.caller.name)
        async for chunk in self._while_allowed(context.caller, Permission.READ_LOGS, job, chunks):
            yield chunk

    async def ExecTask(
        self, requests: AsyncIterator[scheduler_pb2.ExecRequest], context: Any
    ) -> AsyncIterator[scheduler_pb2.ExecResponse]:
        start = await start_of(requests)
        job = await self._fresh_job(start.job, context.caller, Permission.EXEC)
        responses = self.execs.run(job, start, requests, context.caller.name)
        async for response in self._while_allowed(context.caller, Permission.EXEC, job, responses):
            yield response

    async def ExplainJob(self, request: scheduler_pb2.GetJobRequest, context: Any) -> scheduler_pb2.JobExplanation:
        job = await self._fresh_job(request.job, context.caller, Permission.VIEW_JOB)
        explanation = await explain_job(self.replication.state, job.id, self.cycles, self.status, context.caller.name)
        return to_message(
            explanation_for(explanation, self._seen_jobs(context.caller), self.access.wording(context.caller)),
            scheduler_pb2.JobExplanation,
        )

    async def ListWaits(self, request: scheduler_pb2.ListWaitsRequest, context: Any) -> scheduler_pb2.ListWaitsResponse:
        if len(request.jobs) > MAX_WAITS:
            raise invalid(f"{len(request.jobs)} jobs; at most {MAX_WAITS} are asked for together")
        seen = self._seen_jobs(context.caller)
        asked = [job_id for job_id in request.jobs if seen is None or seen(job_id)]
        waits = job_waits(self.replication.state, asked, self.cycles)
        answer = scheduler_pb2.ListWaitsResponse(revision=self.replication.state.revision)
        words = self.access.wording(context.caller)
        answer.waits.extend([to_message(wait_for(wait, words), scheduler_pb2.JobWait) for wait in waits])
        return answer

    async def SetQueues(self, request: scheduler_pb2.SetQueuesRequest, context: Any) -> scheduler_pb2.SetQueuesResponse:
        queues = tuple([parsed(queue, Queue) for queue in request.queues])
        quotas = tuple([parsed(quota, Quota) for quota in request.quotas])
        command = SetQueues(queues=queues, quotas=quotas, sets_quotas=request.sets_quotas)
        set_quotas = quotas if request.sets_quotas else None

        def check() -> None:
            self._check_queues(context.caller, queues, set_quotas)

        unchanged = (await self._change_rules(command, request, self._judged(context.caller, check))).unchanged
        return scheduler_pb2.SetQueuesResponse(unchanged=unchanged, revision=self.replication.state.revision)

    async def SetQuotas(self, request: scheduler_pb2.SetQuotasRequest, context: Any) -> scheduler_pb2.SetQuotasResponse:
        quotas = tuple([parsed(quota, Quota) for quota in request.quotas])
        command = SetQuotas(quotas=quotas, replace=request.replace)

        def check() -> None:
            self._check_quotas(context.caller, quotas, replace=request.replace)

        unchanged = (await self._change_rules(command, request, self._judged(context.caller, check))).unchanged
        return scheduler_pb2.SetQuotasResponse(unchanged=unchanged, revision=self.replication.state.revision)

    async def ListQuotas(
        self, request: scheduler_pb2.ListQuotasRequest, context: Any
    ) -> scheduler_pb2.ListQuotasResponse:
        await self.proposals.barrier()
        lists = self.access.lists(context.caller)
        found = self.status.quotas()
        if lists is not None:
            found = [one for one in found if self.access.is_in(context.caller, one.quota.tenant)]
        quotas = [to_message(quota, scheduler_pb2.QuotaStatus) for quota in found]
        return scheduler_pb2.ListQuotasResponse(quotas=quotas, revision=self.replication.state.revision)

    async def SetWindow(self, request: scheduler_pb2.SetWindowRequest, context: Any) -> scheduler_pb2.SetWindowResponse:
        window = parsed(request.window, Window)
        if bool(window.nodes) == bool(request.resources):
            raise invalid("give the nodes of the window, or the resources that nodes are chosen for")

        async def change() -> Accepted:
            await self.proposals.barrier()
            state = self.replication.state
            async with self.windows:  # so that no two windows are given the same nodes
                nodes = (
                    named_nodes(state, window.nodes)
                    if window.nodes
                    else chosen_nodes(state, dict(request.resources), window)
                )
                return await self._change(SetWindow(window=replace(window, nodes=nodes)), request)

        await self.proposals.once(request, change)
        state = self.replication.state
        answer = scheduler_pb2.SetWindowResponse(revision=state.revision)
        made = state.windows.get(window.name)
        if made is not None and not has_answers_only():  # else dropped since: this is the repeat of an old request
            fill(made, answer.window)
            seen = self._seen_jobs(context.caller)
            answer.in_the_way.extend([job for job in in_the_way(state, made) if seen is None or seen(job)])
        return answer

    async def DropWindow(
        self, request: scheduler_pb2.DropWindowRequest, context: Any
    ) -> scheduler_pb2.DropWindowResponse:
        await self.proposals.once(request, lambda: self._change(DropWindow(name=request.name), request))
        return scheduler_pb2.DropWindowResponse(revision=self.replication.state.revision)

    async def ListReservations(
        self, request: scheduler_pb2.ListReservationsRequest, context: Any
    ) -> scheduler_pb2.ListReservationsResponse:
        await self.proposals.barrier()
        reserved = reserved_for(list_reservations(self.replication.state), self._seen_jobs(context.caller))
        return to_message(reserved, scheduler_pb2.ListReservationsResponse)

    async def SetClock(self, request: scheduler_pb2.SetClockRequest, context: Any) -> scheduler_pb2.SetClockResponse:
        taken = await self.proposals.once(request, lambda: self.keeper.set_back(request.client_id, request.request_id))
        state = self.replication.state
        return scheduler_pb2.SetClockResponse(
            from_ms=int(taken.subject), to_ms=state.clock_ms, unchanged=taken.unchanged, revision=state.revision
        )

    async def GetClusterStatus(
        self, request: scheduler_pb2.GetClusterStatusRequest, context: Any
    ) -> scheduler_pb2.ClusterStatus:
        if request.fresh:
            await self.proposals.barrier()
        status = await self.status_digest.status(context.caller.name) if request.digest else self.status.read()
        return to_message(status, scheduler_pb2.ClusterStatus)

    def _judged(self, caller: Caller, check: Callable[[], None]) -> Callable[[], None] | None:
        """Return the check of a caller that is judged by bindings; None: it may change everything."""
        return check if self.access.identity(caller) is not None else None

    async def _change_rules(
        self,
        command: _Rules,
        request: scheduler_pb2.SetQueuesRequest | scheduler_pb2.SetQuotasRequest,
        check: Callable[[], None] | None,
    ) -> Accepted:
        """Propose queues or quotas once, unless they have changed since the caller read them, or this is a try. `check`
        raises ApiError for a change that the caller may not make; it is made to the very state that was looked at.
        Raises ApiError."""
        return await self.proposals.once(request, lambda: self._change_rules_now(command, request, check))

    async def _change_rules_now(
        self,
        command: _Rules,
        request: scheduler_pb2.SetQueuesRequest | scheduler_pb2.SetQuotasRequest,
        check: Callable[[], None] | None,
    ) -> Accepted:
        async with self.rules:
            if not (request.if_match or request.dry_run or check):
                return await self._change(command, request)
            epoch = self.leadership.epoch
            await self.proposals.barrier()
            state = self.replication.state
            if check is not None:
                check()
            if request.if_match not in ("", rules_etag(command, state)):
                raise changed_since()
            if request.dry_run:
                return accepted(tried(state, command))
            return await self._change(command, request, epoch=epoch)

    async def _change(self, command: Body, request: _Change, *, epoch: int = 0) -> Accepted:
        """Propose a user's command; `epoch`: of the leader that may carry it out, 0: of any. Raises ApiError."""
        if not isinstance(command, SubmitJob) and request.ByteSize() > MAX_RULES_BYTES:
            raise invalid(f"they take {request.ByteSize()} bytes together; at most {MAX_RULES_BYTES} fit in one change")
        return accepted(
            await self.proposals.propose(
                command, epoch=epoch, client_id=request.client_id, request_id=request.request_id
            )
        )

    async def _fresh_job(self, id_or_name: str, caller: Caller, permission: Permission) -> Job:
        """Return the job. Raises ApiError, also where the caller may not do this with it."""
        await self.proposals.barrier()
        return self.access.find_job(caller, permission, id_or_name)

    def _while_allowed(
        self, caller: Caller, permission: Permission, job: Job, stream: AsyncIterator[T]
    ) -> AsyncIterator[T]:
        on = job_object(job)
        return self.access.guarded(caller, lambda: self.access.check(caller, permission, on), stream)

    def _changeable(
        self, request: scheduler_pb2.CancelJobRequest | scheduler_pb2.ControlJobRequest, caller: Caller
    ) -> str:
        """Return what the command calls the job: its id, so that a name cannot come to mean another one meanwhile. The
        repeat of a request keeps its words. Raises ApiError where the caller may not change it."""
        if self.access.identity(caller) is None:
            return request.job
        return self.access.find_job(caller, Permission.CHANGE_JOB, request.job).id

    def _check_queues(self, caller: Caller, queues: tuple[Queue, ...], quotas: tuple[Quota, ...] | None) -> None:
        """Raises ApiError unless the caller may change each queue that would be another one. One within a queue may
        change those below it, which its rules bound, and not the queue itself."""
        state = self.replication.state
        wanted = {queue.path: queue for queue in queues}
        for path in changed_queues(state, queues):
            self.access.check(caller, Permission.SET_QUEUE, Object(queue=parent_of(path)))
            before, after = state.queues.get(path), wanted.get(path)
            if after is not None and after.preemption not in (
                PreemptionPolicy.UNSPECIFIED,
                before.preemption if before is not None else PreemptionPolicy.UNSPECIFIED,
            ):  # whom its jobs may evict is the parent's to say
                self.access.check(caller, Permission.SET_QUEUE, Object())
        if quotas is not None:
            self._check_quotas(caller, quotas, replace=True)

    def _check_quotas(self, caller: Caller, quotas: tuple[Quota, ...], *, replace: bool) -> None:
        for quota in changed_quotas(self.replication.state, quotas, replace=replace):
            self.access.check_quota(caller, quota)

    def _seen_jobs(self, caller: Caller) -> Callable[[str], bool] | None:
        """Return whether the caller sees the job of an id; None: it sees all."""
        lists, jobs = self.access.lists(caller), self.replication.state.jobs
        if lists is None:
            return None
        return lambda job_id: (job := jobs.get(job_id)) is not None and lists(job_object(job))


def _from_submitter(command: SubmitJob, access: Access, state: ClusterState, user: str, caller: Caller) -> SubmitJob:
    """Return the command with who submits it, and what of it the submitter does not see. Raises ApiError."""
    if state.feature_level < FeatureLevel.BOUNDED:
        return command
    authenticated = caller.role is Role.CLIENT and bool(caller.name)
    user = caller.name if authenticated else user
    if user and (found := check_id("user", user)):
        raise invalid(str(found))
    return replace(command, user=user, authenticated=authenticated, unseen=access.unseen(caller, command.spec))


def _in_trace(
    command: SubmitJob, state: ClusterState, caller: TraceContext | None, traces: LeaderTraces | None
) -> SubmitJob:
    """Return the command with its caller's trace, or whether its own is sampled."""
    if state.feature_level < FeatureLevel.BOUNDED:
        return command
    kept = submission_context(command.job_id, caller, traces.sample if traces else 1)
    return replace(command, traceparent=kept.traceparent if kept else "")
