"""Names of jobs: each tenant has its own."""

from __future__ import annotations

import pytest

from gosched.core.commands.jobs import Action, CancelJob, ControlJob, RunSchedule, SubmitJob
from gosched.core.features import FeatureLevel
from gosched.core.invariants.check_state import check
from gosched.core.outcome import Code
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import JobSpec
from tests.state_machine.cluster import Cluster, group, spec


def of(tenant: str, name: str = "nightly", **more: object) -> JobSpec:
    return spec(name, group(count=1), tenant=tenant, **more)


def after(job: str) -> tuple[Dependency, ...]:
    return (Dependency(job=job, condition=Condition.SUCCESS),)


def test_live_jobs_of_two_tenants_may_have_one_name():
    c = Cluster()
    c.submit(of("a"), "a1")
    assert c.accept(SubmitJob(job_id="b1", spec=of("b", priority=3))).subject == "b1"
    assert c.accept(SubmitJob(job_id="a2", spec=of("a"))).subject == "a1", "of one tenant it is met, as before"
    assert "is live with another spec" in c.reject(
        SubmitJob(job_id="a2", spec=of("a", priority=3)), Code.ALREADY_EXISTS
    )
    assert not check(c.state)


def test_a_name_is_followed_by_the_newest_of_its_tenant_whatever_is_forgotten():
    c = Cluster()
    for number in range(3):
        for tenant in ("a", "b", "d"):
            c.submit(of(tenant), f"{tenant}{number}")
            c.cancel(f"{tenant}/nightly")
    for gone in ("a2", "a1", "b0", "d2", "d1", "d0", "a0"):
        c.state.drop_job(gone)
        assert not check(c.state)
    assert c.state.names.id_of("b", "nightly") == "b2"
    assert [*c.state.names.namesakes("b", "nightly")] == ["b2", "b1"]
    assert c.state.jobs_named("a/nightly") == []


def test_a_dependency_is_a_job_of_the_same_tenant_unless_it_names_another_one():
    c = Cluster()
    c.submit(of("b"), "b1")
    detail = c.reject(SubmitJob(job_id="a1", spec=of("a", "report", after=after("nightly"))), Code.INVALID)
    assert "there is no such job: submit it first; a name without a tenant is one of a" in detail
    c.submit(of("a"), "a2")
    for job_id, name, wanted in (("a3", "own", "nightly"), ("a4", "others", "b/nightly"), ("a5", "by-id", "b1")):
        c.submit(of("a", name, after=after(wanted)), job_id)
        assert [one.job for one in c.job(job_id).waits_for] == ["a2" if wanted == "nightly" else "b1"]
    itself = of("a", "x", after=after("a/x"))
    assert "names the job itself" in c.reject(SubmitJob(job_id="a6", spec=itself), Code.INVALID)


@pytest.mark.parametrize("wanted", ["b/nightly", "b1", "ended"])
def test_a_job_that_the_submitter_does_not_see_counts_as_not_there(wanted):
    c = Cluster()
    c.submit(of("b"), "b1")
    c.submit(of("b", "ended"), "b2")
    c.cancel("b2")
    absent = c.reject(SubmitJob(job_id="a1", spec=of("a", "x", after=after(wanted + "0"))), Code.INVALID)
    unseen = SubmitJob(job_id="a1", spec=of("a", "x", after=after(wanted)), unseen=(wanted,))
    assert c.reject(unseen, Code.INVALID) == absent.replace(wanted + "0", wanted)


def test_a_plain_name_of_several_live_jobs_is_refused_and_the_full_ones_are_named():
    c = Cluster()
    c.submit(of("a"), "a1")
    c.submit(of("b"), "b1")
    for body in (CancelJob(job_id="nightly"), ControlJob(job_id="nightly", action=Action.HOLD)):
        said = c.reject(body, Code.INVALID)
        assert said == "2 live jobs are named nightly: say which one, a/nightly or b/nightly"
    assert c.accept(CancelJob(job_id="b/nightly")).subject == "b1"
    assert c.accept(ControlJob(job_id="nightly", action=Action.HOLD)).subject == "a1", "one of them lives"
    c.cancel("a1")
    assert c.accept(CancelJob(job_id="nightly")).subject == "b1", "the newest, as none lives"


def test_arrays_and_schedules_give_their_children_names_among_their_tenants():
    c = Cluster()
    c.submit(of("b", "many.0"), "b1")
    c.submit(of("b", "cron.1"), "b2")
    c.submit(of("a", "many", array=Array(last=1, step=1)), "a1")
    assert [c.job(f"a1.{number}").spec.name for number in (0, 1)] == ["many.0", "many.1"]
    assert "is kept for a job that many makes" in c.reject(SubmitJob(job_id="x", spec=of("a", "many.7")), Code.CONFLICT)
    c.submit(of("b", "many.7"), "b3")
    schedule = of("a", "cron", cron="* * * * *", timezone="UTC")
    c.accept(SubmitJob(job_id="a2", spec=schedule, next_run_at_ms=60_000))
    c.accept(RunSchedule(job_id="a2", child_id="a3", due_at_ms=60_000, next_run_at_ms=120_000), at_ms=60_000)
    assert c.job("a3").spec.name == "cron.1"


def test_a_line_about_a_job_names_one_of_another_tenant_with_its_id():
    c = Cluster()
    c.submit(of("b"), "b1")
    c.submit(of("a"), "a1")
    for number, wanted in enumerate(("nightly", "b/nightly")):
        c.submit(of("a", f"x{number}", after=after(wanted)), f"x{number}")
    c.cancel("a1")
    c.cancel("b1")
    assert c.job("x0").detail == "nightly ended CANCELLED (CANCELLED)"
    assert c.job("x1").detail == "b/nightly (b1) ended CANCELLED (CANCELLED)"


def test_below_the_level_names_are_all_tenants_together():
    c = Cluster()
    c.state.raise_level(FeatureLevel.FIRST)
    c.submit(of("a"), "a1")
    assert "is live with another spec" in c.reject(SubmitJob(job_id="b1", spec=of("b")), Code.ALREADY_EXISTS)
    c.submit(of("b", "x", after=after("nightly")), "b1")
    assert c.job("b1").waits_for[0].job == "a1"
    assert "may hold only letters" in c.reject(
        SubmitJob(job_id="b2", spec=of("b", "y", after=after("a/x"))), Code.INVALID
    )
    c.reject(CancelJob(job_id="a/nightly"), Code.NOT_FOUND)
    c.reject(SubmitJob(job_id="b2", spec=of("b", "y"), unseen=("nightly",)), Code.INVALID)
