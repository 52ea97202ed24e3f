"""Runs a command beside a task: passes it on to the agent of the node where the task runs.

Invariant: nothing is kept here; the command ends when either side of the stream does. It goes on when another master
leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc

from gosched.core.records.job import Job
from gosched.core.records.node import NodeState
from gosched.core.records.task import Task, TaskState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.callers import Shares
from gosched.master.base.channels import STREAMS, Channels
from gosched.master.base.errors import invalid, unmet
from gosched.master.base.relay import relay
from gosched.master.jobs.task_names import named_tasks
from gosched.replication.interface import Replication
from gosched.wire.v1 import scheduler_pb2, worker_pb2_grpc

MAX_EXECS = 500  # of this master
START_LIMIT_S = 10.0  # for the first message
DIAL_S = 5.0

Requests = AsyncIterator[scheduler_pb2.ExecRequest]


class Execs:
    def __init__(self, replication: Replication, agents: Channels, limit: int = MAX_EXECS) -> None:
        self._replication = replication
        self._agents = agents
        self._places = Shares(limit, "commands run")

    async def run(
        self, job: Job, start: scheduler_pb2.ExecStart, requests: Requests, caller: str
    ) -> AsyncIterator[scheduler_pb2.ExecResponse]:
        """Run it. `requests`: what comes after `start`. Raises ApiError, AioRpcError."""
        with self._places.place(caller):
            async for response in self._run(job, start, requests):
                yield response

    async def _run(
        self, job: Job, start: scheduler_pb2.ExecStart, requests: Requests
    ) -> AsyncIterator[scheduler_pb2.ExecResponse]:
        state = self._replication.state
        task = chosen(state, job, start.task)
        node = state.nodes.get(task.node_id)
        if node is None or node.state is NodeState.DEAD:
            raise unmet(f"node {task.node_id}, where {_name(task)} runs, does not answer")
        call = worker_pb2_grpc.WorkerServiceStub(self._agents.to_agent(node, STREAMS)).Exec()
        to_agent = scheduler_pb2.ExecStart()
        to_agent.CopyFrom(start)
        to_agent.allocation_id = task.allocation_id
        to_agent.registration, to_agent.epoch = node.registration, state.epoch
        try:
            async with asyncio.timeout(DIAL_S):
                await call.wait_for_connection()
            async for response in relay(call, _with_start(to_agent, requests)):
                yield response
        except TimeoutError:
            raise unmet(f"node {node.id} does not answer") from None
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:  # which would mean that another master might do better
                raise unmet(f"node {node.id} cannot be reached: {error.details()}") from None
            raise
        finally:
            call.cancel()


async def _with_start(start: scheduler_pb2.ExecStart, requests: Requests) -> Requests:
    yield scheduler_pb2.ExecRequest(start=start)
    async for request in requests:
        yield request


async def start_of(requests: Requests) -> scheduler_pb2.ExecStart:
    """Return the first message. Raises ApiError."""
    try:
        async with asyncio.timeout(START_LIMIT_S):
            first = await anext(aiter(requests), None)
    except TimeoutError:
        first = None
    if first is None or first.WhichOneof("part") != "start" or not first.start.command:
        raise invalid("the first message names the job and the command")
    return first.start


def chosen(state: ClusterState, job: Job, wanted: str) -> Task:
    """Return the task of that name, or the first by rank that runs. Raises ApiError."""
    name = job.spec.name
    if job.spec.is_parent:
        raise invalid(f"job {name} has no tasks of its own: name one of its jobs, see goschedctl job show {name}")
    tasks = named_tasks(state, job, wanted)
    if job.frozen:
        raise unmet(f"job {name} is suspended, and the command would be too: goschedctl job resume {name}")
    running = [task for task in tasks if task.state is TaskState.RUNNING]
    if not running and wanted:
        raise unmet(f"task {_name(tasks[0])} of job {name} does not run: it is {tasks[0].state.name}")
    if not running:
        raise unmet(f"no task of job {name} runs: the job is {job.shown_state.name}")
    return running[0]


def _name(task: Task) -> str:
    return f"{task.group}/{task.index}"
