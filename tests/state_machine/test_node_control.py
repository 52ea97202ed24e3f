"""Nodes are closed and opened: by people, by their agents, by their failures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.cluster import PassTime
from gosched.core.commands.nodes import ControlNode, NodeAction, ReportTasks, TaskReport
from gosched.core.events import FenceChanged, NodeChanged
from gosched.core.outcome import Code
from gosched.core.records.job import JobIntent, JobState
from gosched.core.records.node import ClosedBy, Hardware, NodeState
from gosched.core.records.task import TaskState
from gosched.core.spec.array import Array
from gosched.core.state.cluster_state import restore
from gosched.state_machine import node_control
from tests.state_machine.cluster import Cluster, gang, group, registration, retrying, spec
from tests.state_machine.test_evictions import evict, forced, high, low

T, N = TaskState, NodeState
CORDON, UNCORDON, DRAIN = NodeAction.CORDON, NodeAction.UNCORDON, NodeAction.DRAIN
OPERATOR, AGENT, FAILURES, NOBODY = ClosedBy.OPERATOR, ClosedBy.AGENT, ClosedBy.FAILURES, ClosedBy.UNSPECIFIED


@pytest.fixture
def c() -> Cluster:
    made = Cluster()
    for node in ("n1", "n2"):
        made.node(node)
    return made


def turn(c: Cluster, action: NodeAction, by: ClosedBy = OPERATOR, reason: str = "", *, to: str = "n1", until: int = 0):
    return c.accept(ControlNode(node_id=to, action=action, by=by, reason=reason, drain_by_ms=until))


def seen(c: Cluster, node: str = "n1") -> tuple[NodeState, ClosedBy, str]:
    record = c.state.nodes[node]
    return record.state, record.closed_by, record.reason


def close(c: Cluster, by: ClosedBy) -> None:
    """By whom ever it is, n1 is closed."""
    if by is FAILURES:
        c.state.put_node(replace(c.state.nodes["n1"], state=N.CORDONED, closed_by=FAILURES, reason="x"))
    elif by:
        turn(c, CORDON, by, "x")


def test_a_cordoned_node_takes_no_task_until_it_is_opened_and_what_runs_there_goes_on(c):
    c.submit(spec("old"), "old")
    c.place("old", "n1")
    turn(c, CORDON, reason="new disk")
    assert c.events == (NodeChanged(node_id="n1", before=N.READY, after=N.CORDONED, reason="new disk"),)
    assert (seen(c), c.job("old").intent) == ((N.CORDONED, OPERATOR, "new disk"), JobIntent.RUN)
    c.submit(spec(), "j1")
    assert c.refused(gang(c.job("j1"), "n1")) == "node n1 is CORDONED"
    turn(c, UNCORDON)
    assert seen(c) == (N.READY, NOBODY, "")
    c.place("j1", "n1")


@pytest.mark.parametrize("action", [CORDON, UNCORDON, DRAIN])
def test_a_repeat_changes_nothing(c, action):
    c.submit(spec(), "j1")
    c.place("j1", "n1")
    turn(c, action, reason="x")
    assert turn(c, action, reason="x").unchanged
    assert c.events == ()


def test_who_closes_a_node_again_and_gives_no_reason_leaves_the_one_that_was_given(c):
    c.submit(spec(), "j1")
    c.place("j1", "n1")
    turn(c, CORDON, reason="firmware")
    turn(c, DRAIN, until=9_000)
    assert (seen(c), c.state.nodes["n1"].drain_by_ms) == ((N.DRAINING, OPERATOR, "firmware"), 9_000)
    turn(c, DRAIN, reason="fire")
    assert seen(c)[2] == "fire"
    turn(c, DRAIN, to="n2", reason="disk")
    assert seen(c, "n2") == (N.CORDONED, OPERATOR, "drained: disk")
    turn(c, DRAIN, to="n2")
    assert seen(c, "n2")[2] == "drained: disk"
    turn(c, UNCORDON, to="n2")
    for _ in range(2):
        turn(c, DRAIN, to="n2")
        assert seen(c, "n2")[2] == "drained"


@pytest.mark.parametrize(
    ("closed_by", "by", "after_cordon", "may_open"),
    [
        (NOBODY, AGENT, AGENT, True),
        (AGENT, AGENT, AGENT, True),
        (OPERATOR, AGENT, OPERATOR, False),
        (FAILURES, AGENT, FAILURES, False),
        (AGENT, OPERATOR, OPERATOR, True),
        (FAILURES, OPERATOR, OPERATOR, True),
    ],
)
def test_who_may_close_and_open_what_another_has_closed(c, closed_by, by, after_cordon, may_open):
    close(c, closed_by)
    turn(c, CORDON, by, "y")
    assert c.state.nodes["n1"].closed_by is after_cordon
    if may_open:
        turn(c, UNCORDON, by)
        assert c.state.nodes["n1"].state is N.READY
    else:
        for action in (UNCORDON, DRAIN):
            why = c.reject(ControlNode(node_id="n1", action=action, by=by), Code.CONFLICT)
            assert "only an operator may change that" in why


@pytest.mark.parametrize(
    ("wrong", "code", "why"),
    [
        ({"node_id": "n9"}, Code.NOT_FOUND, "no node 'n9'"),
        ({"node_id": "twin"}, Code.CONFLICT, "2 nodes are named 'twin': give an id, such as t1, t2"),
        ({"action": NodeAction.UNSPECIFIED}, Code.INVALID, "cordon, uncordon or drain"),
        ({"by": NOBODY}, Code.INVALID, "by an operator or by its agent"),
        ({"by": FAILURES}, Code.INVALID, "by an operator or by its agent"),
        ({"reason": "a\nb"}, Code.INVALID, "one line"),
        ({"reason": "a" * 1025}, Code.INVALID, "one line"),
        ({"drain_by_ms": 9}, Code.INVALID, "only a drain"),
        ({"action": DRAIN, "drain_by_ms": -1}, Code.INVALID, "1970"),
    ],
)
def test_what_makes_no_sense_is_refused(c, wrong, code, why):
    for node in ("t1", "t2"):
        c.node(node, name="twin")
    good = ControlNode(node_id="n1", action=CORDON, by=OPERATOR)
    assert why in c.reject(replace(good, **wrong), code)


def test_a_node_may_be_named_by_a_name_that_it_alone_has(c):
    c.node("n3", name="host3")
    assert turn(c, CORDON, to="host3").subject == "n3"


def test_a_drained_node_sends_away_who_can_start_elsewhere_and_is_cordoned_once_it_is_empty(c):
    c.submit(retrying("again"), "again")
    c.submit(spec("stays", group()), "stays")
    c.place("again", "n1", "n2")
    c.place("stays", "n1")
    turn(c, DRAIN, reason="firmware")
    assert seen(c) == (N.DRAINING, OPERATOR, "firmware")
    assert (c.task_states("again"), c.task_states("stays")) == ([T.STOPPING] * 2, [T.PLACED])
    assert (c.job("again").reason, c.job("again").detail) == ("DRAINED", "node n1 is drained")
    for rank in (0, 1):
        c.report("again", rank, T.KILLED)
    job = c.job("again")
    assert (job.state, job.attempt, job.restarts, job.preemptions) == (JobState.PENDING, 2, 0, 1)
    assert c.refused(gang(job, "n1", "n2")) == "node n1 is DRAINING"
    c.report("stays", 0, T.SUCCEEDED, 0)
    assert NodeChanged(node_id="n1", before=N.DRAINING, after=N.CORDONED, reason="drained: firmware") in c.events
    assert (c.job("stays").state, seen(c)) == (JobState.SUCCEEDED, (N.CORDONED, OPERATOR, "drained: firmware"))


def test_an_empty_node_is_drained_at_once(c):
    turn(c, DRAIN, until=c.state.clock_ms + 100)
    assert (seen(c), c.state.timers.next_ms()) == ((N.CORDONED, OPERATOR, "drained"), 0)
    assert turn(c, DRAIN).unchanged


def test_at_the_end_of_a_drain_what_is_still_there_is_stopped(c):
    c.submit(spec(), "j1")
    c.place("j1", "n1", "n2")
    until = c.state.clock_ms + 100
    turn(c, DRAIN, until=until)
    assert (c.job("j1").intent, c.state.timers.next_ms()) == (JobIntent.RUN, until)
    assert restore(c.state.freeze()).timers.next_ms() == until
    assert c.accept(PassTime(), at_ms=until - 1).unchanged
    c.accept(PassTime(), at_ms=until)
    assert (c.task_states("j1"), c.job("j1").intent) == ([T.STOPPING] * 2, JobIntent.FAIL)
    assert (c.state.timers.next_ms(), seen(c)[0]) == (0, N.DRAINING)
    for rank in (0, 1):
        c.report("j1", rank, T.KILLED)
    job = c.job("j1")
    assert (job.state, job.reason, job.detail) == (JobState.FAILED, "DRAINED", "node n1 was to be empty by now")
    assert seen(c) == (N.CORDONED, OPERATOR, "drained")


@pytest.mark.parametrize("action", [CORDON, UNCORDON])
def test_a_drain_that_is_called_off_stops_nobody(c, action):
    c.submit(spec(), "j1")
    c.place("j1", "n1")
    turn(c, DRAIN, until=c.state.clock_ms + 100)
    turn(c, action)
    assert (c.state.timers.next_ms(), c.state.nodes["n1"].drain_by_ms) == (0, 0)
    assert c.state.nodes["n1"].state is (N.CORDONED if action is CORDON else N.READY)


def test_a_gang_sends_its_spare_tasks_away_from_a_drained_node_and_runs_on(c):
    c.submit(spec("grow", group(count=3, min_count=1)), "j1")
    c.place("j1", "n2", "n1", "n1")
    turn(c, DRAIN)
    assert (c.task_states("j1"), c.job("j1").intent) == ([T.PLACED, T.STOPPING, T.STOPPING], JobIntent.RUN)
    assert turn(c, DRAIN).unchanged
    for rank in (1, 2):
        c.report("j1", rank, T.KILLED)
    assert (c.task_states("j1"), c.job("j1").unplaced) == ([T.PLACED, T.PENDING, T.PENDING], 2)
    assert (c.tasks("j1")[1].moves, seen(c)[0]) == (1, N.CORDONED)
    assert c.plan(gang(c.job("j1"), "n2", "n2", ranks=(1, 2))) == ()


@pytest.mark.parametrize("action", [CORDON, DRAIN])
def test_a_fence_on_a_node_that_closes_is_dropped_with_a_word(c, action):
    c.submit(low(), "v")
    c.place("v", "n1")
    c.submit(high(), "p")
    assert c.plan(forced(c, "p", evict(c.job("v")))) == ()
    turn(c, action)
    dropped = [e.why for e in c.events if isinstance(e, FenceChanged) and not e.made]
    assert dropped == [f"node n1 is {'CORDONED' if action is CORDON else 'DRAINING'}"]
    for rank in range(len(c.tasks("v"))):
        c.report("v", rank, T.KILLED)
    assert (c.state.fences, c.job("p").state, list(c.state.pending)) == ({}, JobState.PENDING, ["p", "v"])


@pytest.mark.parametrize("action", [CORDON, DRAIN])
def test_a_node_stays_closed_when_its_agent_starts_anew(c, action):
    c.submit(spec(), "j1")
    c.place("j1", "n1")
    turn(c, action, reason="x", until=7_000 if action is DRAIN else 0)
    before = c.state.nodes["n1"]
    c.node("n1", boot="b2")
    assert c.state.nodes["n1"] == replace(before, incarnation="b2", changed_at_ms=c.state.clock_ms)


@pytest.mark.parametrize(
    ("action", "by", "after"),
    [
        (CORDON, OPERATOR, (N.CORDONED, OPERATOR, "x")),
        (DRAIN, OPERATOR, (N.CORDONED, OPERATOR, "x")),
        (CORDON, AGENT, (N.READY, NOBODY, "")),
        (CORDON, FAILURES, (N.CORDONED, FAILURES, "x")),
    ],
)
def test_a_node_that_was_dead_comes_back_as_an_operator_or_its_failures_left_it(c, action, by, after):
    c.submit(spec(), "j1")
    c.place("j1", "n1")
    if action is DRAIN:
        turn(c, DRAIN, by, "x", until=9_000)
    else:
        close(c, by)
    c.die("n1")
    assert (c.state.nodes["n1"].state, c.state.timers.next_ms()) == (N.DEAD, 0)
    c.node("n1", boot="b2")
    assert seen(c) == after


def test_a_dead_node_is_what_it_was_made_meanwhile_once_it_is_back(c):
    c.die("n1")
    turn(c, CORDON, reason="burnt")
    assert seen(c) == (N.DEAD, OPERATOR, "burnt")
    c.node("n1", boot="b2")
    assert seen(c) == (N.CORDONED, OPERATOR, "burnt")
    c.die("n1", boot="b2")
    turn(c, UNCORDON)
    c.node("n1", boot="b3")
    assert seen(c) == (N.READY, NOBODY, "")


def fail(c: Cluster, name: str, *, blames: bool = True, state: TaskState = T.FAILED, **more: object) -> None:
    """One task on n1, which ends so."""
    c.submit(spec(name, group(), **more), name)
    c.place(name, "n1")
    c.report(name, 0, state, 0 if state is T.SUCCEEDED else 1, blames_node=blames, reason="SETUP_FAILED")


def test_a_node_that_fails_three_jobs_in_a_row_is_closed_until_an_operator_opens_it(c):
    for name in ("a", "b"):
        fail(c, name)
    assert (seen(c)[0], c.state.nodes["n1"].failing) == (N.READY, ("a", "b"))
    fail(c, "c")
    why = "tasks of 3 jobs failed here in a row, the last one with SETUP_FAILED"
    assert seen(c) == (N.CORDONED, FAILURES, why)
    assert NodeChanged(node_id="n1", before=N.READY, after=N.CORDONED, reason=why) in c.events
    c.reject(ControlNode(node_id="n1", action=UNCORDON, by=AGENT), Code.CONFLICT)
    turn(c, UNCORDON)
    assert (seen(c), c.state.nodes["n1"].failing) == ((N.READY, NOBODY, ""), ())


def test_a_success_a_job_of_its_own_fault_and_the_same_job_again_do_not_count(c):
    fail(c, "a")
    c.submit(retrying("b", group(), restarts=5), "b")
    for _ in range(3):
        c.place("b", "n1")
        c.report("b", 0, T.FAILED, 1, blames_node=True)
    fail(c, "own", blames=False)
    assert c.state.nodes["n1"].failing == ("a", "b")
    fail(c, "good", state=T.SUCCEEDED)
    assert c.state.nodes["n1"].failing == ()
    fail(c, "lost", state=T.LOST, blames=False)
    fail(c, "killed", state=T.KILLED)
    assert (c.state.nodes["n1"].failing, seen(c)[0]) == ((), N.READY)


def test_the_elements_of_an_array_count_as_one_job(c):
    c.submit(spec("sweep", group(), array=Array(last=3, step=1)), "a")
    for element in range(4):
        c.place(f"a.{element}", "n1")
        c.report(f"a.{element}", 0, T.FAILED, 1, blames_node=True)
    assert (c.state.nodes["n1"].failing, seen(c)[0]) == (("a",), N.READY)


def test_what_is_reported_together_counts_together(c):
    for name in ("a", "b", "c"):
        c.submit(spec(name, group()), name)
        c.place(name, "n1")
    reports = [
        TaskReport(allocation_id=f"{name}/worker/0.1", state=T.FAILED, exit_code=1, blames_node=True)
        for name in ("a", "b", "c")
    ]
    c.accept(ReportTasks(node_id="n1", incarnation="b1", reports=tuple(reports)))
    assert seen(c) == (N.CORDONED, FAILURES, "tasks of 3 jobs failed here in a row, the last one with FAILED")


def test_bad_gpus_take_no_task_and_a_task_on_one_that_turned_bad_goes_on(c):
    c.node("n3", gpus=2, gpu_model="h100")
    c.submit(spec("run", group(gpus=1)), "run")
    assert c.plan(gang(c.job("run"), "n3", gpus=((0,),))) == ()
    bad = registration("n3", gpus=2, gpu_model="h100", hardware=Hardware(bad_gpus=(0, 1)))
    c.accept(bad)
    assert c.task_states("run") == [T.PLACED]
    for name, millis in (("whole", 1000), ("part", 500)):
        part = group(gpus=1)
        part = replace(part, resources=replace(part.resources, gpu_millis=millis))
        c.submit(spec(name, part), name)
        assert c.refused(gang(c.job(name), "n3", gpus=((1,),))) == "GPU 1 of node n3 has errors"
    c.accept(replace(bad, hardware=Hardware(bad_gpus=(0,))))
    assert c.plan(gang(c.job("whole"), "n3", gpus=((1,),))) == ()


def test_bad_gpus_are_in_no_share_and_no_limit_of_a_queue(c):
    c.node("n3", gpus=2, gpu_model="h100")
    assert (c.state.total["gpu"], c.state.total["gpu:h100"]) == (2000, 2000)
    bad = registration("n3", gpus=2, gpu_model="h100", hardware=Hardware(bad_gpus=(0,)))
    c.accept(bad)
    assert (c.state.total["gpu"], c.state.total["gpu:h100"]) == (1000, 1000)
    c.accept(replace(bad, hardware=Hardware()))
    assert (c.state.total["gpu"], c.state.total["gpu:h100"]) == (2000, 2000)


@pytest.mark.parametrize("bad", [(2,), (-1,), (1, 0), (0, 0)])
def test_bad_gpus_are_gpus_of_the_node_in_order(c, bad):
    wrong = registration("n3", gpus=2, hardware=Hardware(bad_gpus=bad))
    assert "bad_gpus must be in order" in c.reject(wrong, Code.INVALID)


def test_a_node_says_what_it_cannot_enforce_in_one_line(c):
    c.node("n1", isolation="no memory limits")
    assert c.state.nodes["n1"].isolation == "no memory limits"
    assert "isolation" in c.reject(registration("n1", isolation="a\nb"), Code.INVALID)


def test_a_node_with_very_many_tasks_is_drained_by_several_commands(c, monkeypatch):
    monkeypatch.setattr(node_control, "MAX_LOST_AT_ONCE", 4)
    for n in range(5):
        tasks = group(count=2, cpus=0)
        c.submit(retrying(f"again-{n}", tasks) if n < 3 else spec(f"stays-{n}", tasks), f"j{n}")
        c.place(f"j{n}", "n1")
    until = c.state.clock_ms + 100
    turn(c, DRAIN, until=until)
    assert [c.job(f"j{n}").intent for n in range(5)] == [JobIntent.RESTART] * 2 + [JobIntent.RUN] * 3
    assert not turn(c, DRAIN, until=until).unchanged
    assert turn(c, DRAIN, until=until).unchanged
    assert [c.job(f"j{n}").intent for n in range(5)] == [JobIntent.RESTART] * 3 + [JobIntent.RUN] * 2
    monkeypatch.setattr(node_control, "MAX_LOST_AT_ONCE", 2)
    c.accept(PassTime(), at_ms=until)
    while c.state.timers.next_ms():
        c.accept(PassTime())
    assert [c.job(f"j{n}").intent for n in (3, 4)] == [JobIntent.FAIL] * 2
