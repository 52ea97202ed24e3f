"""Each kind of damage is seen: a check that cannot fail would prove nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gosched.core.commands.cluster import SetQueues, SetWindow
from gosched.core.commands.plans import CommitPlan
from gosched.core.invariants.check_state import check
from gosched.core.outcome import Answer, Answered
from gosched.core.records.job import JobIntent, JobState
from gosched.core.records.node import ClosedBy, Hardware, NodeState
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.task import TaskState
from gosched.core.records.tenant import Account, Quota
from gosched.core.records.usage import Spent
from gosched.core.records.window import Window
from gosched.core.resources import ZERO, Resources
from gosched.core.state.cluster_state import ClusterState
from tests.state_machine.cluster import Cluster, gang, group, spec
from tests.state_machine.test_evictions import evict, forced, high, low

TASK, ALLOCATION = "run/worker/0", "run/worker/0.1"


def sound() -> ClusterState:
    """A running job with two GPUs and two CPUs of its own on n1, a pending one and two that have ended, of one name.
    Their queue has a half-life."""
    c = Cluster()
    c.accept(SetQueues(queues=(Queue(path="default", half_life_ms=60_000),)))
    c.node("n1", gpus=4, gpu_model="h100", hardware=Hardware(numa_cpus=("0-1", "2-3")))
    c.submit(spec("run", group(count=2, gpus=1)), "run")
    assert c.plan(gang(c.job("run"), "n1", gpus=((0,), (1,)), cpus=("0", "1"))) == ()
    c.submit(spec("wait"), "wait")
    for job in ("old", "older"):
        c.submit(spec("twice"), job)
        c.cancel(job)
    return c.state


def under_force() -> ClusterState:
    """Gang v on n1 leaves for the fence of p; job wait was promised n2 at 5 s; n2 has a window from 9 s on."""
    c = Cluster()
    for node_id in ("n1", "n2"):
        c.node(node_id)
    c.submit(low(), "v")
    c.place("v", "n1")
    c.submit(high(), "p")
    assert c.plan(forced(c, "p", evict(c.job("v")))) == ()
    c.submit(spec("wait"), "wait")
    shares = (Share(group="worker", node_id="n2", count=2),)
    promise = Reservation(job_id="wait", attempt=1, start_ms=5000, end_ms=9000, shares=shares, made_at_ms=1)
    c.accept(CommitPlan(revision=0, gangs=(), reservations=(promise,)))
    c.accept(SetWindow(window=Window(name="repair", start_ms=9000, end_ms=10_000, nodes=("n2",))))
    return c.state


def job(name: str, **changes: object) -> Callable[[ClusterState], None]:
    def damage(state: ClusterState) -> None:
        state.jobs[name] = replace(state.jobs[name], **changes)  # type: ignore[arg-type]

    return damage


def task(**changes: object) -> Callable[[ClusterState], None]:
    def damage(state: ClusterState) -> None:
        state.tasks[TASK] = replace(state.tasks[TASK], **changes)  # type: ignore[arg-type]

    return damage


def allocation(**changes: object) -> Callable[[ClusterState], None]:
    def damage(state: ClusterState) -> None:
        state.allocations[ALLOCATION] = replace(state.allocations[ALLOCATION], **changes)  # type: ignore[arg-type]

    return damage


def node(**changes: object) -> Callable[[ClusterState], None]:
    def damage(state: ClusterState) -> None:
        state.nodes["n1"] = replace(state.nodes["n1"], **changes)  # type: ignore[arg-type]

    return damage


def account(**changes: object) -> Callable[[ClusterState], None]:
    def damage(state: ClusterState) -> None:
        state.put_account(replace(state.accounts["default/default"], **changes))  # type: ignore[arg-type]

    return damage


def fence(**changes: object) -> Callable[[ClusterState], None]:
    def damage(state: ClusterState) -> None:
        state.fences["p"] = replace(state.fences["p"], **changes)  # type: ignore[arg-type]

    return damage


def fenced_place(**changes: object) -> Callable[[ClusterState], None]:
    """Of the first task."""

    def damage(state: ClusterState) -> None:
        first, *others = state.fences["p"].tasks
        fence(tasks=(replace(first, **changes), *others))(state)  # type: ignore[arg-type]

    return damage


def promise(**changes: object) -> Callable[[ClusterState], None]:
    def damage(state: ClusterState) -> None:
        state.reservations["wait"] = replace(state.reservations["wait"], **changes)  # type: ignore[arg-type]

    return damage


def window(**changes: object) -> Callable[[ClusterState], None]:
    def damage(state: ClusterState) -> None:
        state.windows["repair"] = replace(state.windows["repair"], **changes)  # type: ignore[arg-type]

    return damage


def elsewhere(count: int) -> tuple[Share, ...]:
    return (Share(group="worker", node_id="n9", count=count),)


def reordered(state: ClusterState) -> None:
    for key in "xy":
        state.put_answered(Answered(key=key, until_ms=1))
    state.answered._order.rotate()


DAMAGE: list[tuple[str, Callable[[ClusterState], object]]] = [
    ("GPU 1 of node n1 is held 2000 thousandths", allocation(gpus=(1,))),
    ("CPUs of run/worker/1.1 on node n1 have another owner too", allocation(cpus="1")),
    ("tasks own CPUs that node n1 lacks", node(hardware=Hardware(numa_cpus=("0", "2-3")))),
    ("has CPUs 0,2 for", allocation(cpus="0,2")),
    ("names the GPU model 'a100'", allocation(gpu_model="a100")),
    ("which does not exist", allocation(node_id="n9")),
    ("more than it has", node(capacity=Resources(cpu_millis=1999, gpu_millis=4000))),
    ("usage of node n1 is", lambda s: s.usage.update(n1=ZERO)),
    ("is of no active task", task(state=TaskState.SUCCEEDED)),
    ("named for another attempt", task(attempt=2)),
    ("and its task disagree", task(node_id="n2")),
    ("and its task disagree", task(cpus="0-1")),
    ("has GPUs () for", allocation(gpus=())),
    ("is on a dead node", node(state=NodeState.DEAD)),
    ("has a GPU that node n1 lacks", allocation(gpus=(7,))),
    ("is LOST, allocation 'run/worker/0.1' disagrees", task(state=TaskState.LOST)),
    ("has no job", task(job_id="nope")),
    ("at attempt 1, its job at 2", job("run", attempt=2)),
    ("more or fewer tasks", lambda s: s.tasks.pop(TASK)),
    ("sequence numbers", job("run", sequence=2)),
    ("sequence numbers", lambda s: setattr(s, "next_sequence", 1)),
    ("counts (2, 1, 0, 0), its tasks (2, 0, 0, 0)", job("run", running=1)),
    ("ranks are out of order", task(rank=1)),
    ("has no tenant", lambda s: s.tenants.clear()),
    ("has no intent", job("run", intent=JobIntent.UNSPECIFIED)),
    ("is RUNNING and ended at 5", job("run", ended_at_ms=5)),
    ("in queue default, which does not exist", lambda s: s.queues.clear()),
    ("two live jobs of tenant default are named run", job("wait", spec=replace(spec("run")))),
    ("is PENDING with CANCEL", job("wait", intent=JobIntent.CANCEL)),
    ("is RUNNING and counts 0 tasks without a place, not 1", task(state=TaskState.PENDING)),
    ("is PENDING and counts 1 tasks without a place", job("wait", unplaced=1)),
    ("is RUNNING and holds nothing", job("run", active=0)),
    ("is RUNNING, 1 tasks of group worker were placed", task(allocation_id="")),
    ("not all its tasks have ended", job("wait", state=JobState.CANCELLED)),
    ("is SUCCEEDED, 0 tasks of group worker were placed", job("old", state=JobState.SUCCEEDED)),
    ("SUCCEEDED, not all tasks of group worker that were placed", job("run", state=JobState.SUCCEEDED)),
    ("not all its tasks are stopping", job("run", intent=JobIntent.RESTART)),
    ("runs on with a failed member", job("run", failed=1)),
    ("job wait is PENDING to RUN, and frozen", job("wait", frozen=True)),
    ("job run is RUNNING to RESTART, and frozen", job("run", frozen=True, intent=JobIntent.RESTART)),
    ("the jobs of tenant default have spent", job("old", spent=Spent(cpu_ms=1))),
    ("node n1 is CORDONED, closed by UNSPECIFIED", node(state=NodeState.CORDONED)),
    ("node n1 is READY, closed by AGENT", node(closed_by=ClosedBy.AGENT)),
    ("node n1 is READY, and is to be empty by 5", node(drain_by_ms=5)),
    ("counts the jobs ('a', 'a') as failing", node(failing=("a", "a"))),
    ("node n2 is DRAINING, and empty", lambda s: s.put_node(replace(s.nodes["n1"], id="n2", state=NodeState.DRAINING))),
    (
        "in queue default, which has queues below it",
        lambda s: s.set_queues((*s.queues.values(), Queue(path="default.x"))),
    ),
    ("queue a.b lacks its parent", lambda s: s.set_queues((*s.queues.values(), Queue(path="a.b")))),
    ("quota of nlp is in the wrong place", lambda s: s.quotas.update(nlp=Quota(tenant="x", max_running_jobs=1))),
    ("quota of nlp is in the wrong place, or limits nothing", lambda s: s.put_quota(Quota(tenant="nlp"))),
    ("account x is in the wrong place", lambda s: s.accounts.update(x=Account(queue="default", tenant="t", at_ms=0))),
    ("default/default is in the wrong place, or ahead of the clock", account(at_ms=1 << 40)),
    ("account default/default is of no queue with a half-life", lambda s: s.set_queues((Queue(path="default"),))),
    ("account default/default has amounts that are not positive", account(used=(("cpu", 0),))),
    ("has a half-life, and has no account", lambda s: s.accounts.clear()),
    ("charges are not", lambda s: s.charges.clear()),
    ("running is not", lambda s: s.counts.running.clear()),
    ("total is not", lambda s: s.total.update(cpu=1)),
    ("node_allocations is not", lambda s: s.node_allocations["n1"].clear()),
    ("usage has other nodes", lambda s: s.usage.update(n9=ZERO)),
    ("pending is not", lambda s: s.pending.clear()),
    ("finished is not the jobs", lambda s: s.finished.clear()),
    ("not in order of end", lambda s: setattr(s, "finished", dict.fromkeys(reversed(s.finished)))),
    ("names does not lead", lambda s: s.names.newest.update(twice="old")),
    ("leader m9 of epoch 1", lambda s: (setattr(s, "epoch", 1), setattr(s, "leader", "m9"))),
    ("0 answers are remembered", lambda s: s.answers.update(c={})),
    ("in the wrong place", lambda s: s.answers.update(c={"r": Answer(client_id="d", request_id="r")})),
    ("in the wrong table", lambda s: s.put_answer(Answer(client_id="d", request_id="r"))),
    ("remembered for too long", lambda s: s.put_answered(Answered(key="x", until_ms=1 << 50))),
    ("oldest request that is remembered is another", reordered),
    ("other bytes by their users", lambda s: s.footprint.add_answered("x", 1)),
]

DAMAGE_UNDER_FORCE: list[tuple[str, Callable[[ClusterState], object]]] = [
    ("fence of job p is in the wrong place, or its job is gone", fence(job_id="v")),
    ("fence of job p is in the wrong place, or its job is gone", lambda s: s.jobs.pop("p")),
    ("at attempt 1, and has a fence for 2", fence(attempt=2)),
    ("and has a fence for 1", job("p", held=True)),
    ("is of ranks [1, 1, 2, 3]", fenced_place(rank=1)),
    ("is of ranks []", fence(tasks=())),
    ("is on node n9, which takes no work", fenced_place(node_id="n9")),
    ("is on node n1, which takes no work", node(state=NodeState.DEAD)),
    ("is on node n1, which takes no work", node(state=NodeState.CORDONED)),
    ("node n1 will hold", node(capacity=Resources(cpu_millis=3000))),
    (
        "CPUs 0 of node n1 will have two owners",
        lambda s: fence(tasks=tuple([replace(t, cpus="0") for t in s.fences["p"].tasks]))(s),
    ),
    ("node_fences is not", lambda s: s.fenced.placements.clear()),
    ("fenced is not", lambda s: s.fenced.resources.clear()),
    ("leaving is not", lambda s: s.fenced.evicting.clear()),
    ("awaited is not", lambda s: s.fenced.awaited.clear()),
    ("leave for a job that has no fence", lambda s: s.fences.pop("p")),
    ("reservation of job wait is in the wrong place", promise(job_id="p")),
    ("job wait is PENDING at attempt 1 and has a reservation", promise(attempt=2)),
    ("job wait is PENDING at attempt 1 and has a reservation", job("wait", held=True)),
    ("holds too many tasks of group worker", promise(shares=elsewhere(3))),
    ("names nodes or groups that are not there", promise(shares=elsewhere(1))),
    ("window repair is in the wrong place, or ends before it starts", window(end_ms=9000)),
    ("window repair is in the wrong place, or ends before it starts", window(name="x")),
    ("window repair is of nodes that are not there", window(nodes=("n9",))),
]


def test_a_sound_state_has_no_violation():
    assert check(sound()) == []
    assert check(under_force()) == []


@pytest.mark.parametrize(("seen", "damage"), DAMAGE, ids=[seen for seen, _ in DAMAGE])
def test_damage_is_seen(seen, damage):
    state = sound()
    damage(state)
    assert seen in "\n".join(check(state))


@pytest.mark.parametrize(("seen", "damage"), DAMAGE_UNDER_FORCE, ids=[seen for seen, _ in DAMAGE_UNDER_FORCE])
def test_damage_to_fences_promises_and_windows_is_seen(seen, damage):
    state = under_force()
    damage(state)
    assert seen in "\n".join(check(state))
