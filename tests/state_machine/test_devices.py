"""GPUs and CPUs by name, shares of GPUs, the cluster's own resources, and the labels and taints of nodes."""

from dataclasses import replace

import pytest

from gosched.core.records.node import Hardware
from gosched.core.records.task import TaskState
from gosched.core.resources import MILLI, Resources
from gosched.core.spec.placement_rules import Affinity, LabelOp, Taint, TaintEffect, Toleration
from gosched.core.spec.task_group import TaskGroup
from tests.state_machine.cluster import Cluster, gang, group, registration, spec

HARDWARE = Hardware(numa_cpus=("0-1,8-9", "2-3,10-11"), gpu_numa=(0, 1), gpu_links=(0, 0), gpu_memory_bytes=80 << 30)


@pytest.fixture
def c() -> Cluster:
    """Node n1 with 8 CPUs in two NUMA nodes and two GPUs of 80 GiB."""
    cluster = Cluster()
    cluster.node("n1", cpus=8, gpus=2, gpu_model="h100", hardware=HARDWARE)
    return cluster


def shares(millis: int, count: int = 1, **more: object) -> TaskGroup:
    return replace(group("share", count), resources=Resources(gpu_millis=millis), **more)  # type: ignore[arg-type]


def test_parts_of_one_gpu_are_given_until_it_is_full(c):
    c.submit(spec("three", shares(400, 3)), "j1")
    assert "GPU 0 of node n1 is taken" in c.refused(gang(c.job("j1"), "n1", gpus=((0,), (0,), (0,))))
    assert c.plan(gang(c.job("j1"), "n1", gpus=((0,), (0,), (1,)))) == ()
    assert c.state.node_gpus_held("n1") == {0: 800, 1: 400}
    c.submit(spec("fits", shares(600)), "j2")
    assert "GPU 0 of node n1 is taken" in c.refused(gang(c.job("j2"), "n1", gpus=((0,),)))
    assert c.plan(gang(c.job("j2"), "n1", gpus=((1,),))) == ()


def test_a_whole_gpu_is_shared_with_nobody(c):
    c.submit(spec("whole", group(gpus=1)), "j1")
    c.submit(spec("bit", shares(1)), "j2")
    c.submit(spec("late", group(gpus=1)), "j3")
    assert c.plan(gang(c.job("j1"), "n1", gpus=((0,),))) == ()
    assert "GPU 0 of node n1 is taken" in c.refused(gang(c.job("j2"), "n1", gpus=((0,),)))
    assert c.plan(gang(c.job("j2"), "n1", gpus=((1,),))) == ()
    assert "GPU 1 of node n1 is taken" in c.refused(gang(c.job("j3"), "n1", gpus=((1,),)))


@pytest.mark.parametrize("gpus", [(), (0, 1)])
def test_a_part_is_of_exactly_one_gpu(c, gpus):
    c.submit(spec("part", shares(500)), "j1")
    assert f"{len(gpus)} GPUs are placed" in c.refused(gang(c.job("j1"), "n1", gpus=(gpus,)))


def test_no_gpu_is_given_to_a_task_that_asked_for_none_or_twice_to_one(c):
    c.submit(spec("none"), "j1")
    assert "1 GPUs are placed" in c.refused(gang(c.job("j1"), "n1", gpus=((0,), ())))
    c.submit(spec("two", group(gpus=2)), "j2")
    assert "GPU 1 of node n1 is taken" in c.refused(gang(c.job("j2"), "n1", gpus=((1, 1),)))


def test_an_allocation_names_the_model_of_the_gpus_that_it_holds(c):
    c.submit(spec("two", group("cpu"), shares(500)), "j1")
    assert c.plan(gang(c.job("j1"), "n1", gpus=((), (0,)))) == ()
    assert [a.gpu_model for a in c.state.allocations.values()] == ["", "h100"]


@pytest.mark.parametrize(
    ("gib", "millis", "fits"),
    [(80, MILLI, True), (81, MILLI, False), (40, 500, True), (41, 500, False), (80, 2 * MILLI, True)],
)
def test_gpu_memory_must_suffice_and_of_a_shared_gpu_the_share_of_it(c, gib, millis, fits):
    c.submit(spec("mem", shares(millis, gpu_memory_bytes=gib << 30)), "j1")
    placement = gang(c.job("j1"), "n1", gpus=((0, 1)[: max(1, millis // MILLI)],))
    if fits:
        assert c.plan(placement) == ()
    else:
        assert "bytes of memory per GPU" in c.refused(placement)


def test_cpus_that_are_named_belong_to_the_task_until_its_end(c):
    c.submit(spec("two", group(count=2, cpus=2)), "j1")
    assert c.plan(gang(c.job("j1"), "n1", cpus=("0-1", "8,10"))) == ()
    assert [t.cpus for t in c.tasks("j1")] == ["0-1", "8,10"]
    assert c.state.node_cpus_held("n1") == 0b101_0000_0011
    c.submit(spec("late", group(cpus=2)), "j2")
    assert "CPUs 1,8 of node n1 are taken" in c.refused(gang(c.job("j2"), "n1", cpus=("1,8",)))
    c.report("j1", 0, TaskState.SUCCEEDED, 0)
    assert c.plan(gang(c.job("j2"), "n1", cpus=("0-1",))) == ()


@pytest.mark.parametrize(
    ("cpus", "why"),
    [
        ("0", "1 CPUs are named"),
        ("0-2", "3 CPUs are named"),
        ("0,1", "'0,1' is not the shortest list"),
        ("1,0", "is not the shortest list"),
        ("0-1,", "is not a list of CPUs"),
        ("x", "is not a list of CPUs"),
        ("1-0", "numbered upwards"),
        ("3-4", "node n1 has no CPUs 4"),
    ],
)
def test_a_list_of_cpus_must_be_the_right_one(c, cpus, why):
    c.submit(spec("two", group(cpus=2)), "j1")
    assert why in c.refused(gang(c.job("j1"), "n1", cpus=(cpus,)))


def test_two_tasks_of_a_gang_do_not_share_cpus_and_parts_of_a_cpu_are_not_named(c):
    c.submit(spec("two", group(count=2)), "j1")
    assert "CPUs 3 of node n1 are taken" in c.refused(gang(c.job("j1"), "n1", cpus=("3", "3")))
    c.submit(spec("half", replace(group(), resources=Resources(cpu_millis=MILLI // 2))), "j2")
    assert "1 CPUs are named" in c.refused(gang(c.job("j2"), "n1", cpus=("3",)))
    assert c.plan(gang(c.job("j2"), "n1")) == ()


def test_a_node_that_names_no_cpus_gives_none_by_name(c):
    c.node("n2")
    c.submit(spec("one", group()), "j1")
    assert "node n2 has no CPUs 0" in c.refused(gang(c.job("j1"), "n2", cpus=("0",)))


def test_the_clusters_own_resources_are_counted_like_the_others(c):
    c.accept(registration("n2", capacity=Resources(cpu_millis=4 * MILLI, custom=(("fpga", 3),))))
    c.submit(spec("two", replace(group(count=2), resources=Resources(custom=(("fpga", 2),)))), "j1")
    assert "node n1 has no room" in c.refused(gang(c.job("j1"), "n1", "n2"))
    assert "node n2 has no room" in c.refused(gang(c.job("j1"), "n2"))
    c.submit(spec("one", replace(group(), resources=Resources(custom=(("fpga", 2),)))), "j2")
    assert c.plan(gang(c.job("j2"), "n2")) == ()
    assert c.state.usage["n2"] == Resources(custom=(("fpga", 2),))


@pytest.mark.parametrize("effect", [TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE])
def test_a_taint_keeps_off_whoever_does_not_tolerate_it(c, effect):
    taint = Taint(key="team", value="nlp", effect=effect)
    c.node("n2", taints=(taint,))
    c.submit(spec("plain"), "j1")
    assert "has the taint team, which group worker does not tolerate" in c.refused(gang(c.job("j1"), "n2"))
    c.submit(spec("tolerant", group(tolerations=(Toleration(key="team"),))), "j2")
    assert c.plan(gang(c.job("j2"), "n2")) == ()


def test_a_taint_that_only_prefers_keeps_nobody_off(c):
    c.node("n2", taints=(Taint(key="old", effect=TaintEffect.PREFER_NO_SCHEDULE),))
    c.submit(spec("plain"), "j1")
    assert c.plan(gang(c.job("j1"), "n2")) == ()


def test_required_affinity_must_hold_and_weighted_need_not(c):
    c.node("n2", labels=(("disk", "ssd"),))
    required = Affinity(label="disk", op=LabelOp.IN, values=("nvme",))
    c.submit(spec("needs", group(affinity=(required,))), "j1")
    assert "node n2 does not meet the affinity on the label disk" in c.refused(gang(c.job("j1"), "n2"))
    c.submit(spec("likes", group(affinity=(replace(required, weight=50),))), "j2")
    assert c.plan(gang(c.job("j2"), "n2")) == ()
