"""The kubernetes plugin: topology spread, balanced nodes, namespaces."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gosched.plugins.kubernetes import (
    APP,
    HOSTNAME,
    MAX_SKEW,
    NAMESPACE,
    NAMESPACES,
    SCHEDULE_ANYWAY,
    SPREAD_KEY,
    WHEN_UNSATISFIABLE,
    Kubernetes,
)
from tests.plugins.cluster import asked, labelled, plan_with
from tests.scheduling.support.cluster import group, job, node, where, why

ZONES = [
    node("a1", labels=(("zone", "a"),)),
    node("a2", labels=(("zone", "a"),)),
    node("b1", labels=(("zone", "b"),)),
    node("c1", labels=(("zone", "c"),)),
    node("z"),
]
UNBALANCED = {"balance": "false"}
WEB = {APP: "web", SPREAD_KEY: "zone"}

SPREAD = [  # nodes with web's tasks, labels -> nodes beyond the skew among those with a zone
    ("", WEB, []),
    ("a1", WEB, ["a1", "a2"]),
    ("a1 b1", WEB, ["a1", "a2", "b1"]),
    ("a1 b1 c1", WEB, []),
    ("a1 a2 b1 c1", WEB, ["a1", "a2"]),
    ("a1", WEB | {MAX_SKEW: "2"}, []),
    ("a1 a2", WEB | {MAX_SKEW: "2"}, ["a1", "a2"]),
    ("a1", WEB | {MAX_SKEW: "zero"}, ["a1", "a2"]),  # as 1
    ("a1", WEB | {SPREAD_KEY: HOSTNAME}, ["a1"]),
    ("a1", {APP: "db", SPREAD_KEY: "zone"}, []),
]


@pytest.mark.parametrize(("standing", "labels", "beyond"), SPREAD)
def test_no_domain_gets_more_tasks_of_an_app_than_the_skew_allows(
    standing: str, labels: Mapping[str, str], beyond: list[str]
) -> None:
    refused, scores = asked(Kubernetes(UNBALANCED), ZONES, labelled(1, labels), [({APP: "web"}, standing)])
    assert [node for node in refused["beyond its max skew"] if node != "z"] == beyond
    assert refused["without its spread key"] == ([] if labels[SPREAD_KEY] == HOSTNAME else ["z"])
    assert scores is None


@pytest.mark.parametrize(
    ("standing", "scores"),
    [
        ("", [100, 100, 100, 100, 0]),
        ("a1", [0, 0, 100, 100, 0]),
        ("a1 a2 b1", [0, 0, 50, 100, 0]),
        ("a1 a2 a2 b1 c1", [0, 0, 100, 100, 0]),
    ],
)
def test_schedule_anyway_likes_the_domains_with_least(standing: str, scores: list[int]) -> None:
    labels = WEB | {WHEN_UNSATISFIABLE: SCHEDULE_ANYWAY}
    found = asked(Kubernetes(UNBALANCED), ZONES, labelled(1, labels), [({APP: "web"}, standing)])
    assert found == ({"closed to its namespace": []}, scores)


@pytest.mark.parametrize("labels", [{APP: "web"}, {SPREAD_KEY: "zone"}])
def test_without_an_app_or_a_key_nothing_is_spread(labels: Mapping[str, str]) -> None:
    found = asked(Kubernetes(UNBALANCED), ZONES, labelled(1, labels), [({APP: "web"}, "a1")])
    assert found == ({"closed to its namespace": []}, None)


def test_domains_that_the_job_may_not_use_do_not_count() -> None:
    """Zone c is empty, but not ready; the job may have one more in a."""
    nodes = [*ZONES[:3], node("c1", labels=(("zone", "c"),), state=ZONES[0].state.DRAINING)]
    refused, _ = asked(Kubernetes(UNBALANCED), nodes, labelled(1, WEB), [({APP: "web"}, "a1 b1")])
    assert refused["beyond its max skew"] == []


def test_jobs_of_one_app_in_one_cycle_are_spread_and_the_one_too_many_is_told_why() -> None:
    jobs = [labelled(i, WEB) for i in range(1, 5)]
    nodes = [node("a1", labels=(("zone", "a"),)), node("b1", cpu=1, labels=(("zone", "b"),)), node("z")]
    plan = plan_with([Kubernetes(UNBALANCED)], nodes, jobs)
    assert where(plan) == {"j1": "b1", "j2": "a1", "j3": "a1"}  # the zones are even again, b1 is full
    assert why(plan, "j4") == "needs 1 CPU in all; 0 are free on nodes that it may use"
    assert plan.explanations["j4"].refused == (
        ("without its spread key", 1),
        ("beyond its max skew", 1),
        ("short of CPU", 1),
    )


@pytest.mark.parametrize(
    ("namespace", "refused"),
    [("team-a", ["only-b"]), ("team-b", []), ("team", ["only-b", "both"]), (None, ["only-b", "both"])],
)
def test_nodes_that_name_namespaces_take_their_jobs_only(namespace: str | None, refused: list[str]) -> None:
    nodes = [
        node("only-b", labels=((NAMESPACES, "team-b"),)),
        node("both", labels=((NAMESPACES, "team-a, team-b"),)),
        node("open"),
    ]
    labels = {NAMESPACE: namespace} if namespace else {}
    found, _ = asked(Kubernetes(UNBALANCED), nodes, labelled(1, labels))
    assert sorted(found["closed to its namespace"]) == sorted(refused)


@pytest.mark.parametrize(
    ("cpu", "mem", "scores"),
    [
        (1, 4, [100, 90, 90]),  # of (4 CPUs, 16 Gi), (8, 16), (4, 32): 25 and 25 %, 12 and 25, 25 and 12
        (4, 0, [50, 70, 50]),
        (0, 16, [50, 50, 70]),
        (2, 4, [80, 100, 80]),
    ],
)
def test_nodes_whose_cpu_and_memory_fill_alike_are_liked(cpu: float, mem: int, scores: list[int]) -> None:
    nodes = [node("a", cpu=4, mem=16), node("b", cpu=8, mem=16), node("c", cpu=4, mem=32)]
    assert asked(Kubernetes({}), nodes, labelled(1, {}, cpu=cpu, mem=mem))[1] == scores


def test_spread_and_balance_count_half_each() -> None:
    labels = WEB | {WHEN_UNSATISFIABLE: SCHEDULE_ANYWAY}
    found = asked(Kubernetes({}), ZONES, labelled(1, labels, cpu=4), [({APP: "web"}, "a1")])
    assert found[1] == [20, 20, 70, 70, 20]  # (0 or 100, and 50) / 2, in steps of ten


def test_jobs_that_say_nothing_go_where_they_went_when_nothing_is_balanced() -> None:
    jobs = [job(1, group(3)), job(2, group(2))]
    assert where(plan_with([Kubernetes(UNBALANCED)], ZONES, jobs)) == where(plan_with([], ZONES, jobs))


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="balance is 'yes', expected true or false"):
        Kubernetes({"balance": "yes"})
