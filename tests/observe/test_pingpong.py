"""The detector of jobs that evict each other in turn."""

from __future__ import annotations

from gosched.observe.pingpong import EvictionGraph

MINUTE = 60_000


def test_a_job_that_evicts_the_one_it_was_evicted_for_is_a_cycle() -> None:
    graph = EvictionGraph()
    assert graph.add("a", ["b"], 0) is None
    assert graph.add("b", ["a"], MINUTE) == ("b", "a")  # b was evicted for a, and a now for b


def test_a_cycle_through_others_is_named_in_order() -> None:
    graph = EvictionGraph()
    assert graph.add("b", ["a"], 0) is None
    assert graph.add("c", ["x", "b"], MINUTE) is None
    assert graph.add("a", ["y", "c"], 2 * MINUTE) == ("a", "b", "c")


def test_a_plain_chain_and_many_victims_of_one_job_are_none() -> None:
    graph = EvictionGraph()
    assert graph.add("high", ["low-1", "low-2", "mid"], 0) is None
    assert graph.add("mid", ["low-1", "low-2"], MINUTE) is None
    assert graph.add("higher", ["high"], 2 * MINUTE) is None
    assert graph.add("high", ["low-1"], 3 * MINUTE) is None


def test_what_lies_longer_back_than_the_window_is_forgotten() -> None:
    graph = EvictionGraph(window_ms=MINUTE)
    assert graph.add("a", ["b"], 0) is None
    assert graph.add("b", ["a"], MINUTE + 1) is None
    assert graph.add("a", ["b"], MINUTE + 2) == ("a", "b")


def test_an_eviction_that_happened_again_counts_from_the_newest() -> None:
    graph = EvictionGraph(window_ms=MINUTE)
    graph.add("a", ["b"], 0)
    graph.add("a", ["b"], MINUTE)
    assert graph.add("b", ["a"], MINUTE + 30_000) == ("b", "a")


def test_memory_is_bounded() -> None:
    graph = EvictionGraph(most=10)
    for i in range(1000):
        graph.add(f"p{i}", [f"v{i}"], 0)
    assert len(graph._edges) == len(graph._evicted_by) == 10


def test_a_gang_repaired_in_place_is_no_cycle() -> None:
    assert EvictionGraph().add("a", ["a"], 0) is None
