"""Bounds in bytes: what is refused with what advice, what is dropped, and whose."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from random import Random

import pytest

from gosched.core.commands.cluster import SetQueues, SetQuotas, SetWindow
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.events import JobChanged
from gosched.core.features import FeatureLevel
from gosched.core.invariants.check_state import check
from gosched.core.limits import MAX_DETAIL_LENGTH, MAX_GROUPS_PER_JOB, MAX_NAME_LENGTH
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.primitives import StringMap
from gosched.core.records.job import JobState
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.task import TaskState
from gosched.core.records.tenant import Quota
from gosched.core.records.window import Window
from gosched.core.spec.array import Array
from gosched.core.spec.policies import GangPolicy
from gosched.core.state.cluster_state import ClusterState, restore
from gosched.state_machine import apply, size_limits
from tests.state_machine import chaos
from tests.state_machine.cluster import Cluster, group, registration, spec

MIB = 1 << 20


def environment(text: str) -> StringMap:
    """Of 100 kB that no other text has."""
    return (("TEXT", text.ljust(100_000, ".")),)


def large(name: str, tenant: str = "default") -> SubmitJob:
    return SubmitJob(job_id=name, spec=spec(name, group(env=environment(name)), tenant=tenant))


def bound_to(monkeypatch: pytest.MonkeyPatch, size: int, *, kept: int = 0) -> None:
    """`size`: of all but the jobs that have ended."""
    monkeypatch.setattr(size_limits, "MAX_STATE_BYTES", size + kept)
    monkeypatch.setattr(size_limits, "MAX_KEPT_BYTES", kept)


def at_first_level(c: Cluster) -> Cluster:
    c.state.raise_level(FeatureLevel.FIRST)
    return c


def test_a_job_is_refused_when_its_tenant_holds_as_much_as_is_left_and_accepted_once_jobs_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bound_to(monkeypatch, MIB, kept=120_000)
    c = Cluster()
    for name in "abcde":
        c.accept(large(name))
    detail = c.reject(large("f"), Code.EXHAUSTED)
    assert "tenant default" in detail
    assert detail.endswith("let jobs end, or keep environments and commands short")
    assert c.submit(spec("f", group(env=environment("a")))), "what is there already costs no more"
    c.cancel("b")
    c.cancel("c")
    c.accept(large("g"))


def test_one_tenant_cannot_take_the_room_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bound_to(monkeypatch, MIB)
    c = Cluster()
    held = Counter[str]()
    for tenant in ("first", "second", "third"):
        for number in range(20):
            if isinstance(c.do(large(f"{tenant}{number}", tenant)), Accepted):
                held[tenant] += 1
    assert held == {"first": 5, "second": 2, "third": 1}
    c.submit(spec("small", tenant="fourth"))


def test_an_array_waits_while_its_tenant_has_no_room_and_goes_on_when_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    c = Cluster()
    c.submit(spec("a", group(count=1), array=Array(last=99, step=1, parallelism=10)), "a")
    children = c.state.footprint.live
    assert c.job("a").children.live == 10
    bound_to(monkeypatch, 3 * children)
    c.submit(spec("b", group(count=1), array=Array(last=99, step=1, parallelism=10)), "b")
    assert 0 < c.job("b").children.live < 10
    assert "let jobs end" in c.job("b").detail
    c.cancel("a")
    bound_to(monkeypatch, 30 * children)
    c.cancel("b.0")
    assert c.job("b").children.live == 10
    assert c.job("b").detail == ""


def test_ended_jobs_are_dropped_when_they_take_too_much_the_oldest_of_those_who_have_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    c = Cluster()
    c.submit(spec("modest", tenant="modest"), "modest")
    c.cancel("modest")
    monkeypatch.setattr(size_limits, "MAX_KEPT_BYTES", 450_000)
    dropped = []
    for name in "abcdef":
        c.accept(large(name))
        c.cancel(name)
        dropped += [e.job_id for e in c.events if isinstance(e, JobChanged) and not e.after]
        assert restore(c.state.freeze()).digest() == c.state.digest()
    assert dropped == ["a", "b"]
    assert [*c.state.finished] == ["modest", "c", "d", "e", "f"]
    assert c.state.footprint.kept <= 450_000


def test_a_full_state_keeps_of_what_agents_report_the_outcome_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    c = Cluster()
    c.node()
    for name in "ab":
        c.submit(spec(name, group(count=1)), name)
        c.place(name, "n1")
    c.report("a", 0, TaskState.FAILED, 1, detail="x" * 2 * MAX_DETAIL_LENGTH)
    assert len(c.tasks("a")[0].detail) == MAX_DETAIL_LENGTH
    monkeypatch.setattr(size_limits, "MAX_STATE_BYTES", c.state.footprint.total)
    c.report("b", 0, TaskState.FAILED, 2, detail="x" * 2 * MAX_DETAIL_LENGTH)
    assert c.tasks("b")[0].detail == ""
    assert c.job("b").detail == "task worker/0: exit code 2"


def test_a_reservation_that_comes_with_a_submission_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    c = Cluster()
    c.node()
    wanted = spec("a", group(count=1))
    needed = c.state.footprint.needed("a", wanted)
    bound_to(monkeypatch, c.state.footprint.total + 2 * needed)
    promise = Reservation(
        job_id="a", attempt=1, start_ms=9, shares=(Share(group="worker", node_id="n1", count=1),), made_at_ms=1
    )
    c.reject(SubmitJob(job_id="a", spec=wanted, reservation=(promise,)), Code.EXHAUSTED)
    c.accept(SubmitJob(job_id="a", spec=wanted))


def test_a_job_that_ends_now_is_not_dropped_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_limits, "MAX_KEPT_BYTES", 1)
    c = Cluster()
    c.accept(large("a"))
    c.cancel("a")
    assert c.job("a").state is JobState.CANCELLED
    c.accept(large("b"))
    assert [*c.state.jobs] == ["b"]


def test_an_even_share_leaves_to_others_what_the_small_ones_do_not_need() -> None:
    assert size_limits._even_share([10, 100, 1000], 1110) == 1000
    assert size_limits._even_share([10, 100, 1000], 510) == 400
    assert size_limits._even_share([1000, 10, 1000], 110) == 50
    assert size_limits._even_share([], 5) == 0


def too_large() -> dict[str, Body]:
    """A command of each kind that fills a table; its text says why it is refused."""
    labels = tuple((f"label{n:05}", "x" * 200) for n in range(400))
    tenants = tuple(f"{n:03}".ljust(MAX_NAME_LENGTH, "x") for n in range(900))
    vector = tuple((f"r{n:03}".ljust(MAX_NAME_LENGTH, "x"), 1) for n in range(900))
    return {
        "fewer labels": registration("n2", labels=labels),
        "name fewer tenants": SetQueues(queues=tuple(Queue(path=f"q{n}", tenants=tenants) for n in range(80))),
        "name fewer resources": SetQuotas(quotas=tuple(Quota(tenant=f"t{n}", limit=vector) for n in range(80))),
    }


@pytest.mark.parametrize("advice", [*too_large()])
def test_a_table_that_would_take_too_much_is_refused_at_the_new_level_alone(advice: str) -> None:
    body = too_large()[advice]
    c = Cluster()
    outcome = c.do(body)
    assert isinstance(outcome, Rejected)
    assert advice in outcome.detail
    assert isinstance(at_first_level(Cluster()).do(body), Accepted)


def test_windows_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_limits, "MAX_WINDOWS_BYTES", 1000)
    c = Cluster()
    c.node()
    wide = {f"w{n}": Window(name=f"w{n}", start_ms=10**6, nodes=("n1",), reason="x" * 400) for n in range(3)}
    c.accept(SetWindow(window=wide["w0"]))
    c.accept(SetWindow(window=wide["w1"]))
    assert "delete one" in c.reject(SetWindow(window=wide["w2"]), Code.EXHAUSTED)
    c.accept(SetWindow(window=Window(name="w1", start_ms=10**6, nodes=("n1",), reason="short")))
    c.accept(SetWindow(window=wide["w2"]))


def test_nodes_are_bounded_together_but_one_that_shrinks_may(monkeypatch: pytest.MonkeyPatch) -> None:
    c = Cluster()
    c.node("n1", labels=(("a", "x" * 200),))
    monkeypatch.setattr(size_limits, "MAX_NODES_BYTES", 300)
    assert "fewer labels" in c.reject(registration("n2", labels=(("a", "x" * 200),)), Code.EXHAUSTED)
    assert "fewer labels" in c.reject(registration("n1", labels=(("a", "x" * 250),)), Code.EXHAUSTED)
    c.node("n1", boot="b2")


def test_a_long_refusal_is_cut_and_its_repeat_gets_the_same() -> None:
    """It is remembered a million times over."""
    names = [f"{n:02}".ljust(MAX_NAME_LENGTH, "x") for n in range(MAX_GROUPS_PER_JOB)]
    gang = GangPolicy(min_tasks=len(names), ends_with="nobody")
    body = SubmitJob(job_id="j", spec=spec("j", *[group(name) for name in names], gang=gang))
    c = Cluster()
    first = c.do(body, client="c", request="r")
    assert isinstance(first, Rejected)
    assert len(first.detail) == MAX_DETAIL_LENGTH
    assert c.do(body, client="c", request="r") == first
    old = at_first_level(Cluster()).do(body, client="c", request="r")
    assert isinstance(old, Rejected)
    assert len(old.detail) > MAX_DETAIL_LENGTH


def test_small_bounds_hold_under_random_commands_and_a_restored_state_decides_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bound_to(monkeypatch, 17_000, kept=1_000)
    seen = Counter[str]()
    for seed in range(12):
        r, state = Random(seed), ClusterState()
        twin = ClusterState()
        for number, command in enumerate(chain(chaos.opening(), chaos.commands(r, state, 250))):
            _both(state, twin, command, seen)
            if number % 40 == 39:
                twin = restore(twin.freeze())
    assert seen["dropped"] > 10, "the bound on what is kept was met"
    assert seen["refused"] > 10, "the bound on the state was met"


def _both(state: ClusterState, twin: ClusterState, command: Command, seen: Counter[str]) -> None:
    kept = state.footprint.kept
    outcome, events = apply(state, command)
    assert apply(twin, command) == (outcome, events)
    assert check(state) == []
    assert twin.footprint.total == state.footprint.total
    seen["refused"] += _is_refused_for_its_size(outcome)
    if any(isinstance(event, JobChanged) and not event.after for event in events):
        seen["dropped"] += kept > 1_000


def _is_refused_for_its_size(outcome: Outcome) -> bool:
    return isinstance(outcome, Rejected) and "as it leaves" in outcome.detail
