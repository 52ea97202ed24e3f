"""Limits of queues and quotas of tenants hold where plans are applied."""

from dataclasses import replace

import pytest

from gosched.core.commands.cluster import SetQueues, SetQuotas
from gosched.core.commands.jobs import SubmitJob
from gosched.core.events import QueuesChanged
from gosched.core.outcome import Code
from gosched.core.records.job import JobState
from gosched.core.records.queue import Queue, QueueType
from gosched.core.records.task import TaskState
from gosched.core.records.tenant import Quota
from gosched.core.resources import MILLI, Resources
from gosched.core.rules import quotas as quota_rules
from tests.state_machine.cluster import Cluster, gang, group, registration, spec


def cluster(*queues: Queue) -> Cluster:
    """One node of 100 CPUs and 8 H100 GPUs."""
    c = Cluster()
    c.accept(SetQueues(queues=(Queue(path="default"), *queues)))
    c.node("n1", cpus=100, gpus=8, gpu_model="h100")
    return c


def job(c: Cluster, name: str, queue: str = "default", *, cpus: int = 1, tenant: str = "nlp") -> str:
    return c.submit(spec(name, group(cpus=cpus), queue=queue, tenant=tenant), name)


def test_a_queue_never_holds_more_than_its_limit():
    c = cluster(Queue(path="a", limit=(("cpu", 3000),)))
    c.place(job(c, "j1", "a", cpus=2), "n1")
    refusal = c.refused(gang(c.job(job(c, "j2", "a", cpus=2)), "n1"))
    assert refusal == "queue a holds 2 of its limit of 3 CPUs; the gang wants 2"
    c.place(job(c, "j3", "a", cpus=1), "n1")


def test_a_parents_limit_holds_for_all_queues_below_it():
    c = cluster(Queue(path="a", limit=(("cpu", 3000),)), Queue(path="a.x"), Queue(path="a.y"))
    c.place(job(c, "j1", "a.x", cpus=2), "n1")
    assert "queue a holds 2 of" in c.refused(gang(c.job(job(c, "j2", "a.y", cpus=2)), "n1"))
    c.place(job(c, "j3", cpus=50), "n1")


def test_max_pct_is_of_what_the_living_nodes_have():
    c = cluster(Queue(path="a", type=QueueType.CAPACITY, capacity_pct=10, max_pct=50))
    c.place(job(c, "j1", "a", cpus=50), "n1")
    job(c, "j2", "a")
    assert "limit of 50 CPUs" in c.refused(gang(c.job("j2"), "n1"))
    c.node("n2", cpus=2)
    c.place("j2", "n1")
    c.die("n2")
    assert "limit of 50 CPUs" in c.refused(gang(c.job(job(c, "j3", "a")), "n1"))


def test_gangs_of_one_plan_share_what_the_limit_leaves():
    c = cluster(Queue(path="a", limit=(("cpu", 2000),)))
    gangs = [gang(c.job(job(c, f"j{i}", "a")), "n1") for i in range(4)]
    assert len(c.plan(*gangs)) == 2
    assert [c.job(f"j{i}").state for i in range(4)] == [JobState.RUNNING] * 2 + [JobState.PENDING] * 2


def test_a_lowered_limit_stops_nothing_and_lets_nothing_in():
    c = cluster()
    c.place(job(c, "j1", cpus=5), "n1")
    c.accept(SetQueues(queues=(Queue(path="default", limit=(("cpu", 1000),)),)))
    assert c.job("j1").state is JobState.RUNNING
    assert "holds 5 of its limit of 1 CPU;" in c.refused(gang(c.job(job(c, "j2")), "n1"))
    c.place(job(c, "none", cpus=0), "n1")  # it wants none of what is over


def test_max_running_jobs_counts_gangs_along_the_path_until_they_end():
    c = cluster(Queue(path="a", max_running_jobs=1), Queue(path="a.x"), Queue(path="a.y"))
    c.place(job(c, "j1", "a.x"), "n1")
    refusal = c.refused(gang(c.job(job(c, "j2", "a.y")), "n1"))
    assert refusal == "queue a runs 1 jobs, its max_running_jobs is 1"
    c.succeed_all("j1")
    c.place("j2", "n1")


def test_a_tenants_quota_holds_over_all_queues():
    c = cluster(Queue(path="a"))
    c.accept(SetQuotas(quotas=(Quota(tenant="nlp", limit=(("cpu", 3000),)),)))
    c.place(job(c, "j1", "a", cpus=2), "n1")
    assert "tenant nlp holds 2 of" in c.refused(gang(c.job(job(c, "j2", cpus=2)), "n1"))
    c.place(job(c, "j3", cpus=2, tenant="ads"), "n1")


def test_a_tenants_running_jobs_are_limited():
    c = cluster()
    c.accept(SetQuotas(quotas=(Quota(tenant="nlp", max_running_jobs=1),)))
    gangs = [gang(c.job(job(c, name)), "n1") for name in ("j1", "j2")]
    assert c.plan(*gangs) == ("tenant nlp runs 1 jobs, its max_running_jobs is 1",)


def test_a_quota_counts_gpus_of_one_model_and_parts_of_them():
    c = cluster()
    c.accept(registration("n2", gpus=2, gpu_model="a100"))
    c.accept(SetQuotas(quotas=(Quota(tenant="nlp", limit=(("gpu:h100", 1500),)),)))
    for name, millis, node, gpu, taken in (
        ("half", 500, "n1", 0, True),
        ("others", 2 * MILLI, "n2", 0, True),
        ("whole", MILLI, "n1", 1, True),
        ("tenth", 100, "n1", 0, False),
    ):
        c.submit(spec(name, replace(group(), resources=Resources(gpu_millis=millis)), tenant="nlp"), name)
        gpus = tuple(range(gpu, gpu + max(1, millis // MILLI)))
        assert (c.plan(gang(c.job(name), node, gpus=(gpus,))) == ()) is taken


def test_an_elastic_task_that_joins_needs_room_in_the_queue_but_counts_as_no_job():
    c = cluster(Queue(path="a", max_running_jobs=1, limit=(("cpu", 2000),)))
    c.submit(spec("e", group(count=3, min_count=1), queue="a"), "j1")
    assert c.plan(gang(c.job("j1"), "n1", ranks=[0])) == ()
    assert c.plan(gang(c.job("j1"), "n1", ranks=[2])) == ()
    assert "queue a holds 2 of" in c.refused(gang(c.job("j1"), "n1", ranks=[1]))
    assert c.task_states("j1") == [TaskState.PLACED, TaskState.PENDING, TaskState.PLACED]


def test_quotas_are_set_kept_taken_away_and_replaced():
    c = Cluster()
    one, two = Quota(tenant="one", max_running_jobs=1), Quota(tenant="two", limit=(("gpu:h100", 0), ("memory", 5)))
    c.accept(SetQuotas(quotas=(one,)))
    assert c.events == (QueuesChanged(),)
    c.accept(SetQuotas(quotas=(two,)))
    assert c.state.quotas == {"one": one, "two": two}
    assert c.accept(SetQuotas(quotas=(one,))).unchanged
    assert c.events == ()
    c.accept(SetQuotas(quotas=(Quota(tenant="one"), Quota(tenant="never-seen"))))
    assert c.state.quotas == {"two": two}
    c.accept(SetQuotas(quotas=(one,), replace=True))
    assert c.state.quotas == {"one": one}


@pytest.mark.parametrize(
    "bad",
    [
        Quota(tenant="a b", max_running_jobs=1),
        Quota(tenant="x", max_running_jobs=-1),
        Quota(tenant="x", limit=(("cpu", -1),)),
        Quota(tenant="x", limit=(("gpu:", 1),)),
        Quota(tenant="x", limit=(("disk space", 1),)),
        Quota(tenant="x", limit=(("memory", 1), ("cpu", 1))),
        Quota(tenant="good", max_running_jobs=2),
    ],
)
def test_one_bad_quota_refuses_all(bad):
    assert Cluster().reject(SetQuotas(quotas=(Quota(tenant="good", max_running_jobs=1), bad)), Code.INVALID)


def test_there_are_only_so_many_quotas(monkeypatch):
    monkeypatch.setattr(quota_rules, "MAX_TENANTS", 1)
    c = Cluster()
    c.accept(SetQuotas(quotas=(Quota(tenant="a", max_running_jobs=1),)))
    more = (Quota(tenant="b", max_running_jobs=1),)
    c.reject(SetQuotas(quotas=more), Code.EXHAUSTED)
    c.accept(SetQuotas(quotas=more, replace=True))


def test_a_repeated_request_meets_its_first_answer():
    c = Cluster()
    bad = SetQuotas(quotas=(Quota(tenant=""),))
    assert c.do(bad, client="c", request="r") == c.do(SetQuotas(quotas=()), client="c", request="r")


def test_a_job_whose_queue_takes_its_tenant_no_more_runs_on():
    c = cluster()
    c.place(job(c, "j1"), "n1")
    c.accept(SetQueues(queues=(Queue(path="default", tenants=("ads",)),)))
    c.reject(SubmitJob(job_id="j2", spec=spec("j2", tenant="nlp")), Code.INVALID)
    c.succeed_all("j1")


def test_queues_and_quotas_of_one_command_are_taken_together_or_not_at_all() -> None:
    c = Cluster()
    queues = (Queue(path="default"), Queue(path="new"))
    before = c.state.freeze()
    bad = (Quota(tenant="a", limit=(("no such", 1),)),)
    c.reject(SetQueues(queues=queues, quotas=bad, sets_quotas=True), Code.INVALID)
    assert (c.state.queues, c.state.quotas) == (before.queues, before.quotas)
    good = (Quota(tenant="a", limit=(("cpu", 1000),)),)
    c.accept(SetQueues(queues=queues, quotas=good, sets_quotas=True))
    assert (list(c.state.queues), list(c.state.quotas)) == (["default", "new"], ["a"])
    assert c.accept(SetQueues(queues=queues)).unchanged  # without `sets_quotas` the quotas stay
    c.accept(SetQueues(queues=queues, sets_quotas=True))
    assert not c.state.quotas
