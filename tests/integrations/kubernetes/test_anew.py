"""Jobs of pods that are submitted anew, as other pods leave them other nodes than before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from gosched.client import GoSchedError
from gosched.client.aio.handle import AsyncJobHandle
from gosched.client.records import JobState
from gosched.core.orders import TaskOrder
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import Affinity, LabelOp
from gosched.integrations.kube_objects.pod_rules import ALWAYS, HOSTNAME
from gosched.integrations.kube_objects.pods import Pod
from gosched.integrations.kube_objects.translate import translate
from gosched.integrations.kubernetes import submitting as submitting_module
from gosched.integrations.kubernetes.binder import RULE_BROKEN, Binder
from gosched.integrations.kubernetes.jobs import gang_job, kinds, single_job
from gosched.integrations.kubernetes.placing import ANYWHERE
from gosched.integrations.kubernetes.submitting import Submitting
from gosched.integrations.kubernetes.tasks import Tasks, read_order
from gosched.integrations.kubernetes.volumes import Volumes
from gosched.integrations.kubernetes.world import World

WEB = {"app": "web"}
TERM = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": WEB}}
APART: dict[str, Any] = {"affinity": {"podAntiAffinity": {ALWAYS: [TERM]}}}


class Client:
    """Masters that take each job, and start none."""

    def __init__(self) -> None:
        self.live: dict[str, JobSpec] = {}
        self.submitted: list[JobSpec] = []
        self.cancelled: list[str] = []
        self.ended: dict[str, str] = {}  # reason, by id
        self.why = ""  # of all that wait
        self.held = False  # all
        self.lost = ""  # what of a cancel: the call or the answer

    async def job_rows(self, query: Any) -> AsyncIterator[list[Any]]:
        yield [
            SimpleNamespace(
                id=id_,
                name=spec.name,
                queue=spec.queue,
                state=JobState.PENDING,
                labels=spec.labels,
                task_count=spec.task_count,
                succeeded=0,
                wait_message=self.why,
                held=self.held,
            )
            for id_, spec in self.live.items()
        ]

    async def submit_all(self, specs: list[JobSpec]) -> list[AsyncJobHandle]:
        found = []
        for spec in specs:
            self.submitted.append(spec)
            id_ = f"j-{len(self.submitted)}"
            self.live[id_] = spec
            client: Any = self
            found.append(AsyncJobHandle(job_id=id_, name=spec.name, warnings=(), unchanged=False, client=client))
        return found

    async def request_cancel(self, job_id: str, *, reason: str) -> None:
        if self.lost == "call":
            raise GoSchedError("no answer")
        self.cancelled.append(job_id)
        del self.live[job_id]
        if self.lost == "answer":
            raise GoSchedError("no answer")

    async def get_job(self, job_id: str) -> Any:
        return SimpleNamespace(
            job=SimpleNamespace(state=JobState.FAILED, detail="why", reason=self.ended[job_id]), tasks=()
        )


class Said:
    def __init__(self) -> None:
        self.words: list[tuple[str, str, str]] = []

    def say(self, pod: Pod, reason: str, message: str) -> None:
        self.words.append((pod.name, reason, message))


class Bench:
    """A bridge's loop that is made to pass by hand, with nodes `a` and `b`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(submitting_module, "LOOK_S", -1.0)
        self.client = Client()
        self.said = Said()
        self.world = World("gosched")
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8"}}
        self.world.replace_nodes(
            [{"metadata": {"name": n, "uid": f"u-{n}", "labels": {HOSTNAME: n}}, "status": ready} for n in "ab"]
        )
        nothing: Any = None
        self.tasks = Tasks(lambda node: None)
        client: Any = self.client
        said: Any = self.said
        self.submitting = Submitting(
            client,
            self.world,
            self.tasks,
            nothing,
            Volumes(nothing),
            said,
            cluster="c",
            queue="q",
            holds=lambda: True,
        )
        self.submitting.binder = Binder(nothing, self.world, self.tasks, self.submitting.shape_of, nothing, nothing)

    def pod(self, name: str, node: str = "", scheduler: str = "gosched", kind: str = "ADDED", **spec: Any) -> None:
        metadata = {"name": name, "namespace": "n", "uid": f"u-{name}", "labels": WEB}
        spec |= {"schedulerName": scheduler, "containers": [], **({"nodeName": node} if node else {})}
        self.world.change_pod(kind, {"metadata": metadata, "spec": spec})

    def other_job(self, name: str) -> JobSpec:
        """Return a job of a pod that was submitted before."""
        pod = self.world.pods[f"u-{name}"]
        return single_job(pod, translate(pod, cluster="c", queue="q"), "c")

    def passes(self, times: int = 1) -> None:
        async def go() -> None:
            for _ in range(times):
                await self.submitting._pass()

        asyncio.run(go())

    def affinity(self) -> list[tuple[Affinity, ...]]:
        """Return what each submission, in turn, asked of nodes."""
        return [spec.groups[0].affinity for spec in self.client.submitted]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def off(*nodes: str) -> tuple[Affinity, ...]:
    return (Affinity(label=HOSTNAME, op=LabelOp.NOT_IN, values=nodes),)


def test_a_job_is_submitted_anew_when_another_schedulers_pod_leaves_its_node(bench: Bench) -> None:
    bench.pod("theirs", "a", "other")
    bench.pod("p", **APART)
    bench.passes(3)
    assert bench.affinity() == [off("a")]
    assert bench.client.cancelled == []
    bench.pod("theirs", "a", "other", kind="DELETED")
    bench.passes()
    assert bench.affinity() == [off("a"), ()]
    assert bench.client.cancelled == ["j-1"]
    bench.passes(3)
    assert len(bench.client.submitted) == 2


def test_of_two_spread_pods_that_wait_each_is_submitted_anew(bench: Bench) -> None:
    spread: dict[str, Any] = {"topologySpreadConstraints": [{**TERM, "maxSkew": 1}]}
    bench.pod("there", "a", "other")
    bench.pod("p", **spread)
    bench.passes()
    bench.pod("q", **spread)
    bench.client.live["j-0"] = bench.other_job("q")  # its binding has failed, while `p` was submitted
    bench.pod("there", "a", "other", kind="DELETED")
    bench.passes()
    assert bench.client.cancelled == ["j-1"]


@pytest.mark.parametrize("lost", ["call", "answer"])
def test_a_cancel_that_got_no_answer_is_repeated_and_parks_no_pod(bench: Bench, lost: str) -> None:
    bench.pod("theirs", "a", "other")
    bench.pod("p", **APART)
    bench.passes()
    bench.pod("theirs", "a", "other", kind="DELETED")
    bench.client.lost = lost
    with pytest.raises(GoSchedError):
        bench.passes()
    bench.client.lost = ""
    bench.pod("theirs", "a", "other")  # as before: the job is retired all the same
    bench.passes()
    assert bench.client.cancelled == ["j-1"]
    assert bench.affinity() == [off("a"), off("a")]
    assert bench.said.words == []


def test_a_job_that_is_being_started_is_not_submitted_anew(bench: Bench) -> None:
    bench.pod("theirs", "a", "other")
    bench.pod("p", **APART)
    bench.passes()
    env = (("GOSCHED_TASK_COUNT", "2"), ("KUBE_POD_UID", "u-p"))
    order = read_order("b", TaskOrder(allocation_id="j-1/pod/0.1", task_id="j-1/pod/0", job_id="j-1", env=env))
    assert order is not None
    bench.submitting.binder.take(order)
    bench.pod("theirs", "a", "other", kind="DELETED")
    bench.passes(2)
    assert bench.client.cancelled == []


def test_a_job_that_was_planned_against_a_rule_is_submitted_anew_at_once(bench: Bench) -> None:
    bench.pod("p", **APART)
    bench.passes()
    bench.pod("theirs", "a", "other")
    bench.client.live.clear()
    bench.client.ended["j-1"] = RULE_BROKEN
    bench.passes()
    assert bench.affinity() == [(), off("a")]
    assert bench.said.words == [("p", "Unschedulable", "why. It is submitted anew")]
    bench.client.live.clear()
    bench.client.ended["j-2"] = "POD_FAILED"
    bench.passes()
    assert len(bench.client.submitted) == 2


def test_a_pod_whose_rule_cannot_be_kept_yet_says_so_and_gets_no_job(bench: Bench) -> None:
    spread: dict[str, Any] = {"topologySpreadConstraints": [{**TERM, "maxSkew": 1}]}
    bench.pod("p", **spread)
    bench.pod("q", **spread)
    bench.pod("r", topologySpreadConstraints=[{**TERM, "maxSkew": 1, "matchLabelKeys": ["x"]}])
    bench.passes()
    assert [spec.name.rpartition(".")[0] for spec in bench.client.submitted] == ["n.p"]
    said = {name: reason for name, reason, _ in bench.said.words}
    assert said == {"q": "Unschedulable", "r": "NotSupported"}


def test_a_job_that_the_masters_cannot_start_keeps_no_other_pod_waiting(bench: Bench) -> None:
    spread: dict[str, Any] = {"topologySpreadConstraints": [{**TERM, "maxSkew": 1}]}
    bench.pod("p", **spread)
    bench.pod("q", **spread)
    bench.passes(2)
    assert len(bench.client.submitted) == 1
    bench.client.why = "no node has 100 CPUs"
    bench.passes(2)
    assert len(bench.client.submitted) == 1  # the other one asks for the same
    bench.pod("r", **spread, priority=5)
    bench.passes()
    assert [spec.name.rpartition(".")[0] for spec in bench.client.submitted] == ["n.p", "n.r"]
    bench.client.held = True
    bench.passes()
    assert len(bench.client.submitted) == 3


def test_a_gated_pod_of_a_gang_that_runs_keeps_no_other_pod_waiting(bench: Bench) -> None:
    spread: dict[str, Any] = {"topologySpreadConstraints": [{**TERM, "maxSkew": 1}]}
    member: dict[str, Any] = {"schedulingGroup": {"podGroupName": "g"}}
    bench.pod("g0", **member)
    bench.pod("g1", schedulingGates=[{"name": "x"}], **member)
    first = bench.world.pods["u-g0"]
    assert first.group is not None
    asking = [(first, translate(first, cluster="c", queue="q"))]
    bench.client.live["j-0"] = gang_job(first.group, asking, "c", dict.fromkeys(kinds(asking), ANYWHERE))
    bench.pod("g0", "a", **member)
    bench.tasks.bind("j-0/gang-1/0.1", bench.world.pods["u-g0"], "a")
    bench.pod("p", **spread)
    bench.passes()
    assert [spec.name.rpartition(".")[0] for spec in bench.client.submitted] == ["n.p"]


def test_pods_of_one_pass_name_each_other(bench: Bench) -> None:
    for name in ("p", "q"):
        bench.pod(name, **APART)
    bench.passes()
    first, second = bench.client.submitted
    assert [rule.job for rule in first.groups[0].anti_affinity] == [second.name]
    assert [rule.job for rule in second.groups[0].anti_affinity] == [first.name]
