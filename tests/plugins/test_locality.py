"""The plugins that know where data is: spark and hadoop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gosched.plugins.hadoop import BLOCKS, Hadoop
from gosched.plugins.spark import APPLICATION, LOCALITY_NODES, LOCALITY_RACKS, Spark
from tests.plugins.cluster import asked, labelled, plan_with
from tests.scheduling.support.cluster import node, where

NODES = [
    node("a1", labels=(("rack", "a"),)),
    node("a2", labels=(("rack", "a"),)),
    node("b1", labels=(("rack", "b"),)),
    node("b2", labels=(("rack", "b"),)),
    node("z"),  # in no rack
]

SPARK = [  # labels of the job -> scores of a1, a2, b1, b2, z
    ({}, None),
    ({LOCALITY_NODES: "b2"}, [0, 0, 30, 60, 0]),
    ({LOCALITY_NODES: " b2 , a1,gone, "}, [60, 30, 30, 60, 0]),
    ({LOCALITY_NODES: "z"}, [0, 0, 0, 0, 60]),
    ({LOCALITY_RACKS: "a"}, [30, 30, 0, 0, 0]),
    ({LOCALITY_NODES: "b2", LOCALITY_RACKS: "a"}, [30, 30, 30, 60, 0]),
    ({APPLICATION: "app-1"}, [40, 0, 40, 0, 0]),
    ({APPLICATION: "app-2"}, [0, 0, 0, 0, 40]),
    ({APPLICATION: "app-3"}, [0, 0, 0, 0, 0]),
    ({APPLICATION: "app-1", LOCALITY_NODES: "b1,a2"}, [70, 60, 100, 30, 0]),
]
STANDING = [({APPLICATION: "app-1"}, "a1 b1 b1"), ({APPLICATION: "app-2"}, "z"), ({"other": "app-1"}, "b2")]


@pytest.mark.parametrize(("labels", "scores"), SPARK)
def test_spark_likes_nodes_with_the_data_then_their_racks_and_those_of_its_own_application(
    labels: Mapping[str, str], scores: list[int] | None
) -> None:
    assert asked(Spark({}), NODES, labelled(1, labels), STANDING) == ({}, scores)


HADOOP = [  # blocks by node -> scores of a1, a2, b1, b2, z
    ("", None),
    ("a1:3", [100, 50, 0, 0, 0]),
    ("a1:4,b1:2", [100, 50, 50, 20, 0]),  # half the blocks, in the node and in the rack
    ("a1:2,a2:2,b1:3", [60, 60, 100, 30, 0]),
    ("z:5", [0, 0, 0, 0, 100]),
    ("a1:3,nonsense,b1:x,:7,gone:9", [100, 50, 0, 0, 0]),  # what cannot be read or found counts for nothing
    ("a1:0", None),
    ("gone:9", None),
]


@pytest.mark.parametrize(("blocks", "scores"), HADOOP)
def test_hadoop_likes_nodes_by_their_part_of_the_blocks_and_racks_half_as_much(
    blocks: str, scores: list[int] | None
) -> None:
    assert asked(Hadoop({}), NODES, labelled(1, {BLOCKS: blocks} if blocks else {})) == ({}, scores)


def test_hosts_are_known_by_name_as_well_as_by_id_and_agents_may_share_one() -> None:
    nodes = [replace(node(i, labels=(("rack", rack),)), name=host) for i, host, rack in HOSTS]
    assert asked(Hadoop({}), nodes, labelled(1, {BLOCKS: "dn7:2,dn8:1"}))[1] == [100, 100, 50]
    assert asked(Spark({}), nodes, labelled(1, {LOCALITY_NODES: "dn7"}))[1] == [60, 60, 0]


HOSTS = [("n-1", "dn7", "a"), ("n-2", "dn7", "a"), ("n-3", "dn8", "b")]


@pytest.mark.parametrize("plugin", [Spark, Hadoop])
def test_the_label_that_names_the_rack_is_an_option(plugin: type[Spark | Hadoop]) -> None:
    nodes = [node("a1", labels=(("shelf", "a"),)), node("a2", labels=(("shelf", "a"),)), node("b1")]
    one = labelled(1, {LOCALITY_NODES: "a1", BLOCKS: "a1:1"})
    _, scores = asked(plugin({"rack_label": "shelf"}), nodes, one)
    assert scores is not None
    assert scores[0] > scores[1] > scores[2]
    with pytest.raises(ValueError, match="no option 'racks'; there are rack_label"):
        plugin({"racks": "3"})


def test_an_executor_that_comes_later_joins_its_application_and_the_data() -> None:
    jobs = [labelled(1, {APPLICATION: "app-2"}), labelled(2, {BLOCKS: "b2:5"}), labelled(3, {})]
    plan = plan_with([Spark({}), Hadoop({})], NODES, jobs, STANDING)
    assert where(plan)["j1"] == "z"
    assert where(plan)["j2"] == "b2"
    assert plan.faults == ()


def test_tasks_of_one_application_in_one_cycle_stay_together() -> None:
    """Without the plugin the second would go where the first one is anyway; so a fuller node is put in its way."""
    full = node("full", cpu=1)
    jobs = [labelled(1, {APPLICATION: "x"}, cpu=2), labelled(2, {APPLICATION: "x"}, cpu=1)]
    assert where(plan_with([], [*NODES, full], jobs)) == {"j1": "a1", "j2": "full"}
    assert where(plan_with([Spark({})], [*NODES, full], jobs)) == {"j1": "a1", "j2": "a1"}
