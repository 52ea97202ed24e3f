"""Freezing, restoring and digesting the state."""

from dataclasses import replace

from gosched.core.commands.cluster import AnnounceMaster, Noop
from gosched.core.commands.command import Command
from gosched.core.commands.jobs import DropFinishedJobs
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_MASTERS
from gosched.core.outcome import Answer
from gosched.core.records.master import Master
from gosched.core.records.task import TaskState
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.restore import restore
from gosched.state_machine import answers, apply
from tests.state_machine.cluster import Cluster, retrying, spec


def busy() -> Cluster:
    """Jobs in each phase, ends at the same millisecond in an order other than that of submission, answers, masters."""
    c = Cluster()
    c.node("n1", cpus=8)
    c.node("n2")
    for name in "abcdef":
        c.submit(retrying(name) if name == "a" else spec(name), name)
    c.place("a", "n1")
    c.place("b", "n1", "n2")
    c.run_all("a")
    c.report("a", 0, TaskState.FAILED, 1)
    c.report("a", 1, TaskState.KILLED)
    for name in "edc":
        c.state.clock_ms = 999
        c.cancel(name)
    for n in range(3):
        c.do(Noop(), client=f"c{n}", request="r")
    c.do(Noop(), client="c0", request="r2")
    for n in (1, 0, 1):
        c.accept(AnnounceMaster(master=Master(id=f"m{n}", grpc_address="a:1", http_address="a:2")))
    return c


def test_a_restored_state_has_the_same_digest_and_indexes():
    state = busy().state
    twin = restore(state.freeze())
    assert twin.digest() == state.digest()
    assert twin.usage == state.usage
    assert twin.node_allocations == state.node_allocations
    assert twin.pending == state.pending
    assert twin.names.newest == state.names.newest
    assert [*twin.jobs] == [*state.jobs]
    assert [*twin.masters] == [*state.masters] == ["m0", "m1"]
    assert [*twin.answered] == [*state.answered] != []
    assert [j.id for j in twin.finished_oldest_first()] == [j.id for j in state.finished_oldest_first()]


def test_jobs_that_ended_together_are_dropped_in_the_same_order_on_a_restored_state():
    state = busy().state
    for job in "edc":
        state.put_job(replace(state.jobs[job], ended_at_ms=1000))
    assert [*state.finished] == ["e", "d", "c"]
    twin = restore(state.freeze())
    for keep, left in ((2, "de"), (1, "e"), (0, "")):
        for s in (state, twin):
            apply(s, Command(body=DropFinishedJobs(keep=keep, ended_before_ms=0)))
            assert sorted(s.finished) == list(left)
        assert state.digest() == twin.digest()


def test_the_same_answers_and_masters_are_forgotten_on_a_restored_state(monkeypatch):
    monkeypatch.setattr(answers, "FEW_ANSWERS_PER_CLIENT", 4)
    monkeypatch.setattr(answers, "MAX_CLIENTS_REMEMBERED", 4)
    state = busy().state
    state.feature_level = FeatureLevel.FIRST
    for client, request in (("c0", "r"), ("c1", "r"), ("c2", "r"), ("c0", "r2")):
        answers.keep(state, Answer(client_id=client, request_id=request))
    twin = restore(state.freeze())
    assert [*twin.answers] == [*state.answers] == ["c1", "c2", "c0"]
    for s in (state, twin):
        for n in range(3):
            answers.keep(s, Answer(client_id="c0", request_id=f"x{n}"))
        for n in range(2):
            answers.keep(s, Answer(client_id=f"x{n}", request_id="r"))
        for n in range(MAX_MASTERS - 1):
            s.put_master(Master(id=f"x{n}", grpc_address="", http_address=""))
        assert [*s.answers["c0"]] == ["r2", "x0", "x1", "x2"]
        assert "c1" not in s.answers
        assert "c2" in s.answers
        assert "m0" not in s.masters
        assert "m1" in s.masters
    assert state.digest() == twin.digest()


def test_a_frozen_state_does_not_follow_the_state():
    c = busy()
    frozen = c.state.freeze()
    before = restore(frozen).digest()
    c.cancel("f")
    c.do(Noop(), client="c1", request="new")
    assert restore(frozen).digest() == before


def test_the_digest_follows_any_change_and_returns_with_the_state():
    state = busy().state
    task = state.tasks["b/worker/0"]
    digests = [state.digest()]
    for reason in ("x", "y", task.reason):
        state.put_task(replace(task, reason=reason))
        digests.append(state.digest())
    assert len({*digests}) == 3
    assert digests[0] == digests[-1]


def test_the_digest_does_not_depend_on_the_order_of_arrival():
    one, other = ClusterState(), ClusterState()
    answers = [Answer(client_id=c, request_id=r) for c in "ab" for r in "xy"]
    for answer in answers:
        one.put_answer(answer)
    for answer in reversed(answers):
        other.put_answer(answer)
    assert one.digest() == other.digest()


def test_the_digest_tells_places_values_and_types_apart():
    digests = []
    for answer in (
        Answer(client_id="ab", request_id="c"),
        Answer(client_id="a", request_id="bc"),
        Answer(client_id="a", request_id="bc", detail="1"),
        Answer(client_id="a", request_id="bc", subject="1"),
    ):
        state = ClusterState()
        state.put_answer(answer)
        digests.append(state.digest())
    assert len({*digests}) == len(digests)
