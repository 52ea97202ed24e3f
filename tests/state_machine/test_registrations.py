"""Registrations are told apart by numbers; an agent that was stopped is awaited."""

from __future__ import annotations

import pytest

from gosched.core.commands.nodes import (
    AwaitNode,
    ControlNode,
    MarkNodeDead,
    NodeAction,
    RemoveNode,
    ReportTasks,
    TaskReport,
)
from gosched.core.features import FeatureLevel
from gosched.core.outcome import Accepted, Code
from gosched.core.records.node import ClosedBy, Node, NodeState
from gosched.core.records.task import TaskState
from tests.state_machine.cluster import Cluster, registration, retrying


@pytest.fixture
def c() -> Cluster:
    cluster = Cluster()
    cluster.node("n1", numbered=True)
    return cluster


def n1(c: Cluster) -> Node:
    return c.state.nodes["n1"]


def wait_for(c: Cluster, **more: object) -> AwaitNode:
    given = {"incarnation": n1(c).incarnation, "registration": n1(c).registration, "for_ms": 300_000}
    return AwaitNode(node_id="n1", **{**given, **more})  # type: ignore[arg-type]


def test_a_number_grows_with_each_death_and_each_boot_and_stays_otherwise(c: Cluster) -> None:
    first = n1(c).registration
    assert first == c.state.revision
    assert c.node("n1", numbered=True).unchanged
    c.node("n1", numbered=True, cpus=8)
    assert n1(c).registration == first
    c.die("n1")
    c.node("n1", numbered=True)
    second = n1(c).registration
    assert second > first
    c.node("n1", numbered=True, boot="b2")
    third = n1(c).registration
    assert third > second
    c.die("n1", boot="b2")
    c.accept(RemoveNode(node_id="n1"))
    c.node("n1", numbered=True, boot="b2")
    assert n1(c).registration > third


def test_an_agent_that_knows_no_numbers_has_none(c: Cluster) -> None:
    c.node("n2")
    assert c.state.nodes["n2"].registration == 0
    c.state.feature_level = FeatureLevel.FIRST
    c.node("n3", numbered=True)
    assert c.state.nodes["n3"].registration == 0


def test_reports_and_deaths_of_another_registration_are_refused(c: Cluster) -> None:
    c.submit(retrying(), "j1")
    c.place("j1", "n1")
    seen = TaskReport(allocation_id=c.tasks("j1")[0].allocation_id, state=TaskState.RUNNING)
    before = n1(c).registration
    c.die("n1")
    c.node("n1", numbered=True)
    for number in (0, before):
        report = ReportTasks(node_id="n1", incarnation="b1", reports=(seen,), registration=number)
        assert "register again" in c.reject(report, Code.STALE_INCARNATION)
    c.reject(MarkNodeDead(node_id="n1", incarnation="b1", registration=before), Code.STALE_INCARNATION)
    c.accept(ReportTasks(node_id="n1", incarnation="b1", reports=(seen,), registration=n1(c).registration))


def test_a_node_whose_agent_was_stopped_takes_no_work_and_keeps_its_tasks(c: Cluster) -> None:
    c.submit(retrying(), "j1")
    c.place("j1", "n1")
    c.accept(wait_for(c))
    assert (n1(c).state, n1(c).closed_by, n1(c).away_ms) == (NodeState.CORDONED, ClosedBy.AGENT, 300_000)
    assert n1(c).reason == "its agent was stopped, and is awaited for 5m"
    assert c.task_states("j1") == [TaskState.PLACED] * 2
    assert "came late" in c.reject(registration("n1", numbered=True), Code.CONFLICT)
    c.node("n1", numbered=True, boot="b2")
    assert (n1(c).state, n1(c).closed_by, n1(c).away_ms, n1(c).reason) == (NodeState.READY, ClosedBy.UNSPECIFIED, 0, "")
    assert c.task_states("j1") == [TaskState.PLACED] * 2


def test_a_node_that_stays_away_dies_and_says_why(c: Cluster) -> None:
    c.accept(wait_for(c))
    c.accept(MarkNodeDead(node_id="n1", incarnation="b1", reason="not started within 5m"))
    assert (n1(c).state, n1(c).away_ms, n1(c).reason) == (NodeState.DEAD, 0, "not started within 5m")


def test_what_an_operator_does_to_a_node_that_is_away_holds_when_it_is_back(c: Cluster) -> None:
    c.accept(wait_for(c))
    by = ClosedBy.OPERATOR
    c.accept(ControlNode(node_id="n1", action=NodeAction.UNCORDON, by=by))
    assert (n1(c).state, n1(c).closed_by) == (NodeState.CORDONED, ClosedBy.AGENT), "it is still away"
    c.accept(ControlNode(node_id="n1", action=NodeAction.CORDON, by=by, reason="new disk"))
    assert n1(c).away_ms
    c.node("n1", numbered=True, boot="b2")
    assert (n1(c).state, n1(c).closed_by, n1(c).reason) == (NodeState.CORDONED, by, "new disk")


def test_a_goodbye_of_another_registration_or_without_end_is_refused(c: Cluster) -> None:
    c.reject(wait_for(c, incarnation="b0"), Code.STALE_INCARNATION)
    c.reject(wait_for(c, registration=1), Code.STALE_INCARNATION)
    for for_ms in (0, -1, 1 << 60):
        c.reject(wait_for(c, for_ms=for_ms), Code.INVALID)
    assert isinstance(c.do(wait_for(c)), Accepted)
