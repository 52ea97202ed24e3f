"""The whole bridge between an API server and masters of a few lines each: all of its own parts are the real ones.

The masters start a job wherever a search of all placements finds one that keeps what the job says.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from gosched.client import NotFound
from gosched.client.aio.handle import AsyncJobHandle
from gosched.client.records import JobState
from gosched.core.matching import blocking_taint, meets
from gosched.core.orders import StopOrder, TaskOrder
from gosched.core.records.task import TaskState
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import SELF, Mode
from gosched.core.spec.task_group import TaskGroup
from gosched.integrations.kube_objects.pods import Pod
from gosched.integrations.kube_objects.translate import CLUSTER
from gosched.integrations.kubernetes import binder as binder_module
from gosched.integrations.kubernetes import submitting as submitting_module
from gosched.integrations.kubernetes.api import KubeError
from gosched.integrations.kubernetes.bridge import Bridge

Json = dict[str, Any]
STEP_S = 5.0
_ENDED = (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED, TaskState.LOST)


class Server:
    """An API server: pods and nodes, as plain objects, by name."""

    def __init__(self) -> None:
        self.pods: dict[str, Json] = {}
        self.nodes: dict[str, Json] = {}
        self.groups: dict[str, int] = {}  # name of a PodGroup -> minCount
        self.bindings: list[tuple[str, str]] = []  # pod and node
        self.bridge: Bridge

    def put_node(self, found: Json) -> None:
        self.nodes[found["metadata"]["name"]] = found
        self.bridge._world.change_node("ADDED", found)

    def put_pod(self, found: Json) -> None:
        """Take an object that is another one than that before it."""
        self.pods[found["metadata"]["name"]] = found
        self.bridge._world.change_pod("MODIFIED", found)

    def remove(self, name: str) -> None:
        self.bridge._world.change_pod("DELETED", self.pods.pop(name))

    async def get(self, path: str) -> Json:
        name = path.rpartition("/")[2]
        if "/podgroups/" not in path or name not in self.groups or "v1beta1" not in path:
            raise KubeError(404, "no such object")
        return {"spec": {"schedulingPolicy": {"gang": {"minCount": self.groups[name]}}}}

    async def post(self, path: str, body: Json) -> Json:
        name, kind = path.split("/")[-2:]
        if name not in self.pods:
            raise KubeError(404, "no such pod")
        if kind == "eviction":
            self.remove(name)
            return {}
        self.bindings.append((name, body["target"]["name"]))
        before = self.pods[name]
        metadata = {**before["metadata"], "annotations": body["metadata"]["annotations"]}
        spec = {**before["spec"], "nodeName": body["target"]["name"]}
        self.put_pod({**before, "metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
        return {"kind": "Status"}


class Job:
    def __init__(self, id_: str, spec: JobSpec) -> None:
        self.id = id_
        self.spec = spec
        self.state = JobState.PENDING
        self.attempt = 0
        self.reason = ""
        self.ended = 0
        self.tasks: dict[str, tuple[str, TaskGroup]] = {}  # allocation -> its node and task group


class Masters:
    """Masters, and the client that the bridge submits by."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.jobs: dict[str, Job] = {}
        self._numbers = itertools.count(1)

    @property
    def live(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state in (JobState.PENDING, JobState.RUNNING)]

    async def job_rows(self, query: Any) -> AsyncIterator[list[Any]]:
        yield [
            SimpleNamespace(
                id=job.id,
                name=job.spec.name,
                queue=job.spec.queue,
                state=job.state,
                labels=job.spec.labels,
                task_count=job.spec.task_count,
                succeeded=job.ended,
                held=False,
                wait_message="it waits" if job.state is JobState.PENDING else "",
            )
            for job in self.live
        ]

    async def submit_all(self, specs: Sequence[JobSpec]) -> list[AsyncJobHandle]:
        client: Any = self
        found = []
        for spec in specs:
            known = next((job for job in self.live if job.spec.name == spec.name), None)
            job = known or Job(f"j-{next(self._numbers)}", spec)
            self.jobs[job.id] = job
            found.append(AsyncJobHandle(job_id=job.id, name=spec.name, warnings=(), unchanged=False, client=client))
        return found

    async def request_cancel(self, job_id: str, *, reason: str) -> None:
        job = self.jobs[job_id]
        if job.state is JobState.PENDING:
            job.state = JobState.CANCELLED

    def cancel_one(self, choose: Callable[[list[Job]], Job]) -> None:
        """Cancel one of the jobs that wait, as a person does."""
        waiting = [job for job in self.live if job.state is JobState.PENDING]
        if waiting:
            choose(waiting).state = JobState.CANCELLED

    async def get_job(self, job_id: str) -> Any:
        if job_id not in self.jobs:
            raise NotFound(job_id)
        job = self.jobs[job_id]
        return SimpleNamespace(job=SimpleNamespace(name="", state=job.state, detail="why", reason=job.reason), tasks=())

    def plan(self) -> None:
        """Start the jobs that wait, in the order of their submission."""
        for job in [job for job in self.live if job.state is JobState.PENDING]:
            groups = [group for group in job.spec.groups for _ in range(group.count)]
            nodes = self._placement(job, groups)
            if nodes is None:
                continue
            job.state, job.attempt, job.tasks = JobState.RUNNING, job.attempt + 1, {}
            orders = []
            for index, (group, node) in enumerate(zip(groups, nodes, strict=True)):
                allocation = f"{job.id}/{group.name}/{index}.{job.attempt}"
                job.tasks[allocation] = (node, group)
                orders.append((node, _order(allocation, job, group)))
            for node, order in orders:
                self._server.bridge.start(node, [order])

    def hear(self) -> None:
        """Take the reports of all nodes."""
        tasks = self._server.bridge._tasks
        for node in {*self._server.nodes, *tasks._ended}:
            ended = [each for each in tasks.reports(node) if each.state in _ENDED]
            for report in ended:
                self._on_end(report.allocation_id, report.state, report.reason)
            tasks.forget(node, [each.allocation_id for each in ended])

    def _on_end(self, allocation: str, state: TaskState, reason: str) -> None:
        job = self.jobs.get(allocation.partition("/")[0])
        if job is None or allocation not in job.tasks:
            return
        del job.tasks[allocation]
        if job.state is not JobState.RUNNING:
            return
        if state is TaskState.SUCCEEDED:
            job.ended += 1
            job.state = job.state if job.tasks else JobState.SUCCEEDED
            return
        job.state = JobState.PENDING if state is TaskState.LOST else JobState.FAILED
        job.reason = reason
        for other, (where, _) in list(job.tasks.items()):
            self._server.bridge.stop(where, [StopOrder(allocation_id=other, grace_ms=0, reason="GANG")])

    def _placement(self, job: Job, groups: list[TaskGroup]) -> tuple[str, ...] | None:
        options = [[name for name in self._server.nodes if self._suits(name, group)] for group in groups]
        for nodes in itertools.product(*options):
            if self._has_room(nodes, groups) and self._is_apart(job, nodes, groups) and self._is_even(nodes, groups):
                return nodes
        return None

    def _suits(self, name: str, group: TaskGroup) -> bool:
        node = self._server.bridge._world.nodes[name]
        labels = {**dict(node.labels), CLUSTER: "c"}
        return (
            not node.unfit
            and blocking_taint(group.tolerations, node.taints) is None
            and all(labels.get(key) == value for key, value in group.node_selector)
            and all(meets(term, labels) for term in group.affinity if not term.weight)
        )

    def _has_room(self, nodes: Sequence[str], groups: list[TaskGroup]) -> bool:
        world, tasks = self._server.bridge._world, self._server.bridge._tasks
        for name in set(nodes):
            wanted = sum(group.resources.cpu_millis for on, group in zip(nodes, groups, strict=True) if on == name)
            held = world.foreign(name, tasks.has).cpu_millis + sum(
                group.resources.cpu_millis for job in self.live for on, group in job.tasks.values() if on == name
            )
            if held + wanted > world.nodes[name].allocatable.cpu_millis:
                return False
        return True

    def _is_apart(self, job: Job, nodes: Sequence[str], groups: list[TaskGroup]) -> bool:
        for index, (name, group) in enumerate(zip(nodes, groups, strict=True)):
            for rule in group.anti_affinity:
                value = self._value(name, rule.level)
                others = [on for i, on in enumerate(nodes) if i != index]
                if rule.job != SELF:
                    others = [on for each in self.live if each.spec.name == rule.job for on, _ in each.tasks.values()]
                if value and any(self._value(on, rule.level) == value for on in others):
                    return False
                if rule.job == SELF and not value:
                    return False
            for one in [rule for rule in group.topology if rule.mode is Mode.REQUIRED]:
                if len({self._value(on, one.level) for on in nodes}) > 1 or not self._value(name, one.level):
                    return False
        # The other way round: jobs that run keep apart from this one.
        rules = [
            (on, rule.level)
            for each in self.live
            for on, group in each.tasks.values()
            for rule in group.anti_affinity
            if rule.job == job.spec.name
        ]
        taken = {(level, self._value(on, level)) for on, level in rules}
        return not any(value and self._value(name, level) == value for level, value in taken for name in nodes)

    def _is_even(self, nodes: Sequence[str], groups: list[TaskGroup]) -> bool:
        for group in set(groups):
            own = [on for on, each in zip(nodes, groups, strict=True) if each == group]
            for rule in group.spread:
                counts = {self._value(name, rule.level): 0 for name in self._server.nodes if self._suits(name, group)}
                counts.pop("", None)
                for name in own:
                    if not self._value(name, rule.level):
                        return False
                    counts[self._value(name, rule.level)] += 1
                if max(counts.values()) - min(counts.values()) > rule.max_skew:
                    return False
        return True

    def _value(self, node: str, level: str) -> str:
        found = self._server.bridge._world.nodes.get(node)
        return dict(found.labels).get(level, "") if found else ""


class Simulation:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(submitting_module, "time", clock)
        monkeypatch.setattr(binder_module, "backoff_s", lambda failures: 0.0)
        self.server = Server()
        self.masters = Masters(self.server)
        nothing: Any = None
        api: Any = self.server
        client: Any = self.masters
        self.bridge = self.server.bridge = Bridge(
            api, client, ["m:1"], nothing, scheduler="gosched", cluster="c", queue="q", address="b:1",
            heartbeat_ms=1000, holds=lambda: True,
        )  # fmt: skip
        self.say: Callable[[Pod, str, str], None] = lambda pod, reason, message: None
        monkeypatch.setattr(self.bridge._said, "say", lambda *said: self.say(*said))
        self._running: list[asyncio.Task[None]] = []
        self.bridge._group = SimpleNamespace(create_task=self._spawn)  # type: ignore[assignment]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._running.append(asyncio.ensure_future(work))

    def is_parked(self, uid: str) -> bool:
        """Return whether a person has cancelled the pod's job."""
        return uid in self.bridge._submitting._parked

    async def step(self) -> None:
        """Let some time pass: one look of the bridge, one plan of the masters, and what follows from both."""
        self.now += STEP_S
        await self.bridge._submitting._pass()
        self.masters.plan()
        while self._running:
            await self._running.pop()
        self.masters.hear()
        while self._running:
            await self._running.pop()
        self.masters.hear()


def _order(allocation: str, job: Job, group: TaskGroup) -> TaskOrder:
    return TaskOrder(
        allocation_id=allocation,
        task_id=allocation.rpartition(".")[0],
        job_id=job.id,
        env=(*group.env, ("GOSCHED_TASK_COUNT", str(job.spec.task_count))),
        resources=group.resources,
    )
