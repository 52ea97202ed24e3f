"""Submitting, cancelling and forgetting jobs."""

from dataclasses import replace

import pytest

from gosched.core import limits
from gosched.core.commands.cluster import SetQueues
from gosched.core.commands.jobs import CancelJob, DropFinishedJobs, SubmitJob
from gosched.core.events import JobChanged, ReservationChanged, TaskChanged
from gosched.core.limits import MAX_DURATION_MS
from gosched.core.outcome import Code
from gosched.core.records.job import JobIntent, JobState
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.task import TaskState
from gosched.core.resources import MILLI, Resources
from gosched.core.spec.array import Array, Axis
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import JobSpec, OnMiss
from gosched.core.spec.placement_rules import (
    Affinity,
    AntiAffinity,
    LabelOp,
    Mode,
    SpreadRule,
    TaintEffect,
    Toleration,
    TolerationOp,
    TopologyRule,
)
from gosched.core.spec.policies import GangPolicy, MemberFailure, Preemption, PreemptionPolicy, RetryPolicy
from gosched.core.spec.task_group import Runtime
from gosched.state_machine import children, follow_ups, retention
from tests.state_machine.cluster import Cluster, group, spec


def test_a_submitted_job_is_pending_with_all_its_tasks_ranked_over_its_groups():
    c = Cluster()
    assert c.submit(spec("train", group("ps", 1), group("worker", 2)), "j1") == "j1"
    assert [(t.id, t.rank) for t in c.tasks("j1")] == [("j1/ps/0", 0), ("j1/worker/0", 1), ("j1/worker/1", 2)]
    assert c.task_states("j1") == [TaskState.PENDING] * 3
    assert list(c.state.pending) == ["j1"]
    assert c.job("j1").submitted_at_ms == c.state.clock_ms
    assert c.events == (JobChanged(job_id="j1", queue="default", before=JobState.UNSPECIFIED, after=JobState.PENDING),)


def test_the_first_job_of_a_tenant_makes_the_tenant():
    c = Cluster()
    c.submit(spec("a", tenant="nlp"))
    c.submit(spec("b", tenant="nlp"))
    assert [(t.name, t.created_at_ms) for t in c.state.tenants.values()] == [("nlp", 2)]


def test_a_live_name_with_the_same_spec_meets_that_job():
    c = Cluster()
    c.submit(spec("train"), "j1")
    outcome = c.accept(SubmitJob(job_id="j2", spec=spec("train")))
    assert (outcome.subject, outcome.unchanged, list(c.state.jobs)) == ("j1", True, ["j1"])


def test_a_live_name_with_another_spec_is_refused():
    c = Cluster()
    c.submit(spec("train"), "j1")
    detail = c.reject(SubmitJob(job_id="j2", spec=spec("train", group(cpus=9))), Code.ALREADY_EXISTS)
    assert "cancel it first" in detail


def test_a_name_is_free_again_after_the_end_and_leads_to_the_newest_job():
    c = Cluster()
    c.submit(spec("train"), "j1")
    c.cancel("train")
    c.submit(spec("train"), "j2")
    found = c.state.find_job("train")
    assert found is not None
    assert found.id == "j2"


def test_a_job_id_is_used_once():
    c = Cluster()
    c.submit(spec("a"), "j1")
    assert c.reject(SubmitJob(job_id="j1", spec=spec("b")), Code.ALREADY_EXISTS) == "job id j1 is taken"


def test_an_unknown_queue_is_refused_and_the_known_ones_are_named():
    c = Cluster()
    c.accept(SetQueues(queues=(Queue(path="prod"), Queue(path="default"))))
    detail = c.reject(SubmitJob(job_id="j1", spec=spec(queue="nope")), Code.NOT_FOUND)
    assert detail == "no queue 'nope'; there are: default, prod"


ONE = group(count=1)


def ruled(**changes: object) -> JobSpec:
    return spec("a", replace(ONE, **changes))  # type: ignore[arg-type]


def asking(resources: Resources) -> JobSpec:
    return ruled(resources=resources)


def affine(label: str, op: LabelOp, *values: str, weight: int = 0) -> JobSpec:
    return ruled(affinity=(Affinity(label=label, op=op, values=values, weight=weight),))


def tolerant(**fields: object) -> JobSpec:
    return ruled(tolerations=(Toleration(**fields),))  # type: ignore[arg-type]


def after(job: str, condition: Condition = Condition.ANY) -> Dependency:
    return Dependency(job=job, condition=condition)


def matrix(*axes: Axis) -> JobSpec:
    return spec(array=Array(matrix=axes))


BAD_SPECS = {
    "name is empty": spec(""),
    "'a\\nb' may hold only": spec("a\nb"),
    "'\\xe4' may hold only": spec("ä"),
    "may hold only letters": spec("a/b"),
    "has 254 characters": spec("x" * 254),
    "tenant": spec(tenant="a b"),
    "1 to 64 task groups; this one has 0": replace(spec(), groups=()),
    "1 to 64 task groups; this one has 65": spec("a", *[group(f"g{i}") for i in range(65)]),
    "two groups are named": spec("a", ONE, ONE),
    "group name": spec("a", group("a\0b")),
    "count is 0": spec("a", group(count=0)),
    "count is -1": spec("a", group(count=-1)),
    "at most 20000 tasks": spec("a", group(count=20_001)),
    "must not be negative": spec("a", group(cpus=-1)),
    "are beyond": spec("a", replace(ONE, resources=Resources(memory_bytes=1 << 53))),
    "together ask for more": spec("a", replace(group(count=20_000), resources=Resources(memory_bytes=1 << 52))),
    "or for whole ones": asking(Resources(gpu_millis=1500)),
    "1025 GPUs; at most 1024": asking(Resources(gpu_millis=1025 * MILLI)),
    "17 resources of the cluster's own": asking(Resources(custom=tuple((f"r{i:02}", 1) for i in range(17)))),
    "0 of fpga is not between 1": asking(Resources(custom=(("fpga", 0),))),
    "gpu is built in": asking(Resources(custom=(("gpu", 1),))),
    "resource 'gpu:h100' may hold only": asking(Resources(custom=(("gpu:h100", 1),))),
    "resources: resources must be sorted": asking(Resources(custom=(("b", 1), ("a", 1)))),
    "resources must not be negative": asking(Resources(custom=(("a", -1),))),
    "gang.min is 1; the minima of the groups add up to 2": spec(gang=GangPolicy(min_tasks=1)),
    "min is 3; it must be between 0 and the count, 2": spec("a", group(count=2, min_count=3)),
    "min is -1": spec("a", group(count=2, min_count=-1), gang=GangPolicy(min_tasks=-1)),
    "gpu memory -1": ruled(gpu_memory_bytes=-1),
    "gpu memory without a GPU": ruled(gpu_memory_bytes=1),
    "deadline is given twice": spec(deadline_at_ms=1, deadline_in_ms=1),
    "deadline.in of -1": spec(deadline_in_ms=-1),
    "deadline.at -1": spec(deadline_at_ms=-1),
    "begin is given twice": spec(begin_at_ms=1, begin_in_ms=1),
    "begin.in of -1": spec(begin_in_ms=-1),
    "begin.at -1": spec(begin_at_ms=-1),
    "begin.at 253402300800000 ms is not between": spec(begin_at_ms=253_402_300_800_000),
    "begin is for a job that runs once: say in schedule.cron": spec(begin_in_ms=1, cron="@daily", timezone="UTC"),
    "the job would begin when its deadline is over": spec(begin_in_ms=500, deadline_in_ms=500),
    "when its deadline is over: give it an earlier begin or": spec(begin_at_ms=9, deadline_at_ms=8),
    "topology: level is empty": ruled(topology=(TopologyRule(level=""),)),
    "topology: mode must be": ruled(topology=(TopologyRule(level="rack", mode=Mode.UNSPECIFIED),)),
    "topology: 65 are given": ruled(topology=(TopologyRule(level="rack"),) * 65),
    "spread: max_skew 0": ruled(spread=(SpreadRule(level="rack", max_skew=0),)),
    "spread: mode must be": ruled(spread=(SpreadRule(level="rack", mode=Mode.UNSPECIFIED),)),
    "affinity: label 'a b'": affine("a b", LabelOp.EXISTS),
    "affinity x: in needs at least one value": affine("x", LabelOp.IN),
    "affinity x: not_in needs at least one value": affine("x", LabelOp.NOT_IN),
    "affinity x: exists takes no values": affine("x", LabelOp.EXISTS, "1"),
    "affinity x: not_exists takes no values": affine("x", LabelOp.NOT_EXISTS, "1"),
    "affinity x: gt needs one whole number": affine("x", LabelOp.GT, "1.5"),
    "affinity x: lt needs one whole number": affine("x", LabelOp.LT, "1", "2"),
    "affinity x: op must be": affine("x", LabelOp.UNSPECIFIED, "1"),
    "affinity x: weight 1001": affine("x", LabelOp.EXISTS, weight=1001),
    "affinity x: 1001 values": affine("x", LabelOp.IN, *[f"{i}" for i in range(1001)]),
    "affinity x '\\n' holds": affine("x", LabelOp.IN, "\n"),
    "anti_affinity: job 'a b'": ruled(anti_affinity=(AntiAffinity(job="a b"),)),
    "anti_affinity: level is empty": ruled(anti_affinity=(AntiAffinity(level=""),)),
    "tolerations: op must be": tolerant(op=TolerationOp.UNSPECIFIED),
    "tolerations: only op exists": tolerant(op=TolerationOp.EQUAL, value="x"),
    "tolerations gpu: op exists takes no value": tolerant(key="gpu", value="x"),
    "tolerations: key 'a b'": tolerant(key="a b"),
    "command is empty": spec("a", replace(ONE, command=())),
    "say what to run": spec("a", replace(ONE, command=("", "x"))),
    "command holds a NUL": spec("a", replace(ONE, command=("echo", "a\0"))),
    "runtime must be process": spec("a", replace(ONE, runtime=Runtime.UNSPECIFIED)),
    "runtime docker needs an image": spec("a", replace(ONE, runtime=Runtime.DOCKER)),
    "runtime rootfs needs an image": spec("a", replace(ONE, runtime=Runtime.ROOTFS)),
    "gang.ends_with is 'driver'; the groups are worker": spec(gang=GangPolicy(min_tasks=2, ends_with="driver")),
    "priority 1001": spec(priority=1001),
    "retry.max -1": spec(retry=RetryPolicy(max_restarts=-1)),
    "retry.backoff": spec(retry=RetryPolicy(backoff_ms=-1)),
    "stop grace": spec(stop_grace_ms=-1),
    "gang.wait of -1": spec(gang=GangPolicy(min_tasks=2, wait_ms=-1)),
    "on_member_failure must be": spec(gang=GangPolicy(min_tasks=2, on_member_failure=MemberFailure.UNSPECIFIED)),
    "timeout of -1": spec(timeout_ms=-1),
    "estimate of 31622400001 ms is not": spec(estimate_ms=31_622_400_001),
    "estimate of 2 ms is beyond the timeout of 1 ms": spec(estimate_ms=2, timeout_ms=1),
    "deadline.on_miss must be": spec(on_miss=OnMiss.UNSPECIFIED),
    "deadline.at 253402300800000 ms is not between": spec(deadline_at_ms=253_402_300_800_000),
    "preemption.policy must be": spec(preemption=Preemption(policy=PreemptionPolicy.OBSERVE_ONLY)),
    "preemption.policy must be never": spec(preemption=Preemption(policy=PreemptionPolicy.UNSPECIFIED)),
    "preemption.grace of -1": spec(preemption=Preemption(grace_ms=-1)),
    "preemption.min_runtime of -1": spec(preemption=Preemption(min_runtime_ms=-1)),
    "checkpoint_signal -1 is not between 0 and 64": spec(preemption=Preemption(checkpoint_signal=-1)),
    "checkpoint_signal 65": spec(preemption=Preemption(checkpoint_signal=65)),
    "checkpoint_signal 9 cannot be caught": spec(preemption=Preemption(checkpoint_signal=9)),
    "checkpoint_signal 19 cannot be caught": spec(preemption=Preemption(checkpoint_signal=19)),
    "waits for 257 jobs": spec(after=tuple(after(f"j{i}") for i in range(257))),
    "after names a job twice": spec(after=(after("x"), after("x", Condition.SUCCESS))),
    "after: job 'a b' may hold only": spec(after=(after("a b"),)),
    "after x: the condition must be": spec(after=(after("x", Condition.UNSPECIFIED),)),
    "of an array, at most 229": spec("x" * 230, array=Array(last=1, step=1)),
    "of a schedule, at most 229": spec("x" * 230, cron="* * * * *", timezone="UTC"),
    "array.range 5-4/1 must ascend": spec(array=Array(first=5, last=4, step=1)),
    "array.range -1-4/1 must ascend": spec(array=Array(first=-1, last=4, step=1)),
    "array.range 0-4/-1 must ascend": spec(array=Array(last=4, step=-1)),
    "array.range 0-1000000000/9999 must": spec(array=Array(last=1_000_000_000, step=9999)),
    "10000001 elements; 1 to 10000000": spec(array=Array(last=10_000_000, step=1)),
    "array has 0 elements": matrix(Axis(name="A", values=())),
    "a range and a matrix": spec(array=Array(step=1, matrix=(Axis(name="A", values=("1",)),))),
    "array.parallelism -1": spec(array=Array(step=1, parallelism=-1)),
    "array.parallelism 10001 of 1 tasks": spec("a", ONE, array=Array(step=1, parallelism=10_001)),
    "at most 2 may live at once": spec("a", group(count=9999), array=Array(step=1, parallelism=3)),
    "array.max_failures -2": spec(array=Array(step=1, max_failures=-2)),
    "array.matrix has 17 axes": matrix(*[Axis(name=f"A{i}", values=("1",)) for i in range(17)]),
    "array.matrix names an axis twice": matrix(Axis(name="A", values=("1",)), Axis(name="A", values=("2",))),
    "array.matrix: '1A' cannot be the name": matrix(Axis(name="1A", values=("1",))),
    "array.matrix: 'A=B' cannot be the name": matrix(Axis(name="A=B", values=("1",))),
    "array.matrix A: 1001 values": matrix(Axis(name="A", values=("1",) * 1001)),
    "array.matrix A: value": matrix(Axis(name="A", values=("a\n",))),
    "label x": spec(labels=(("x", "a\x1b[31m"),)),
    "sorted and distinct": spec(labels=(("b", ""), ("a", ""))),
    "group worker: env keys must be": spec("a", replace(ONE, env=(("A", "1"), ("A", "2")))),
    "name of an environment variable": spec("a", replace(ONE, env=(("A=B", "1"),))),
    "value of A holds a NUL": spec("a", replace(ONE, env=(("A", "\0"),))),
    "working directory": spec("a", replace(ONE, working_dir="/tmp\0")),
    "node selector": spec("a", replace(ONE, node_selector=(("zone", "\n"),))),
    "texts take 275064 bytes": ruled(
        affinity=tuple(Affinity(label=f"{i:05}", op=LabelOp.IN, values=("x" * 250,) * 100) for i in range(11))
    ),
    "at most 262144 are allowed": spec("a", replace(ONE, env=(("A", "x" * 300_000),))),
}


@pytest.mark.parametrize("wrong", BAD_SPECS, ids=str)
def test_a_bad_spec_is_refused_in_one_line(wrong):
    assert wrong in Cluster().reject(SubmitJob(job_id="j1", spec=BAD_SPECS[wrong]), Code.INVALID)


def test_texts_that_programs_need_are_allowed():
    c = Cluster()
    script = replace(ONE, command=("/bin/sh", "-c", "echo 'ä'\nexit 0\n"), env=(("A", "two\nlines"), ("b", "")))
    c.submit(spec("a.b_c-1", script, labels=(("example.com/team", "ü b"),)))


def test_every_placement_rule_is_allowed_at_once():
    rules = replace(
        group(count=4, min_count=2),
        resources=Resources(cpu_millis=1, gpu_millis=500, custom=(("fpga", 2), ("license.x", 1))),
        gpu_memory_bytes=1 << 30,
        topology=(TopologyRule(level="topology.kubernetes.io/rack"), TopologyRule(level="zone", mode=Mode.PREFERRED)),
        spread=(SpreadRule(level="zone", max_skew=2),),
        affinity=(
            Affinity(label="disk", op=LabelOp.IN, values=("ssd", "nvme"), weight=-1000),
            Affinity(label="x/generation", op=LabelOp.GT, values=("-7",)),
            Affinity(label="disk", op=LabelOp.NOT_EXISTS),
        ),
        anti_affinity=(AntiAffinity(), AntiAffinity(job="other", level="rack")),
        tolerations=(
            Toleration(),
            Toleration(key="gpu", op=TolerationOp.EQUAL, value="yes", effect=TaintEffect.NO_EXECUTE),
        ),
    )
    c = Cluster()
    c.submit(spec("train", rules, gang=GangPolicy(min_tasks=2), deadline_in_ms=1000), "j1")
    assert c.job("j1").spec.groups == (rules,)


def test_everything_about_time_and_force_is_allowed_at_once():
    everything = spec(
        "train",
        ONE,
        gang=GangPolicy(min_tasks=1, on_member_failure=MemberFailure.CONTINUE, wait_ms=MAX_DURATION_MS),
        timeout_ms=MAX_DURATION_MS,
        estimate_ms=MAX_DURATION_MS,
        deadline_in_ms=1,
        on_miss=OnMiss.REFUSE,
        preemption=Preemption(policy=PreemptionPolicy.NEVER, grace_ms=1, checkpoint_signal=64, min_runtime_ms=1),
        array=Array(last=9_999_999, step=1, parallelism=10_000, max_failures=0),
        cron="0 3 * * *",
        timezone="Europe/Berlin",
    )
    Cluster().accept(SubmitJob(job_id="j1", spec=everything, next_run_at_ms=1))


def promise(job_id: str = "j1", node: str = "n1") -> Reservation:
    shares = (Share(group="worker", node_id=node, count=2),)
    return Reservation(job_id=job_id, attempt=1, start_ms=900, shares=shares, for_deadline=True, made_at_ms=1)


def test_a_job_may_come_with_the_promise_of_its_start():
    c = Cluster()
    c.node("n1")
    assert c.accept(SubmitJob(job_id="j1", spec=spec(), reservation=(promise(),))).refusals == ()
    assert c.state.reservations == {"j1": promise()}
    assert c.events[-1] == ReservationChanged(job_id="j1", start_ms=900)


def test_a_promise_that_cannot_be_made_any_more_is_refused_and_the_job_taken():
    c = Cluster()
    (refusal,) = c.accept(SubmitJob(job_id="j1", spec=spec(), reservation=(promise(),))).refusals
    assert refusal.detail == "reservation refused: there is no node 'n1'"
    assert (list(c.state.pending), c.state.reservations) == (["j1"], {})


def test_a_job_that_is_met_again_gets_no_promise():
    c = Cluster()
    c.node("n1")
    c.submit(spec(), "j1")
    assert c.accept(SubmitJob(job_id="j2", spec=spec(), reservation=(promise("j2"),))).unchanged
    assert c.state.reservations == {}


@pytest.mark.parametrize("promises", [(promise("j2"),), (promise(), promise())])
def test_a_submission_has_one_promise_at_most_and_its_own(promises):
    body = SubmitJob(job_id="j1", spec=spec(), reservation=promises)
    assert "one reservation at most, that of its job" in Cluster().reject(body, Code.INVALID)


def test_an_array_with_a_long_id_is_refused_since_its_children_add_to_it():
    array = spec(array=Array(step=1))
    assert "230 characters" in Cluster().reject(SubmitJob(job_id="x" * 230, spec=array), Code.INVALID)
    Cluster().submit(spec(), "x" * 230)


def test_jobs_go_into_leaves_only_and_into_queues_that_take_their_tenant():
    c = Cluster()
    queues = (Queue(path="a", tenants=("nlp", "vision")), Queue(path="a.b"), Queue(path="a.c", tenants=("nlp",)))
    c.accept(SetQueues(queues=queues))
    inner = c.reject(SubmitJob(job_id="j1", spec=spec(queue="a", tenant="nlp")), Code.INVALID)
    assert inner == "queue a has queues below it: submit to one of them: a.b, a.c"
    for queue, tenant, named in (("a.b", "ads", "queue a is for the tenants nlp, vision only"),
                                 ("a.c", "vision", "queue a.c is for the tenants nlp only")):  # fmt: skip
        detail = c.reject(SubmitJob(job_id="j1", spec=spec(queue=queue, tenant=tenant)), Code.INVALID)
        assert detail == f"{named}; the job's tenant is {tenant}"
    c.submit(spec(queue="a.c", tenant="nlp"))


@pytest.mark.parametrize(
    ("limit", "module_value", "what"),
    [("MAX_LIVE_JOBS", 1, "1 live jobs"), ("MAX_TASKS", 3, "3 tasks"), ("MAX_TENANTS", 1, "1 tenants with live jobs")],
)
def test_a_full_cluster_refuses_more(monkeypatch, limit, module_value, what):
    assert module_value < getattr(limits, limit)
    monkeypatch.setattr(retention if limit == "MAX_TENANTS" else children, limit, module_value)
    c = Cluster()
    c.submit(spec("a"))
    assert what in c.reject(SubmitJob(job_id="j2", spec=spec("b", tenant="other")), Code.EXHAUSTED)


@pytest.mark.parametrize(("limit", "most"), [("MAX_LIVE_JOBS", 100), ("MAX_TASKS", 200)])
def test_no_tenant_takes_all_jobs_or_tasks_and_each_that_holds_few_may_submit(monkeypatch, limit, most):
    """Greedy tenants one after the other, with arrays: each takes half of what those before it left."""
    monkeypatch.setattr(children, limit, most)
    monkeypatch.setattr(follow_ups, "STEPS_AT_ONCE", 1000)
    c = Cluster()
    for tenant in ("greedy", "second", "third"):
        c.submit(spec(f"{tenant}-all", array=Array(last=999, step=1), tenant=tenant), f"a-{tenant}")
        problem = c.reject(SubmitJob(job_id="j", spec=spec("more", tenant=tenant)), Code.EXHAUSTED)
        assert f"tenant {tenant} holds" in problem
        assert "a tenant may hold as many as it leaves: try again when some are gone" in problem
    c.submit(spec("modest", tenant="modest"))
    made = [job.children.made for job in c.state.jobs.values() if job.spec.is_parent]
    assert made == sorted(made, reverse=True)
    assert 45 <= made[0] <= 50


def test_cancelling_a_pending_job_ends_it_and_its_tasks_at_once():
    c = Cluster()
    c.submit(spec(), "j1")
    c.cancel("train")
    job = c.job("j1")
    assert (job.state, job.reason, job.exit_code) == (JobState.CANCELLED, "CANCELLED", None)
    assert job.ended_at_ms == c.state.clock_ms
    assert c.task_states("j1") == [TaskState.KILLED] * 2
    assert [type(e) for e in c.events] == [TaskChanged, TaskChanged, JobChanged]


def test_cancelling_a_running_job_stops_its_tasks_and_ends_with_the_last():
    c = Cluster()
    c.node()
    c.submit(spec(), "j1")
    c.place("j1", "n1")
    c.report("j1", 0, TaskState.RUNNING)
    c.accept(CancelJob(job_id="j1", reason="OBSOLETE"))
    assert c.task_states("j1") == [TaskState.STOPPING] * 2
    assert (c.job("j1").state, c.job("j1").intent) == (JobState.RUNNING, JobIntent.CANCEL)
    c.report("j1", 0, TaskState.KILLED, 143)
    assert c.job("j1").state is JobState.RUNNING
    c.report("j1", 1, TaskState.SUCCEEDED, 0)
    assert (c.job("j1").state, c.job("j1").reason) == (JobState.CANCELLED, "OBSOLETE")
    assert c.state.allocations == {}


def test_cancelling_twice_or_after_the_end_changes_nothing():
    c = Cluster()
    c.node()
    c.submit(spec(), "j1")
    c.place("j1", "n1")
    c.cancel("j1")
    assert c.cancel("j1").unchanged
    for rank in (0, 1):
        c.report("j1", rank, TaskState.KILLED)
    assert c.cancel("train").unchanged
    assert c.events == ()


def test_cancelling_an_unknown_job_is_refused():
    assert Cluster().reject(CancelJob(job_id="x\n"), Code.NOT_FOUND) == "no job 'x\\n'"


def finished(c: Cluster, *names: str) -> None:
    for name in names:
        c.submit(spec(name), name)
        c.cancel(name)


def test_the_oldest_finished_jobs_are_dropped_with_their_tasks():
    c = Cluster()
    finished(c, "a", "b", "c")
    c.submit(spec("live"), "live")
    assert not c.accept(DropFinishedJobs(keep=1, ended_before_ms=0)).unchanged
    assert list(c.state.jobs) == ["c", "live"]
    assert len(c.state.tasks) == 4
    assert c.events[0] == JobChanged(job_id="a", queue="default", before=JobState.CANCELLED, after=JobState.UNSPECIFIED)
    assert c.accept(DropFinishedJobs(keep=1, ended_before_ms=0)).unchanged


def test_jobs_that_ended_before_the_age_are_dropped_whatever_is_kept():
    c = Cluster()
    finished(c, "a", "b")
    c.accept(DropFinishedJobs(keep=10, ended_before_ms=c.job("b").ended_at_ms))
    assert list(c.state.jobs) == ["b"]


def test_one_command_drops_a_bounded_number_of_tasks(monkeypatch):
    monkeypatch.setattr(retention, "MAX_FORGOTTEN_AT_ONCE", 3)
    c = Cluster()
    finished(c, "a", "b", "c")
    c.accept(DropFinishedJobs(keep=0, ended_before_ms=0))
    assert list(c.state.jobs) == ["c"]


def test_keeping_a_negative_number_is_refused():
    c = Cluster()
    finished(c, "a")
    c.reject(DropFinishedJobs(keep=-1, ended_before_ms=0), Code.INVALID)
