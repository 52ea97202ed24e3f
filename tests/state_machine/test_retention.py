"""What is forgotten, and what for: jobs tenant by tenant, elements of arrays, idle tenants, accounts, dead nodes."""

import pytest

from gosched.core.commands.cluster import DropWindow, Noop, SetQueues, SetQuotas, SetWindow
from gosched.core.commands.jobs import DropFinishedJobs, SubmitJob
from gosched.core.commands.nodes import RemoveNode
from gosched.core.events import JobChanged, NodeChanged
from gosched.core.outcome import Code
from gosched.core.records.job import JobState
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.task import TaskState
from gosched.core.records.tenant import Quota
from gosched.core.records.window import Window
from gosched.core.spec.array import Array
from gosched.core.state.cluster_state import restore
from gosched.state_machine import nodes, retention
from tests.state_machine.cluster import Cluster, group, registration, spec

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


@pytest.fixture
def c():
    cluster = Cluster()
    cluster.node("n1", cpus=64)
    return cluster


def ended(c: Cluster, name: str, tenant: str = "default") -> str:
    job = c.submit(spec(name, group(cpus=0), tenant=tenant))
    c.cancel(job)
    return job


def keep(c: Cluster, count: int, before_ms: int = 0) -> list[str]:
    """The names that are left, after as many commands as it takes."""
    for _ in range(100):
        if c.accept(DropFinishedJobs(keep=count, ended_before_ms=before_ms)).unchanged:
            break
    return [job.spec.name for job in c.state.jobs.values()]


def test_the_tenant_with_the_most_ended_jobs_loses_its_oldest_first(c):
    ended(c, "early", tenant="small")
    for n in range(20):
        ended(c, f"job-{n}", tenant="large")
    assert keep(c, 5) == ["early", *[f"job-{n}" for n in range(16, 20)]]
    assert keep(c, 2) == ["early", "job-19"]


def test_what_is_too_old_goes_whoever_it_is_of(c):
    ended(c, "early", tenant="small")
    c.accept(Noop(), at_ms=1000)
    ended(c, "late", tenant="large")
    assert keep(c, 10, before_ms=1000) == ["late"]


def test_elements_of_arrays_go_before_other_jobs_of_the_tenant(c):
    ended(c, "first")
    c.submit(spec("array", group(cpus=0), array=Array(last=4, step=1)), "a1")
    c.cancel("a1")
    ended(c, "last")
    assert keep(c, 4) == ["first", "array", "array.4", "last"]


def test_an_array_keeps_a_bounded_number_of_elements_and_all_counts(c, monkeypatch):
    monkeypatch.setattr(retention, "KEPT_ELEMENTS", 3)
    c.submit(spec("array", group(cpus=0), array=Array(last=19, step=1, parallelism=2)), "a1")
    for n in range(20):
        c.place(f"a1.{n}", "n1")
        c.report(f"a1.{n}", 0, TaskState.FAILED if n % 2 else TaskState.SUCCEEDED, n % 2)
    job = c.job("a1")
    assert (job.state, job.children.succeeded, job.children.failed) == (JobState.FAILED, 10, 10)
    assert sorted(job.element for job in c.state.jobs.values() if job.parent) == [14, 15, 16, 17, 18, 19]


def test_elements_that_end_all_at_once_are_all_counted_before_any_is_forgotten(c, monkeypatch):
    monkeypatch.setattr(retention, "KEPT_ELEMENTS", 3)
    c.submit(spec("array", group(cpus=0), array=Array(last=29, step=1)), "a1")
    for n in range(30):
        c.place(f"a1.{n}", "n1")
    c.die("n1")
    assert c.job("a1").children.failed == 30
    assert len([e for e in c.events if isinstance(e, JobChanged) and not e.after]) == 27
    assert len(c.state.jobs) == 4


def test_one_tenants_large_array_leaves_the_others_jobs_alone(c):
    """With 10,000 kept for all, the elements of one array took every place."""
    mine = [ended(c, f"mine-{n}", tenant="mine") for n in range(5)]
    c.submit(spec("array", group(cpus=0), tenant="other", array=Array(last=149, step=1, parallelism=9)), "a1")
    for n in range(150):
        c.place(f"a1.{n}", "n1")
        c.report(f"a1.{n}", 0, TaskState.SUCCEEDED, 0)
    assert [*keep(c, 20)][:5] == [c.job(job).spec.name for job in mine]
    assert c.job("a1").children.succeeded == 150


def test_a_restored_state_forgets_the_same_jobs(c):
    for n in range(30):
        ended(c, f"job-{n}", tenant=f"tenant-{n % 7}")
    twin = Cluster()
    twin.state = restore(c.state.freeze())
    assert keep(c, 11) == keep(twin, 11)
    assert c.state.digest() == twin.state.digest()


def test_the_older_of_two_jobs_of_one_name_is_found_when_the_newer_is_forgotten(c):
    ended(c, "same", tenant="small")
    c.submit(spec("same", group(cpus=0), tenant="large"), "newer")
    c.cancel("newer")
    for n in range(5):
        ended(c, f"job-{n}", tenant="large")
    keep(c, 5)
    assert c.state.find_job("same").spec.tenant == "small"


@pytest.fixture
def _few(monkeypatch):
    monkeypatch.setattr(retention, "MAX_TENANTS", 4)
    monkeypatch.setattr(retention, "MAX_FORGOTTEN_AT_ONCE", 2)


@pytest.mark.usefixtures("_few")
def test_idle_tenants_make_room_for_new_ones_and_those_with_a_job_or_a_quota_stay(c):
    """After 10,000 names every new one was refused, for ever."""
    c.submit(spec("live", group(cpus=0), tenant="busy"))
    c.accept(SetQuotas(quotas=(Quota(tenant="planned", max_running_jobs=1),)))
    ended(c, "gone", tenant="planned")
    ended(c, "kept", tenant="idle-1")
    ended(c, "dropped", tenant="idle-2")
    c.state.drop_job("id-dropped")
    assert len(c.state.tenants) == 4
    c.submit(spec("new", group(cpus=0), tenant="new"))
    assert sorted(c.state.tenants) == ["busy", "new", "planned"]
    assert "id-kept" not in c.state.jobs


@pytest.mark.usefixtures("_few")
def test_no_end_of_names_is_refused(c):
    for n in range(50):
        ended(c, f"job-{n}", tenant=f"tenant-{n}")
    assert len(c.state.tenants) <= 4


@pytest.mark.usefixtures("_few")
def test_a_cluster_full_of_live_tenants_refuses_a_new_one(c):
    for n in range(4):
        c.submit(spec(f"job-{n}", group(cpus=0), tenant=f"tenant-{n}"))
    detail = c.reject(SubmitJob(job_id="x", spec=spec("more", tenant="more")), Code.EXHAUSTED)
    assert detail == "the cluster holds 4 tenants with live jobs or quotas, its limit: try again when some are gone"


def test_accounts_that_have_decayed_make_room_for_new_ones(c, monkeypatch):
    monkeypatch.setattr(retention, "MAX_ACCOUNTS", 2)
    c.accept(SetQueues(queues=(Queue(path="default", half_life_ms=MINUTE_MS),)))
    for tenant in ("a", "b"):
        job = c.submit(spec(f"of-{tenant}", group(), tenant=tenant))
        c.place(job, "n1")
        c.report(job, 0, TaskState.SUCCEEDED, 0)
    detail = c.reject(SubmitJob(job_id="x", spec=spec("of-c", tenant="c")), Code.EXHAUSTED)
    assert detail.startswith("the cluster accounts for 2 tenants in queues, its limit")
    c.accept(Noop(), at_ms=c.state.clock_ms + 20 * MINUTE_MS)
    c.submit(spec("of-c", group(), tenant="c"))
    assert c.state.accounts == {}


def test_a_dead_node_is_removed_and_a_living_one_is_not(c):
    assert "stop its agent" in c.reject(RemoveNode(node_id="n1"), Code.CONFLICT)
    assert "no node" in c.reject(RemoveNode(node_id="n9"), Code.NOT_FOUND)
    c.die("n1")
    window = Window(name="w", start_ms=HOUR_MS, nodes=("n1",))
    c.accept(SetWindow(window=window))
    assert "the window w" in c.reject(RemoveNode(node_id="n1"), Code.CONFLICT)
    c.accept(DropWindow(name="w"))
    assert c.accept(RemoveNode(node_id="n1")).subject == "n1"
    assert c.events == (NodeChanged(node_id="n1", before=4, after=0),)
    assert (c.state.nodes, c.state.usage, c.state.node_allocations) == ({}, {}, {})
    c.node("n1")
    assert c.state.nodes["n1"].registered_at_ms == c.state.clock_ms


def test_what_is_reserved_on_a_removed_node_is_not_any_more(c):
    c.submit(spec("job", group()), "j1")
    c.die("n1")
    share = Share(group="worker", node_id="n1", count=1)
    promise = Reservation(job_id="j1", attempt=1, start_ms=HOUR_MS, shares=(share,), made_at_ms=1)
    c.state.put_reservation(promise)
    c.accept(RemoveNode(node_id="n1"))
    assert c.state.reservations == {}


def test_nodes_that_died_first_make_room_for_new_ones(c, monkeypatch):
    monkeypatch.setattr(nodes, "MAX_NODES", 3)
    monkeypatch.setattr(retention, "MAX_FORGOTTEN_AT_ONCE", 1)
    for node in ("n2", "n3"):
        c.node(node)
    assert "3 nodes, its limit" in c.reject(registration("n4"), Code.EXHAUSTED)
    c.die("n2")
    c.die("n1")
    c.node("n4")
    assert sorted(c.state.nodes) == ["n1", "n3", "n4"]
    c.node("n5")
    assert sorted(c.state.nodes) == ["n3", "n4", "n5"]
