"""How gosched-kube binds: gangs whole or not at all, and what becomes of bindings that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gosched.core.orders import TaskOrder
from gosched.core.records.task import TaskState
from gosched.core.resources import Resources
from gosched.integrations.kube_objects.pod_rules import ALWAYS, HOSTNAME
from gosched.integrations.kube_objects.pods import ALLOCATION
from gosched.integrations.kubernetes import binder as binder_module
from gosched.integrations.kubernetes.api import KubeError, KubeUnreachable
from gosched.integrations.kubernetes.binder import RULE_BROKEN, Binder
from gosched.integrations.kubernetes.tasks import Tasks, read_order
from gosched.integrations.kubernetes.world import World

Json = dict[str, Any]

WEB: Json = {"app": "web"}
TERM: Json = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": WEB}}
APART: Json = {"affinity": {"podAntiAffinity": {ALWAYS: [TERM]}}}


class FakeApi:
    """An API server that binds, unless `fail` raises."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []  # pod, node
        self.pods: dict[str, Json] = {}
        self.fail: Callable[[str], None] = lambda path: None

    async def post(self, path: str, body: Json) -> Json:
        await asyncio.sleep(0)
        self.fail(path)
        self.sent.append((body["metadata"]["name"], body["target"]["name"]))
        return {"kind": "Status"}

    async def get(self, path: str) -> Json:
        return self.pods[path.rpartition("/")[2]]


class Bench:
    """A binder with nodes `a` and `b`, and pods."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(binder_module, "backoff_s", lambda failures: 0.0)
        self.api = FakeApi()
        self.world = World("gosched")
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8", "pods": "9"}}
        self.world.replace_nodes(
            [{"metadata": {"name": n, "uid": f"u-{n}", "labels": {HOSTNAME: n}}, "status": ready} for n in "ab"]
        )
        self.tasks = Tasks(lambda node: None)
        self.evicted: list[str] = []
        self.running: list[asyncio.Task[None]] = []
        self.binder = Binder(
            self.api,  # type: ignore[arg-type]
            self.world,
            self.tasks,
            lambda pod: "gang-1",
            self.evicted.append,
            self._spawn,
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.running.append(asyncio.ensure_future(work))

    def pod(self, name: str, **spec: Any) -> None:
        metadata = {"name": name, "namespace": "n", "uid": f"u-{name}", "labels": spec.pop("labels", {})}
        found = {"metadata": metadata, "spec": {"schedulerName": "gosched", "containers": [], **spec}}
        found["spec"].setdefault("schedulingGroup", {"podGroupName": "g"})
        self.world.change_pod("ADDED", found)

    def pods(self, *names: str) -> None:
        for name in names:
            self.pod(name)

    def order(self, index: int, node: str, *, count: int = 2, attempt: int = 1, cpu_millis: int = 0) -> str:
        allocation = f"j-1/gang-1/{index}.{attempt}"
        env = (("GOSCHED_TASK_COUNT", str(count)), ("KUBE_POD_GROUP", "scheduling.k8s.io/n/g"))
        task = TaskOrder(
            allocation_id=allocation,
            task_id=allocation.rpartition(".")[0],
            job_id="j-1",
            env=env,
            resources=Resources(cpu_millis=cpu_millis),
        )
        known = read_order(node, task)
        assert known is not None
        self.binder.take(known)
        return allocation

    async def done(self) -> None:
        while self.running:
            await self.running.pop()

    def ends(self) -> dict[str, TaskState]:
        reports = [report for node in "ab" for report in self.tasks.reports(node)]
        return {report.allocation_id: report.state for report in reports}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_nothing_is_bound_before_all_orders_of_a_gang_are_here(bench: Bench) -> None:
    async def story() -> None:
        bench.pods("p", "q")
        one = bench.order(0, "a")
        await bench.done()
        assert bench.api.sent == []
        assert bench.ends() == {}  # it is not reported, so that a bridge started anew gets the order again
        other = bench.order(1, "b")
        bench.order(1, "b")  # a repeat
        await bench.done()
        assert sorted(bench.api.sent) == [("p", "a"), ("q", "b")]
        assert bench.ends() == dict.fromkeys((one, other), TaskState.STARTING)

    asyncio.run(story())


def test_a_gang_that_lacks_a_pod_or_a_node_binds_none(bench: Bench) -> None:
    async def story() -> None:
        bench.pod("p")
        first = [bench.order(0, "a"), bench.order(1, "b")]
        await bench.done()
        assert bench.ends() == dict.fromkeys(first, TaskState.LOST)
        bench.pod("q")
        bench.world.change_node("DELETED", {"metadata": {"name": "b", "uid": "u-b"}})
        second = [bench.order(0, "a", attempt=2), bench.order(1, "b", attempt=2)]
        await bench.done()
        assert bench.ends() == dict.fromkeys([*first, *second], TaskState.LOST)
        assert bench.api.sent == []

    asyncio.run(story())


def test_a_bridge_that_was_started_anew_binds_the_rest_of_a_gang(bench: Bench) -> None:
    async def story() -> None:
        bench.pods("p", "q")
        bound = bench.world.pods["u-p"]
        bench.tasks.bind("j-1/gang-1/0.1", bound, "a")
        bench.order(1, "b")
        await bench.done()
        assert bench.api.sent == [("q", "b")]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("metadata", "spec", "state"),
    [
        ({"uid": "u-p", "annotations": {ALLOCATION: "j-1/gang-1/0.1"}}, {"nodeName": "a"}, TaskState.STARTING),
        ({"uid": "u-p"}, {"nodeName": "z"}, TaskState.LOST),
        ({"uid": "another"}, {}, TaskState.LOST),
    ],
)
def test_a_binding_whose_answer_is_lost_or_a_conflict_is_looked_up(
    bench: Bench, metadata: Json, spec: Json, state: TaskState
) -> None:
    def fail(path: str) -> None:
        raise KubeUnreachable("the connection broke") if state is TaskState.STARTING else KubeError(409, "taken")

    async def story() -> None:
        bench.pod("p")
        bench.api.pods["p"] = {"metadata": metadata, "spec": spec}
        bench.api.fail = fail
        allocation = bench.order(0, "a", count=1)
        await bench.done()
        assert bench.ends() == {allocation: state}
        assert bench.api.sent == []

    asyncio.run(story())


def test_a_server_that_is_overloaded_is_asked_again_and_one_that_refuses_is_not(bench: Bench) -> None:
    codes = [429, 503, 0, 403]

    def fail(path: str) -> None:
        if code := codes.pop(0):
            raise KubeError(code, "no")

    async def story() -> None:
        bench.pods("p", "q")
        bench.api.fail = fail
        one = bench.order(0, "a", count=1)
        await bench.done()
        other = bench.order(0, "b", count=1, attempt=2)
        await bench.done()
        assert bench.ends() == {one: TaskState.STARTING, other: TaskState.LOST}
        assert codes == []

    asyncio.run(story())


def test_a_stop_that_comes_during_the_binding_evicts(bench: Bench) -> None:
    async def story() -> None:
        bench.pod("p")
        allocation = bench.order(0, "a", count=1)
        await asyncio.sleep(0)  # the binding is on its way
        bench.binder.stop(allocation, "a", "PREEMPTED")
        await bench.done()
        assert bench.evicted == ["u-p"]
        bench.tasks.pod_ended(bench.world.pods["u-p"], deleted=True)
        assert bench.ends() == {allocation: TaskState.KILLED}

    asyncio.run(story())


def test_a_failed_member_of_a_gang_stops_no_other_and_a_failed_pod_fails_its_job(bench: Bench) -> None:
    bench.pods("p", "q")
    bench.tasks.bind("j-1/gang-1/0.1", bench.world.pods["u-p"], "a")
    bench.tasks.bind("j-2/pod/0.1", bench.world.pods["u-q"], "a")
    for pod in list(bench.world.pods.values()):
        bench.tasks.pod_ended(pod, deleted=False)
    assert bench.ends() == {"j-1/gang-1/0.1": TaskState.SUCCEEDED, "j-2/pod/0.1": TaskState.FAILED}
    assert {report.reason for report in bench.tasks.reports("a")} == {"POD_FAILED"}


def test_what_the_masters_gave_up_is_another_schedulers_pod_from_then_on(bench: Bench) -> None:
    bench.pod("p", nodeName="a")
    pod = bench.world.pods["u-p"]
    bench.tasks.bind("j-1/gang-1/0.1", pod, "a")
    bench.tasks.disown("j-1/gang-1/0.1")
    bench.tasks.bind("j-1/gang-1/0.1", pod, "a")
    assert bench.tasks.reports("a") == []
    assert not bench.tasks.allocation_of(pod)


def test_a_place_that_another_schedulers_pod_took_is_not_bound_to(bench: Bench) -> None:
    async def story() -> None:
        bench.pods("p")
        requests = {"resources": {"requests": {"cpu": "6"}}}
        bench.pod("theirs", schedulerName="other", schedulingGroup=None, nodeName="a", containers=[requests])
        allocation = bench.order(0, "a", count=1, cpu_millis=4000)
        await bench.done()
        assert bench.ends() == {allocation: TaskState.LOST}
        assert bench.api.sent == []

    asyncio.run(story())


def test_what_was_on_a_node_that_is_gone_has_ended(bench: Bench) -> None:
    bench.pods("p", "q")
    bench.tasks.bind("j-1/gang-1/0.1", bench.world.pods["u-p"], "a")
    bench.tasks.bind("j-2/pod/0.1", bench.world.pods["u-q"], "a")
    bench.tasks.node_gone("a")
    assert bench.ends() == {"j-1/gang-1/0.1": TaskState.SUCCEEDED, "j-2/pod/0.1": TaskState.FAILED}
    assert {report.reason for report in bench.tasks.reports("a")} == {"NODE_LOST"}


def test_a_binding_whose_answer_was_lost_is_looked_up_until_it_is_known(bench: Bench) -> None:
    async def story() -> None:
        bench.pod("p")
        tries = []

        def lost(path: str) -> None:
            tries.append(path)
            raise KubeUnreachable("no answer")

        async def get(path: str) -> Json:
            await asyncio.sleep(0)
            tries.append(path)
            if len(tries) < 3 * binder_module.MAX_TRIES:
                raise KubeUnreachable("no answer")
            return {
                "metadata": {"uid": "u-p", "annotations": {ALLOCATION: allocation}},
                "spec": {"nodeName": "a"},
            }

        bench.api.fail, bench.api.get = lost, get  # type: ignore[method-assign]
        allocation = bench.order(0, "a", count=1)
        await asyncio.sleep(0)
        bench.binder.stop(allocation, "a", "PREEMPTED")
        await bench.done()
        assert bench.evicted == ["u-p"]  # it is bound, and so is no order that was stopped before
        assert tries.count("/api/v1/namespaces/n/pods/p/binding") == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("theirs", "mine"),
    [
        ({"labels": WEB}, APART),
        ({**APART, "labels": {}}, {"labels": WEB}),
        ({}, {"affinity": {"podAffinity": {ALWAYS: [TERM]}}}),
        ({"labels": WEB}, {"topologySpreadConstraints": [{**TERM, "maxSkew": 1}], "labels": WEB}),
    ],
    ids=["its own rule", "another pod's rule", "affinity", "spread"],
)
def test_what_was_planned_against_a_rule_is_not_bound(bench: Bench, theirs: Json, mine: Json) -> None:
    async def story() -> None:
        bench.pod("theirs", schedulerName="other", schedulingGroup=None, nodeName="a", **theirs)
        bench.pod("p", **mine)
        allocation = bench.order(0, "a", count=1)
        await bench.done()
        assert bench.ends() == {allocation: TaskState.FAILED}
        (report,) = bench.tasks.reports("a")
        assert report.reason == RULE_BROKEN
        assert f"over {HOSTNAME}" in report.detail
        assert bench.api.sent == []

    asyncio.run(story())


def test_a_rule_that_the_plan_keeps_is_no_obstacle(bench: Bench) -> None:
    async def story() -> None:
        bench.pod("theirs", schedulerName="other", schedulingGroup=None, nodeName="a", labels=WEB)
        bench.pod("p", labels=WEB, topologySpreadConstraints=[{**TERM, "maxSkew": 1}], **APART)
        bench.order(0, "b", count=1)
        await bench.done()
        assert bench.api.sent == [("p", "b")]

    asyncio.run(story())


def test_members_of_a_gang_are_looked_at_together(bench: Bench) -> None:
    async def story() -> None:
        for name in ("p", "q"):
            bench.pod(name, labels=WEB, **APART)
        first = [bench.order(0, "a"), bench.order(1, "a")]
        await bench.done()
        assert bench.ends() == dict.fromkeys(first, TaskState.FAILED)
        assert bench.api.sent == []
        bench.order(0, "a", attempt=2)
        bench.order(1, "b", attempt=2)
        await bench.done()
        assert sorted(bench.api.sent) == [("p", "a"), ("q", "b")]

    asyncio.run(story())


def test_a_pod_that_is_being_bound_counts_before_the_watch_tells_of_it(bench: Bench) -> None:
    async def story() -> None:
        for name in ("p", "q"):
            bench.pod(name, labels=WEB, **APART)
        bench.order(0, "a", count=1)
        other = bench.order(0, "a", count=1, attempt=2)
        assert bench.ends() == {other: TaskState.FAILED}
        await bench.done()
        assert bench.api.sent == [("p", "a")]
        third = bench.order(0, "a", count=1, attempt=3)
        assert bench.ends()[third] is TaskState.FAILED

    asyncio.run(story())


def test_a_retired_job_gets_no_pod_and_one_with_orders_is_not_retired(bench: Bench) -> None:
    async def story() -> None:
        bench.pods("p", "q")
        assert bench.binder.retire("j-1")
        allocation = bench.order(0, "a", count=1)
        await bench.done()
        assert bench.ends() == {allocation: TaskState.LOST}
        assert bench.api.sent == []
        bench.binder.keep_retired(["j-2"])
        bench.order(0, "a", count=2, attempt=2)
        assert not bench.binder.retire("j-1")

    asyncio.run(story())
