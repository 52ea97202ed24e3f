"""Queues of YARN as ours: what is read, what is noted, and that both share a cluster alike."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from gosched.cli.main import run_cli
from gosched.config.errors import ConfigError
from gosched.config.load import parse_queue_file
from gosched.core.records.queue import Queue, QueueOrder, QueueType
from gosched.integrations.yarn.queues import Imported, read_queues

from .saturation import YarnLike, simulated, yarn_fill

HERE = Path(__file__).parent
CAPACITY, FAIR = HERE / "capacity-scheduler.xml", HERE / "fair-scheduler.xml"
PREFIX = "yarn.scheduler.capacity."
CPUS = 200
ALL_WANT = dict.fromkeys(
    ("production.etl", "production.serving", "research.llm", "research.vision", "default"), CPUS + 20
)


def imported(**properties: object) -> Imported:
    """Import a capacity-scheduler.xml. Keys have `__` for a dot and `_` for a hyphen, without the prefix."""
    lines = [
        f"<property><name>{PREFIX}{name.replace('__', '.').replace('_', '-')}</name><value>{value}</value></property>"
        for name, value in properties.items()
    ]
    return read_queues(f"<configuration>{''.join(lines)}</configuration>".encode(), "x.xml")


def by_path(found: Imported) -> dict[str, Queue]:
    return {queue.path: queue for queue in found.queues}


def notes(found: Imported) -> dict[str, str]:
    return {note.name.removeprefix(PREFIX): note.advice for note in found.notes}


def company() -> YarnLike:
    """The queues of capacity-scheduler.xml."""
    production = {
        "etl": YarnLike(capacity=Fraction(70), maximum=Fraction(90)),
        "serving": YarnLike(capacity=Fraction(30)),
    }
    research = {
        "llm": YarnLike(capacity=Fraction(60)),
        "vision": YarnLike(capacity=Fraction(40), maximum=Fraction("66.5")),
    }
    return YarnLike(
        capacity=Fraction(100),
        children={
            "production": YarnLike(capacity=Fraction(50), maximum=Fraction(80), children=production),
            "research": YarnLike(capacity=Fraction("37.5"), children=research),
            "default": YarnLike(capacity=Fraction("12.5")),
        },
    )


@pytest.mark.parametrize(
    "idle",
    [
        (),
        ("default",),
        ("production.etl", "production.serving"),
        ("research.llm", "research.vision"),
        ("production.serving", "research.llm"),
        ("production.etl", "production.serving", "default", "research.llm"),
        ("research.llm", "research.vision", "default"),
    ],
    ids=lambda idle: "+".join(idle) or "none",
)
def test_both_descriptions_share_a_full_cluster_alike(idle: tuple[str, ...]) -> None:
    demand = {queue: 0 if queue in idle else wanted for queue, wanted in ALL_WANT.items()}
    ours = simulated(read_queues(CAPACITY.read_bytes(), "x").queues, demand, CPUS)
    theirs = yarn_fill(company(), demand, CPUS)
    assert sum(theirs.values()) > 0.6 * CPUS, "the trace fills the cluster"
    for queue in demand:
        assert abs(ours[queue] - theirs[queue]) <= 2, (ours, theirs)  # 1 %: guarantees are whole percentages


def test_the_comparison_sees_equal_weights() -> None:
    """Mutation: without the weights that the import makes, what is not guaranteed would be shared equally."""
    queues = read_queues(CAPACITY.read_bytes(), "x").queues
    equal = [replace(queue, weight=1) for queue in queues]
    demand = {**ALL_WANT, "production.etl": 0, "production.serving": 0}
    assert abs(simulated(equal, demand, CPUS)["default"] - yarn_fill(company(), demand, CPUS)["default"]) > CPUS // 10


def test_the_queues_of_a_company_are_read() -> None:
    found = by_path(read_queues(CAPACITY.read_bytes(), "x"))
    assert [*found] == [
        "production",
        "production.etl",
        "production.serving",
        "research",
        "research.llm",
        "research.vision",
        "default",
    ]
    assert found["production"].max_pct == 80
    assert (found["research"].capacity_pct, found["research"].weight, found["default"].weight) == (37, 3, 1)
    assert (found["research.llm"].order, found["research.llm"].max_running_jobs) == (QueueOrder.FAIR, 20)
    assert found["production.etl"].order is QueueOrder.PRIORITY
    assert found["production"].order is QueueOrder.UNSPECIFIED


def test_each_setting_without_an_equivalent_is_named_with_what_to_do() -> None:
    said = notes(read_queues(CAPACITY.read_bytes(), "x"))
    assert [*said] == [
        "root.research.capacity",
        "root.research.llm.ordering-policy",
        "root.research.vision.maximum-capacity",
        "root.default.capacity",
        "maximum-applications",
        "maximum-am-resource-percent",
        "root.production.etl.priority",
        "root.production.serving.disable_preemption",
        "root.research.vision.user-limit-factor",
        "root.acl_submit_applications",
        "node-locality-delay",
        "queue-mappings",
    ]
    assert said["root.research.capacity"] == "37.5 % of its parent's are guaranteed as 37 %: whole ones only"
    assert "preemptible: false" in said["root.production.serving.disable_preemption"]


def test_a_setting_that_nobody_knows_is_named_too() -> None:
    found = imported(root__queues="a", root__a__capacity=100, root__a__colour="red", root__b__capacity=1, speed=9)
    assert {name for name, advice in notes(found).items() if "not known" in advice} == {
        "root.a.colour",
        "root.b.capacity",
        "speed",
    }
    foreign = b"<configuration><property><name>yarn.a</name></property><property><name>" + PREFIX.encode()
    found = read_queues(foreign + b"root.queues</name><value>a</value></property></configuration>", "x")
    assert "not known" in notes(found)["yarn.a"]


def test_weights_are_percentages_of_their_sum_and_amounts_stay_amounts() -> None:
    weighted = by_path(imported(root__queues="a,b", root__a__capacity="3w", root__b__capacity="1w"))
    assert [(queue.capacity_pct, queue.weight) for queue in weighted.values()] == [(75, 3), (25, 1)]
    amounts = by_path(
        imported(
            root__queues="a",
            root__a__capacity="[memory=10240,vcores=12,yarn.io/gpu=2]",
            root__a__maximum_capacity="[memory=20480, vcores=24]",
        )
    )["a"]
    assert dict(amounts.guaranteed) == {"cpu": 12_000, "gpu": 2_000, "memory": 10 << 30}
    assert dict(amounts.limit) == {"cpu": 24_000, "memory": 20 << 30}
    halves = imported(root__queues="a", root__a__capacity="[memory=50%,vcores=50%]")
    assert (by_path(halves)["a"].capacity_pct, halves.notes) == (50, ())
    mixed = imported(root__queues="a", root__a__capacity="[memory=50%,vcores=30%]")
    assert "write amounts" in notes(mixed)["root.a.capacity"]


def test_a_queue_without_a_guarantee_and_a_ceiling_of_nothing_are_still_queues() -> None:
    found = by_path(
        imported(root__queues="a,b", root__a__capacity=0, root__b__capacity=100, root__a__maximum_capacity=0)
    )
    assert (found["a"].capacity_pct, found["a"].max_pct, found["a"].weight) == (0, 1, 1)
    assert by_path(imported(root__queues="a", root__a__maximum_capacity=-1))["a"].max_pct == 100


def test_values_that_ask_for_what_is_done_anyway_need_no_note() -> None:
    found = imported(
        root__queues="a",
        root__a__capacity=100,
        root__a__state="RUNNING",
        root__a__acl_submit="x",
        resource_calculator="org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        node_locality_delay=-1,
        root__a__accessible_node_labels="*",
    )
    assert [*notes(found)] == ["root.a.acl-submit"]
    stopped = imported(root__queues="a", root__a__capacity=100, root__a__state="STOPPED")
    assert "takes jobs always" in notes(stopped)["root.a.state"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not XML"),
        (b"<configuration>", "not XML"),
        (b"\xff\xfe<", "not in UTF-8"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><configuration/>", "has a DOCTYPE"),
        (b"<queues/>", "expected <configuration> or <allocations>, got <queues>"),
        (b"<configuration/>", "is this a capacity-scheduler.xml?"),
        (b"<allocations/>", "is this a fair-scheduler.xml?"),
        (b"<configuration><property><value>1</value></property></configuration>", "a property without a name"),
        (b"<allocations><queue/></allocations>", "a <queue> without a name"),
        (
            b"<allocations><queue name='a'><weight>heavy</weight></queue></allocations>",
            "weight of a: expected a number",
        ),
        (b"<allocations><queue name='a'/><queue name='a'/></allocations>", "are both a"),
        (b"x" * (5 << 20), "larger than 4 MiB"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_line(content: bytes, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_queues(content, "x.xml")
    assert str(caught.value).startswith("x.xml: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"root__a__capacity": "lots"}, "root.a.capacity: cannot read 'lots'"),
        ({"root__a__capacity": "${share}"}, "root.a.capacity: cannot read"),
        ({"root__a__capacity": "1.2.3"}, "root.a.capacity: expected a number"),
        ({"root__a__capacity": "[memory=1e99]"}, "root.a.capacity: cannot read"),
        ({"root__a__capacity": "[memory=" + "9" * 50 + "]"}, "is out of range"),
        ({"root__a__max_parallel_apps": "many"}, "root.a.max-parallel-apps: expected a number"),
        ({"root__a__capacity": 60, "root__b__capacity": 60}, "these queues cannot be ours: its capacity"),
    ],
)
def test_a_value_that_is_none_is_refused_by_its_name(properties: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        imported(root__queues="a,b", **properties)
    assert words in str(caught.value)


def test_the_queues_of_a_fair_scheduler_are_read() -> None:
    found = read_queues(FAIR.read_bytes(), "x")
    queues = by_path(found)
    assert {path: queue.weight for path, queue in queues.items()} == {
        "sales": 3,
        "sales.reports": 1,
        "sales.adhoc": 1,
        "science": 2,
    }
    assert queues["sales"].max_pct == 60
    assert queues["sales.reports"].max_pct == 50
    assert queues["sales.reports"].order is QueueOrder.PRIORITY
    assert (queues["sales.adhoc"].max_running_jobs, queues["sales.reports"].max_running_jobs) == (40, 5)
    science = queues["science"]
    assert (science.type, dict(science.guaranteed)) == (QueueType.CAPACITY, {"cpu": 20_000, "memory": 10_000 << 20})
    assert dict(science.limit) == {"cpu": 100_000, "memory": 90_000 << 20}
    assert [note.name for note in found.notes] == [
        "<aclSubmitApps> of root",
        "<minSharePreemptionTimeout> of sales.reports",
        "<minResources> of science",
        "<maxAMShare> of science",
        "<user>",
        "<userMaxAppsDefault>",
        "<queuePlacementPolicy>",
    ]


def test_weights_of_a_fair_scheduler_share_a_full_cluster_as_they_say() -> None:
    demand = {"sales.reports": CPUS, "sales.adhoc": CPUS, "science": 0}
    assert simulated(read_queues(FAIR.read_bytes(), "x").queues, demand, CPUS) == {
        "sales.reports": 60,
        "sales.adhoc": 60,
        "science": 0,
    }


def test_the_command_prints_what_queue_apply_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["import", "yarn-queues", str(CAPACITY)]) == 0
    out, err = capsys.readouterr()
    queues, _ = parse_queue_file(out, "out")
    assert {queue.path: queue for queue in queues} == by_path(read_queues(CAPACITY.read_bytes(), "x"))
    assert "root.default.capacity = 12.5: 12.5 % of its parent's" in err
    assert "7 queues, 12 notes" in err
    assert run_cli(["import", "yarn-queues", str(FAIR), "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert (len(json.loads(out)["notes"]), err) == (7, "")
    assert yaml.safe_load(out)["queues"]


def test_a_file_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["import", "yarn-queues", "/nowhere.xml"]) == 2
    assert capsys.readouterr().err == "goschedctl: /nowhere.xml: cannot read the queues: No such file or directory\n"
