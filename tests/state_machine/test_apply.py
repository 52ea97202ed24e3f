"""Repeats, the clock, revisions, and what happens when a handler has a bug."""

from dataclasses import replace

import pytest

from gosched.core.commands.cluster import Noop, OpenEpoch
from gosched.core.commands.jobs import CancelJob, SubmitJob
from gosched.core.events import JobChanged
from gosched.core.features import FeatureLevel
from gosched.core.limits import FEW_ANSWERS_PER_CLIENT, MAX_CLIENTS_REMEMBERED
from gosched.core.outcome import Accepted, Code, Rejected
from gosched.core.records.job import JobState
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.state.cluster_state import ClusterState
from tests.state_machine.cluster import MASTER, Cluster, spec


def test_a_repeat_gets_the_first_answer_and_changes_nothing_else():
    c = Cluster()
    first = c.do(SubmitJob(job_id="j1", spec=spec()), client="me", request="r1")
    assert c.do(SubmitJob(job_id="j2", spec=spec()), client="me", request="r1") == first == Accepted(subject="j1")
    assert c.events == ()
    assert list(c.state.jobs) == ["j1"]
    assert c.do(CancelJob(job_id="j1"), client="you", request="r1") == Accepted(subject="j1")


def test_a_refusal_is_repeated_too_even_when_it_would_succeed_now():
    c = Cluster()
    first = c.do(CancelJob(job_id="j1"), client="me", request="r1")
    c.submit(spec(), "j1")
    assert c.do(CancelJob(job_id="j1"), client="me", request="r1") == first
    assert isinstance(first, Rejected)


def test_a_stale_epoch_is_not_remembered_since_the_next_leader_may_ask_again():
    c = Cluster()
    body = SubmitJob(job_id="j1", spec=spec())
    refused = c.do(body, client="me", request="r1", epoch=7)
    assert isinstance(refused, Rejected)
    assert refused.code is Code.STALE_EPOCH
    c.accept(OpenEpoch(leader=MASTER))
    assert c.do(body, client="me", request="r1", epoch=1) == Accepted(subject="j1")


@pytest.mark.parametrize(("client", "request_id"), [("a\0b", "r"), ("a", "r\n"), ("x" * 254, "r"), ("a", "r" * 254)])
def test_ids_that_cannot_be_kept_are_refused_and_not_remembered(client, request_id):
    c = Cluster()
    outcome = c.do(Noop(), client=client, request=request_id)
    assert isinstance(outcome, Rejected)
    assert outcome.code is Code.INVALID
    assert c.state.answered == {}


def test_below_level_5_the_oldest_answers_and_clients_are_forgotten():
    state = ClusterState(feature_level=FeatureLevel.FIRST)
    c = Cluster.__new__(Cluster)
    c.state, c.log, c.events = state, [], ()
    for n in range(FEW_ANSWERS_PER_CLIENT + 1):
        c.do(Noop(), client="busy", request=f"r{n}")
    assert len(state.answers["busy"]) == FEW_ANSWERS_PER_CLIENT
    assert state.answer_to("busy", "r0") is None
    for n in range(MAX_CLIENTS_REMEMBERED):
        c.do(Noop(), client=f"c{n}", request="r")
    assert len(state.answers) == MAX_CLIENTS_REMEMBERED
    assert "busy" not in state.answers


def test_the_clock_never_goes_back_and_each_command_is_a_revision():
    c = Cluster()
    c.do(Noop(), at_ms=1000)
    c.do(Noop(), at_ms=10)
    assert (c.state.clock_ms, c.state.revision) == (1000, 3)


def test_what_comes_of_a_command_is_done_in_the_same_step():
    """A job ends, the array that waited for it starts, and what waited for its failure can never start."""
    c = Cluster()
    c.submit(spec("etl"), "e1")
    on_end = Dependency(job="etl", condition=Condition.ANY)
    c.submit(spec("array", array=Array(last=1, step=1), after=(on_end,)), "a1")
    c.submit(spec("report", after=(replace(on_end, condition=Condition.SUCCESS),)), "r1")
    c.submit(spec("mail", after=(Dependency(job="report", condition=Condition.SUCCESS),)), "m1")
    c.cancel("etl")
    changed = sorted(event.job_id for event in c.events if isinstance(event, JobChanged))
    assert changed == ["a1", "a1.0", "a1.1", "e1", "m1", "r1"]
    assert c.job("m1").state is JobState.CANCELLED
