"""Nodes join, come back and die."""

from dataclasses import replace

import pytest

from gosched.core.cluster import NodeState
from gosched.core.command import MarkNodeDead
from gosched.core.job import JobState, TaskState
from gosched.core.outcome import Code, NodeChanged
from gosched.core.resources import Resources
from gosched.machine import nodes as nodes_module
from tests.machine.cluster import Cluster, gang, group, registration, retrying, spec


def test_a_new_node_is_ready():
    c = Cluster()
    assert c.node("n1").subject == "n1"
    assert c.state.nodes["n1"].state is NodeState.READY
    assert c.events == (NodeChanged(node_id="n1", before=NodeState.UNSPECIFIED, after=NodeState.READY),)


def test_the_same_registration_again_changes_nothing():
    c = Cluster()
    c.node("n1")
    assert c.node("n1").unchanged
    assert c.events == ()


def test_a_new_boot_of_a_living_node_keeps_its_allocations_and_updates_the_rest():
    c = Cluster()
    c.node("n1")
    c.submit(spec(), "j1")
    c.place("j1", "n1")
    c.node("n1", boot="b2", cpus=8, address="127.0.0.1:7999")
    node = c.state.nodes["n1"]
    assert (node.incarnation, node.capacity.cpu_millis, node.address) == ("b2", 8000, "127.0.0.1:7999")
    assert c.task_states("j1") == [TaskState.PLACED] * 2
    assert len(c.events) == 1


def test_a_living_node_cannot_shrink_below_what_it_holds():
    c = Cluster()
    c.node("n1", gpus=2)
    c.submit(spec("gpu", group(gpus=1)), "j1")
    assert c.plan(gang(c.job("j1"), "n1", gpus=((1,),))) == ()
    assert "holds more than it now offers" in c.reject(registration("n1", gpus=1), Code.CONFLICT)
    assert "holds more" in c.reject(registration("n1", gpus=2, cpus=0), Code.CONFLICT)
    c.die("n1")
    c.node("n1", gpus=1, boot="b2")


def test_the_tasks_of_a_dead_node_are_lost_the_placed_ones_too_and_the_others_stop():
    c = Cluster()
    for node in ("n1", "n2"):
        c.node(node)
    c.submit(retrying("train", group(count=3)), "j1")
    c.place("j1", "n1", "n1", "n2")
    c.report("j1", 0, TaskState.RUNNING)
    c.die("n1")
    assert c.task_states("j1") == [TaskState.LOST, TaskState.LOST, TaskState.STOPPING]
    assert (c.job("j1").reason, c.job("j1").detail) == ("NODE_LOST", "task worker/0: node n1 is dead")
    c.report("j1", 2, TaskState.KILLED)
    assert (c.job("j1").state, c.job("j1").attempt, c.job("j1").restarts) == (JobState.PENDING, 2, 0)


def test_a_dead_node_that_registers_is_ready_and_empty():
    c = Cluster()
    c.node("n1")
    c.submit(spec(), "j1")
    c.place("j1", "n1")
    c.die("n1")
    c.node("n1", boot="b2")
    assert c.state.nodes["n1"].state is NodeState.READY
    assert c.state.node_allocations["n1"] == {}
    assert c.events[0].before is NodeState.DEAD


def test_death_is_refused_for_another_boot_a_dead_or_an_unknown_node():
    c = Cluster()
    c.node("n1", boot="b2")
    c.reject(MarkNodeDead(node_id="n1", incarnation="b1"), Code.STALE_INCARNATION)
    c.reject(MarkNodeDead(node_id="n9", incarnation="b1"), Code.NOT_FOUND)
    c.die("n1", boot="b2")
    c.reject(MarkNodeDead(node_id="n1", incarnation="b2"), Code.CONFLICT)


GOOD = registration()


@pytest.mark.parametrize(
    "bad",
    [
        replace(GOOD, node_id=""),
        replace(GOOD, node_id="a/b"),
        replace(GOOD, name="\x1b"),
        replace(GOOD, address=""),
        replace(GOOD, address="a\nb"),
        replace(GOOD, incarnation=""),
        replace(GOOD, capacity=Resources(cpu_millis=-1)),
        replace(GOOD, capacity=Resources(memory_bytes=1 << 60)),
        replace(GOOD, capacity=Resources(gpu_millis=1)),
        replace(GOOD, labels=(("zone", "\0"),)),
        replace(GOOD, labels=(("", "x"),)),
    ],
)
def test_a_bad_registration_is_refused(bad):
    assert Cluster().reject(bad, Code.INVALID)


def test_a_full_cluster_takes_no_new_node_but_its_own_again(monkeypatch):
    monkeypatch.setattr(nodes_module, "MAX_NODES", 1)
    c = Cluster()
    c.node("n1")
    c.reject(registration("n2"), Code.EXHAUSTED)
    c.node("n1", boot="b2")
