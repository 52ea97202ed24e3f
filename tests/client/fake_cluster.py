"""A SchedulerService and NodeService on a real socket, whose answers and failures a test chooses.

It stands in for masters only where a test needs a failure at one exact moment; whole clusters are in tests/integration.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

from gosched.core.reasons import RefusalReason
from gosched.core.records.job import Job, JobState
from gosched.core.records.node import Node
from gosched.core.records.task import Task, TaskState
from gosched.core.request_ids import made_at_ms
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.master.base.errors import ApiError
from gosched.master.jobs.job_reading import read_jobs
from gosched.wire.codec import to_message, to_record
from gosched.wire.metadata import LEADER
from gosched.wire.refusals import trailer
from gosched.wire.v1 import node_pb2, node_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc, types_pb2


class FakeMaster(scheduler_pb2_grpc.SchedulerServiceServicer, node_pb2_grpc.NodeServiceServicer):
    """Keeps jobs by id, remembers answers by request id, and fails as `failures` say, one after the other."""

    def __init__(self, shared: FakeMaster | None = None) -> None:
        self.jobs: dict[str, Job] = shared.jobs if shared else {}
        self.tasks: dict[str, list[Task]] = shared.tasks if shared else {}
        self.answers: dict[tuple[str, str], str] = shared.answers if shared else {}
        self.failures: list[grpc.StatusCode] = []
        self.fail_after_commit = False
        self.leader = ""  # whom it says that it passes calls on to
        self.clock_ahead_ms: int | None = None  # of this machine's; None: ids of any time are taken
        self.frozen = False
        self.cut_off_after: int | None = None  # so many SubmitJobs are answered
        self.calls: list[str] = []
        self.traceparents: list[str] = []
        self.views: list[list[tuple[JobState, int]]] = []  # for each WatchJob: the states to send, at which revision
        self.log: bytes = b""
        self.others: list[str] = []  # where other masters of its cluster listen
        self.planned = scheduler_pb2.PlanJobResponse()
        self.explained = scheduler_pb2.JobExplanation()
        self.reserved = scheduler_pb2.ListReservationsResponse()
        self.in_the_way: list[str] = []
        self.actions: list[tuple[str, str]] = []
        self.requests: list[object] = []  # of PlanJob, SetWindow, DropWindow and DrainNode
        self.more_nodes: list[Node] = []
        self.read: list[scheduler_pb2.ReadJobsRequest] = []
        self.is_older = False  # than ReadJobs
        self.log_breaks: list[int] = []  # for each StreamJobLogs: break off after so many bytes of it
        self._server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        scheduler_pb2_grpc.add_SchedulerServiceServicer_to_server(self, self._server)
        node_pb2_grpc.add_NodeServiceServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait(5)

    def SubmitJob(self, request, context):
        self._maybe_fail("SubmitJob", context)
        self.traceparents += [value for key, value in context.invocation_metadata() if key == "traceparent"]
        self._check_time(request.request_id, context)
        spec = to_record(request.spec, JobSpec)
        if spec.queue != "default":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f'no queue "{spec.queue}"')
        asked = (request.client_id, request.request_id)
        if asked not in self.answers:
            self.answers[asked] = job_id = f"j-{len(self.jobs) + 1}"
            self.put(job_id, spec)
        if self.fail_after_commit:
            self.fail_after_commit = False
            context.abort(grpc.StatusCode.UNAVAILABLE, "unknown outcome")
        warnings = ["asks for 9 CPUs"] if spec.demand.cpu_millis == 9000 else []
        return scheduler_pb2.SubmitJobResponse(job_id=self.answers[asked], warnings=warnings)

    def SubmitJobs(self, request, context):
        self._maybe_fail("SubmitJobs", context)
        if self.cut_off_after is not None and self.calls.count("SubmitJobs") > self.cut_off_after:
            context.abort(grpc.StatusCode.UNAVAILABLE, "cut off")
        self.traceparents += [value for key, value in context.invocation_metadata() if key == "traceparent"]
        outcomes = []
        for place, message in enumerate(request.specs):
            spec = to_record(message, JobSpec)
            asked = (request.client_id, f"{request.request_id}/{place}")
            if spec.queue != "default":
                outcome = {"code": "INVALID_ARGUMENT", "problem": f'no queue "{spec.queue}"'}
            else:
                if asked not in self.answers:
                    self.answers[asked] = job_id = f"j-{len(self.jobs) + 1}"
                    self.put(job_id, spec)
                outcome = {"job_id": self.answers[asked]}
            outcomes.append(scheduler_pb2.SubmitOutcome(**outcome))
        return scheduler_pb2.SubmitJobsResponse(outcomes=outcomes)

    def ReadJobs(self, request, context):
        if self.is_older:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        self.read.append(request)
        try:
            return asyncio.run(read_jobs(request))
        except ApiError as error:
            context.abort(error.code, error.detail)

    def GetJob(self, request, context):
        self._maybe_fail("GetJob", context)
        return self._view(self._find(request.job, context))

    def ListJobs(self, request, context):
        self._maybe_fail("ListJobs", context)
        states = [JobState(s) for s in request.states] or list(JobState)
        found = [job for job in reversed(self.jobs.values()) if job.state in states]
        start = int(request.page_token or 0)
        page = found[start : start + min(request.page_size, 2)]  # small pages, so that clients must turn them
        more = str(start + len(page)) if start + len(page) < len(found) else ""
        return scheduler_pb2.ListJobsResponse(jobs=[to_message(j, types_pb2.Job) for j in page], next_page_token=more)

    def WatchJob(self, request, context):
        self._maybe_fail("WatchJob", context)
        job = self._find(request.job, context)
        states = self.views.pop(0) if self.views else [(JobState.SUCCEEDED, 1000)]
        for state, revision in states:
            yield self._view(job, state, revision)
        if not states[-1][0].is_final:
            context.abort(grpc.StatusCode.UNAVAILABLE, "this master ends")

    def CancelJob(self, request, context):
        self._maybe_fail("CancelJob", context)
        return scheduler_pb2.CancelJobResponse(job_id=self._find(request.job, context).id)

    def ControlJob(self, request, context):
        self._maybe_fail("ControlJob", context)
        job = self._find(request.job, context)
        done = (job.id, types_pb2.Action.Name(request.action).removeprefix("ACTION_").lower())
        unchanged = done in self.actions
        self.actions.append(done)
        return scheduler_pb2.ControlJobResponse(job_id=job.id, unchanged=unchanged)

    def PlanJob(self, request, context):
        self._maybe_fail("PlanJob", context)
        self.requests.append(request)
        return self.planned

    def ExplainJob(self, request, context):
        self._maybe_fail("ExplainJob", context)
        self.explained.job.CopyFrom(to_message(self._find(request.job, context), types_pb2.Job))
        return self.explained

    def SetWindow(self, request, context):
        self._maybe_fail("SetWindow", context)
        self.requests.append(request)
        window = request.window
        if request.resources:
            window.nodes.extend(["n-1", "n-2"])
        return scheduler_pb2.SetWindowResponse(window=window, in_the_way=self.in_the_way)

    def DropWindow(self, request, context):
        self._maybe_fail("DropWindow", context)
        self.requests.append(request)
        if request.name == "nope":
            context.abort(grpc.StatusCode.NOT_FOUND, 'no reservation "nope"')
        return scheduler_pb2.DropWindowResponse()

    def ListReservations(self, request, context):
        self._maybe_fail("ListReservations", context)
        return self.reserved

    def StreamJobLogs(self, request, context):
        self._maybe_fail("StreamJobLogs", context)
        job = self._find(request.job, context)
        start = next((place.offset for place in getattr(request, "from")), 0)
        # A server may begin a little before the place it was asked for: at the start of a block, say.
        start = max(0, start - 3)
        stop = self.log_breaks.pop(0) if self.log_breaks else len(self.log)
        for offset in range(start, stop, 7):
            yield scheduler_pb2.LogChunk(
                task_id=f"{job.id}/task/0",
                allocation_id=f"{job.id}/task/0.1",
                stream=scheduler_pb2.LOG_STREAM_STDOUT,
                offset=offset,
                data=self.log[offset : min(offset + 7, stop)],
            )
        if stop < len(self.log):
            context.abort(grpc.StatusCode.UNAVAILABLE, "this master ends")

    def ExecTask(self, requests, context):
        """Run `cat`: what comes in goes out, until the input ends."""
        for request in requests:
            if request.WhichOneof("part") == "stdin":
                yield scheduler_pb2.ExecResponse(stdout=request.stdin)
            elif request.WhichOneof("part") == "stdin_end":
                yield scheduler_pb2.ExecResponse(exit_code=0)
                return

    def GetClusterStatus(self, request, context):
        self._maybe_fail("GetClusterStatus", context)
        pending = sum(job.state is JobState.PENDING for job in self.jobs.values())
        master = scheduler_pb2.MasterStatus(
            id="master-1", address="127.0.0.1:7000", role="leader", healthy=True, grpc_address=self.address
        )
        others = [scheduler_pb2.MasterStatus(id=address, grpc_address=address) for address in self.others]
        return scheduler_pb2.ClusterStatus(
            clock_ms=self.clock_ms,
            leader="master-1", epoch=3, revision=9, masters=[master, *others], nodes=2, nodes_ready=1,
            jobs=len(self.jobs), pending=pending, total=types_pb2.Resources(cpu_millis=8500),
            state_bytes=1536, state_bytes_limit=2 << 30,
            queues=[scheduler_pb2.QueueStatus(path="default", type="fifo", pending=pending)],
        )  # fmt: skip

    def ListNodes(self, request, context):
        self._maybe_fail("ListNodes", context)
        node = Node(
            id="n-1", name="host", address="127.0.0.1:1", capacity=Resources(cpu_millis=4000), incarnation="i",
            labels=(("zone", "a"),), registered_at_ms=1, changed_at_ms=1,
        )  # fmt: skip
        nodes = [node, *self.more_nodes]
        fits = [n for n in nodes if all(dict(n.labels).get(k) == v for k, v in request.labels.items())]
        views = [node_pb2.NodeView(node=to_message(n, types_pb2.Node), tasks=1, heartbeat_age_ms=-1) for n in fits]
        return node_pb2.ListNodesResponse(nodes=views)

    def DrainNode(self, request, context):
        self.requests.append(request)
        self._maybe_fail("DrainNode", context)
        return node_pb2.ControlNodeResponse(node_id=request.node, staying=["j-1"])

    def put(self, job_id: str, spec: JobSpec, state: JobState = JobState.PENDING, exit_code: int | None = None) -> None:
        self.jobs[job_id] = Job(
            id=job_id, spec=spec, state=state, sequence=len(self.jobs) + 1, submitted_at_ms=1, exit_code=exit_code
        )
        self.tasks[job_id] = [
            Task(id=f"{job_id}/{g.name}/{i}", job_id=job_id, group=g.name, index=i, rank=i, state=TaskState.PENDING)
            for g in spec.groups
            for i in range(g.count)
        ]

    def _find(self, name: str, context) -> Job:
        names = [(job, (job.spec.name, f"{job.spec.tenant}/{job.spec.name}")) for job in self.jobs.values()]
        found = self.jobs.get(name) or next((job for job, called in names if name in called), None)
        if found is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f'no job "{name}"')
        return found

    def _view(self, job: Job, state: JobState | None = None, revision: int = 1):
        message = scheduler_pb2.JobView(revision=revision, job=to_message(job, types_pb2.Job))
        if state is not None:
            message.job.state = state
        message.tasks.extend(to_message(task, types_pb2.Task) for task in self.tasks[job.id])
        if message.job.state == JobState.PENDING:
            message.explanation.code, message.explanation.message = "NO_ROOM", "needs 8 CPUs; 4 are free"
        return message

    @property
    def clock_ms(self) -> int:
        return time.time_ns() // 1_000_000 + (self.clock_ahead_ms or 0)

    def _check_time(self, request_id: str, context) -> None:
        made_ms = made_at_ms(request_id)
        if self.clock_ahead_ms is not None and made_ms is not None and abs(made_ms - self.clock_ms) > 60_000:
            context.set_trailing_metadata(trailer(RefusalReason.REQUEST_OUT_OF_TIME))
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "by its id the request was made at another time")

    def _maybe_fail(self, method: str, context) -> None:
        self.calls.append(method)
        while self.frozen and context.is_active():
            time.sleep(0.02)
        if self.failures:
            context.abort(self.failures.pop(0), "no leader")
        if self.leader:
            context.set_trailing_metadata(((LEADER, self.leader),))
