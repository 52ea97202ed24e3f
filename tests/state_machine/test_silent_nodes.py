"""A member that may live on with the others is not replaced; its node is closed, and waited for."""

from dataclasses import replace

import pytest

from gosched.core.commands.nodes import ControlNode, MarkNodeDead, NodeAction
from gosched.core.records.job import JobIntent, JobState
from gosched.core.records.node import ClosedBy, NodeState
from gosched.core.records.task import TaskState
from gosched.core.spec.job_spec import JobSpec, OnDisconnect
from gosched.core.spec.policies import GangPolicy, MemberFailure, RetryCause, RetryPolicy
from tests.state_machine.cluster import ALL_CAUSES, Cluster, gang, group, on_three_nodes, spec

T = TaskState
RETRY = RetryPolicy(max_restarts=3, when=ALL_CAUSES)


def elastic(on_disconnect: OnDisconnect = OnDisconnect.KEEP) -> JobSpec:
    goes_on = GangPolicy(min_tasks=2, on_member_failure=MemberFailure.CONTINUE, replace_after_ms=5000)
    return spec("train", group(count=3, min_count=2), gang=goes_on, retry=RETRY, on_disconnect=on_disconnect)


def give_up(c: Cluster, node_id: str = "n3", *, waited_ms: int = 1) -> None:
    c.accept(MarkNodeDead(node_id=node_id, incarnation="b1", reason="no heartbeat for 10 s", waited_ms=waited_ms))


def test_a_member_that_may_live_on_keeps_its_place_and_what_else_is_there_is_lost():
    c = on_three_nodes(elastic())
    c.submit(spec("other", group(), retry=RETRY), "o")
    c.place("o", "n3")
    give_up(c)
    node = c.state.nodes["n3"]
    assert (node.state, node.closed_by) == (NodeState.CORDONED, ClosedBy.AGENT)
    assert node.reason == "no heartbeat for 10 s; 1 of its tasks may live on there"
    assert c.task_states("j") == [T.RUNNING] * 3
    assert (c.job("o").state, c.job("o").attempt, c.job("o").restarts) == (JobState.PENDING, 2, 0)
    assert list(c.state.node_allocations["n3"]) == ["j/worker/2.1"]


def test_it_goes_on_when_its_agent_is_back():
    c = on_three_nodes(elastic())
    give_up(c)
    c.accept(ControlNode(node_id="n3", action=NodeAction.UNCORDON, by=ClosedBy.AGENT))
    assert (c.state.nodes["n3"].state, c.task_states("j")) == (NodeState.READY, [T.RUNNING] * 3)


def test_it_is_replaced_once_its_node_is_not_waited_for_any_more():
    c = on_three_nodes(elastic())
    give_up(c)
    give_up(c, waited_ms=5000)
    assert c.state.nodes["n3"].state is NodeState.DEAD
    assert (c.task_states("j"), c.job("j").unplaced) == ([T.RUNNING, T.RUNNING, T.PENDING], 1)
    assert c.plan(gang(c.job("j"), "n1", ranks=[2])) == ()


def test_a_task_that_ends_with_its_lease_is_replaced_at_once():
    c = on_three_nodes(elastic(OnDisconnect.STOP))
    give_up(c)
    assert c.state.nodes["n3"].state is NodeState.DEAD
    assert c.task_states("j") == [T.RUNNING, T.RUNNING, T.PENDING]


def test_a_gang_that_has_too_few_without_it_does_not_wait():
    c = on_three_nodes(replace(elastic(), retry=RetryPolicy(max_restarts=3, when=(RetryCause.NODE_LOST,))))
    c.report("j", 0, T.FAILED, 1)  # for which it is not started again
    give_up(c)
    assert c.state.nodes["n3"].state is NodeState.DEAD
    assert (c.job("j").intent, c.job("j").reason) == (JobIntent.RESTART, "NODE_LOST")


@pytest.mark.parametrize("policy", [MemberFailure.RESTART_GANG, MemberFailure.FAIL_JOB])
def test_a_gang_that_starts_again_without_it_does_not_wait(policy):
    wanted = spec("train", group(count=3), gang=GangPolicy(min_tasks=3, on_member_failure=policy), retry=RETRY)
    c = on_three_nodes(wanted)
    give_up(c)
    assert c.state.nodes["n3"].state is NodeState.DEAD


def test_a_member_that_is_to_stop_is_not_waited_for():
    c = on_three_nodes(elastic())
    give_up(c)
    c.cancel("j")
    give_up(c)
    assert c.state.nodes["n3"].state is NodeState.DEAD
    assert c.task_states("j") == [T.STOPPING, T.STOPPING, T.LOST]


def test_one_that_has_not_started_is_not_waited_for():
    c = Cluster()
    for node in ("n1", "n2", "n3"):
        c.node(node)
    c.submit(elastic(), "j")
    c.place("j", "n1", "n2", "n3")
    give_up(c)
    assert c.state.nodes["n3"].state is NodeState.DEAD
