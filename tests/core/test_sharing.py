"""Charges, and the ceilings of queues."""

import pytest

from gosched.core.records.queue import Queue
from gosched.core.resources import Resources
from gosched.core.sharing import as_map, beyond, ceilings, charge_of, cluster_total, lineage, parent_of

TOTAL = {"cpu": 1000, "gpu": 100, "gpu:h100": 60}


def tree(*queues: Queue) -> dict[str, Queue]:
    return {queue.path: queue for queue in queues}


def test_a_charge_names_what_is_held_and_gpus_under_their_model_too():
    held = Resources(cpu_millis=5, gpu_millis=500, custom=(("fpga", 2),))
    assert charge_of(held, "h100") == {"cpu": 5, "gpu": 500, "gpu:h100": 500, "fpga": 2}
    assert charge_of(Resources(memory_bytes=1), "h100") == {"memory": 1}


def test_a_queue_and_its_ancestors():
    assert lineage("a.b.c") == ("a", "a.b", "a.b.c")
    assert (parent_of("a.b.c"), parent_of("a")) == ("a.b", "")


def test_a_queue_without_rules_has_no_ceiling():
    assert ceilings(tree(Queue(path="a")), TOTAL) == {"a": {}}


def test_max_pct_is_of_the_cluster_and_below_of_what_the_parent_may_hold():
    queues = tree(Queue(path="a.b", max_pct=50), Queue(path="a", max_pct=50))
    assert ceilings(queues, TOTAL) == {"a": {"cpu": 500, "gpu": 50}, "a.b": {"cpu": 250, "gpu": 25}}


def test_max_pct_looks_past_a_parent_without_rules_and_takes_the_limits_above_it():
    queues = tree(Queue(path="a", limit=(("cpu", 300),)), Queue(path="a.b"), Queue(path="a.b.c", max_pct=10))
    assert ceilings(queues, TOTAL)["a.b.c"] == {"cpu": 30, "gpu": 10}


def test_the_lower_of_limit_and_percent_counts_and_a_limit_may_name_a_model():
    limit = (("cpu", 900), ("gpu", 10), ("gpu:h100", 5))
    assert ceilings(tree(Queue(path="a", max_pct=50, limit=limit)), TOTAL)["a"] == {
        "cpu": 500,
        "gpu": 10,
        "gpu:h100": 5,
    }


@pytest.mark.parametrize(
    ("more", "over"),
    [({"cpu": 1}, ""), ({"cpu": 2}, "cpu"), ({"gpu": 1, "cpu": 2}, "cpu"), ({"disk": 99}, ""), ({}, "")],
)
def test_only_what_is_asked_for_is_beyond_a_ceiling(more, over):
    assert beyond({"cpu": 9, "gpu": 9}, more, {"cpu": 10, "gpu": 5}) == over


def test_a_total_is_of_all_nodes_and_a_map_has_no_zeros():
    total = cluster_total([(Resources(cpu_millis=1, gpu_millis=1000), "h100"), (Resources(cpu_millis=2), "")])
    assert total == {"cpu": 3, "gpu": 1000, "gpu:h100": 1000}
    assert as_map({"b": 1, "a": 2, "c": 0}) == (("a", 2), ("b", 1))
