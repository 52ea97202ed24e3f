"""Nodes join, come back and die."""

from dataclasses import replace

import pytest

from gosched.core.commands.nodes import MarkNodeDead
from gosched.core.events import NodeChanged
from gosched.core.outcome import Code
from gosched.core.records.job import JobIntent, JobState
from gosched.core.records.node import ClosedBy, Hardware, NodeState
from gosched.core.records.task import TaskState
from gosched.core.resources import MILLI, Resources
from gosched.core.spec.placement_rules import Taint, TaintEffect, Toleration
from gosched.state_machine import nodes as nodes_module
from tests.state_machine.cluster import Cluster, failing_fast, gang, group, registration, retrying, spec


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
        replace(GOOD, capacity=Resources(gpu_millis=1025 * MILLI)),
        replace(GOOD, capacity=Resources(custom=(("cpu", 1),))),
        replace(GOOD, taints=(Taint(key=""),)),
        replace(GOOD, taints=(Taint(key="a", value="\n"),)),
        replace(GOOD, taints=(Taint(key="a", effect=TaintEffect.UNSPECIFIED),)),
        replace(GOOD, taints=(Taint(key="a"), Taint(key="a", value="x"))),
        replace(GOOD, taints=tuple(Taint(key=f"t{i}") for i in range(65))),
    ],
)
def test_a_bad_registration_is_refused(bad):
    assert Cluster().reject(bad, Code.INVALID)


@pytest.mark.parametrize(
    ("hardware", "why"),
    [
        (Hardware(gpu_numa=(0,), numa_cpus=("0-7",)), "gpu_numa has 1 entries for 2 GPUs"),
        (Hardware(gpu_links=(0, 0, 0)), "gpu_links has 3 entries for 2 GPUs"),
        (Hardware(gpu_numa=(0, 2), numa_cpus=("0-3", "4-7")), "a NUMA node that numa_cpus lacks; it has 2"),
        (Hardware(gpu_numa=(0, -1), numa_cpus=("0-7",)), "a NUMA node that numa_cpus lacks"),
        (Hardware(gpu_links=(0, -1)), "gpu_links numbers its islands from 0"),
        (Hardware(gpu_memory_bytes=-1), "gpu_memory_bytes -1"),
        (Hardware(numa_cpus=("0-3", "3-7")), "CPUs 3 are in two NUMA nodes"),
        (Hardware(numa_cpus=("0-3", "6,5,4,7")), "is not the shortest list"),
        (Hardware(numa_cpus=("cpu0",)), "is not a list of CPUs"),
        (Hardware(numa_cpus=("0-8191", "8192")), "below 8192"),
        (Hardware(numa_cpus=("0-2",)), "numa_cpus has 3 CPUs, the capacity 4"),
    ],
)
def test_hardware_that_contradicts_itself_is_refused(hardware, why):
    wrong = registration("n1", cpus=4, gpus=2, hardware=hardware)
    assert why in Cluster().reject(wrong, Code.INVALID)


def test_a_node_keeps_what_it_says_of_itself():
    c = Cluster()
    hardware = Hardware(numa_cpus=("0-3", "", "4-7"), gpu_numa=(0, 2), gpu_links=(7, 7), gpu_memory_bytes=1 << 30)
    taints = (Taint(key="a"), Taint(key="a", effect=TaintEffect.NO_EXECUTE))
    c.node("n1", gpus=2, hardware=hardware, taints=taints)
    assert (c.state.nodes["n1"].hardware, c.state.nodes["n1"].taints) == (hardware, taints)
    assert c.node("n1", gpus=2, hardware=hardware, taints=taints).unchanged


def test_cpus_that_are_owned_and_the_model_of_gpus_that_are_held_must_stay():
    c = Cluster()
    cpus = Hardware(numa_cpus=("0-7",))
    c.node("n1", gpus=1, gpu_model="h100", hardware=cpus)
    c.submit(spec("own", group(gpus=1)), "j1")
    assert c.plan(gang(c.job("j1"), "n1", gpus=((0,),), cpus=("7",))) == ()
    fewer = Hardware(numa_cpus=("0-6",))
    for changes in ({"hardware": fewer}, {"hardware": Hardware()}, {"hardware": cpus, "gpu_model": "a100"}):
        c.reject(registration("n1", gpus=1, **{"gpu_model": "h100", **changes}), Code.CONFLICT)
    c.die("n1")
    c.node("n1", gpus=1, gpu_model="a100", hardware=fewer)


EXPEL = Taint(key="broken", effect=TaintEffect.NO_EXECUTE)


def test_a_new_no_execute_taint_stops_the_gangs_that_do_not_tolerate_it():
    c = Cluster()
    for node in ("n1", "n2"):
        c.node(node)
    c.submit(retrying("again"), "j1")
    c.submit(failing_fast("once"), "j2")
    c.submit(spec("tough", group(tolerations=(Toleration(key="broken"),))), "j3")
    c.place("j1", "n1", "n2")
    c.place("j2", "n1", "n1")
    c.place("j3", "n1")
    c.node("n1", taints=(EXPEL,))
    assert [c.job(j).intent for j in ("j1", "j2", "j3")] == [JobIntent.RESTART, JobIntent.FAIL, JobIntent.RUN]
    assert c.task_states("j1") == c.task_states("j2") == [TaskState.STOPPING] * 2
    assert c.task_states("j3") == [TaskState.PLACED]
    assert c.tasks("j1")[1].reason == "TAINTED"
    assert c.job("j1").detail == "task worker/0 does not tolerate the taint broken of node n1"
    for job in ("j1", "j2"):
        for rank in (0, 1):
            c.report(job, rank, TaskState.KILLED)
    assert (c.job("j1").state, c.job("j1").attempt, c.job("j1").restarts) == (JobState.PENDING, 2, 0)
    assert (c.job("j2").state, c.job("j2").reason, c.job("j2").exit_code) == (JobState.FAILED, "TAINTED", None)


def test_a_taint_that_was_there_or_does_not_expel_stops_nobody():
    c = Cluster()
    tolerant = group(tolerations=(Toleration(key="broken"),))
    c.node("n1", taints=(EXPEL,))
    c.submit(spec("tough", tolerant), "j1")
    c.place("j1", "n1")
    c.node("n1", taints=(EXPEL, Taint(key="other")), boot="b2")
    assert c.job("j1").intent is JobIntent.RUN


def test_a_cancelled_gang_stays_cancelled_under_a_new_taint():
    c = Cluster()
    c.node("n1")
    c.submit(retrying(), "j1")
    c.place("j1", "n1")
    c.cancel("j1")
    c.node("n1", taints=(EXPEL,))
    assert (c.job("j1").intent, c.job("j1").reason) == (JobIntent.CANCEL, "CANCELLED")


def test_a_full_cluster_takes_no_new_node_but_its_own_again(monkeypatch):
    monkeypatch.setattr(nodes_module, "MAX_NODES", 1)
    c = Cluster()
    c.node("n1")
    c.reject(registration("n2"), Code.EXHAUSTED)
    c.node("n1", boot="b2")


def test_a_node_with_very_many_tasks_dies_by_several_commands(monkeypatch):
    monkeypatch.setattr(nodes_module, "MAX_LOST_AT_ONCE", 4)
    c = Cluster()
    c.node("n1", cpus=64)
    for n in range(5):
        c.submit(spec(f"job-{n}"), f"j{n}")
        c.place(f"j{n}", "n1")
    states = []
    for _ in range(3):
        c.die("n1")
        node = c.state.nodes["n1"]
        states.append((node.state, node.closed_by, node.reason, len(c.state.node_allocations["n1"])))
    closed = (NodeState.CORDONED, ClosedBy.AGENT, "silent")
    assert states == [(*closed, 6), (*closed, 2), (NodeState.DEAD, ClosedBy.AGENT, "silent", 0)]
    c.node("n1", boot="b2")
    assert c.state.nodes["n1"].state is NodeState.READY
