"""What plugins are asked and shown, what they may answer, and that none of them loses a cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gosched
from gosched.plugins import API_VERSION, REQUEST_FIELDS, BoolArray, IntArray, Nodes, Plugin, Request, Waiting
from gosched.plugins.hadoop import Hadoop
from gosched.plugins.kubernetes import HOSTNAME, NAMESPACES, SCHEDULE_ANYWAY, Kubernetes
from gosched.plugins.spark import Spark
from tests.plugins.cluster import asked, labelled, plan_with, view_of
from tests.scheduling.support.cluster import group, job, node, where, why

NODES = [node("a", cpu=2), node("b", cpu=2), node("c", cpu=4, gpu=1, labels=(("zone", "x"),))]


SHIPPED = (Spark, Hadoop, Kubernetes)


class Probe(Plugin):
    """Answers what the test wants."""

    name = "probe"
    api_version = 1

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        super().__init__(options or {})
        self.calls = 0


class Filters(Probe):
    def __init__(self, answer: Callable[[Request, Nodes], Any]) -> None:
        super().__init__()
        self.answer = answer

    def filter(self, request: Request, nodes: Nodes) -> Sequence[tuple[str, BoolArray]]:
        self.calls += 1
        return self.answer(request, nodes)  # type: ignore[no-any-return]


class Scores(Probe):
    def __init__(self, answer: Callable[[Request, Nodes], Any]) -> None:
        super().__init__()
        self.answer = answer

    def score(self, request: Request, nodes: Nodes) -> IntArray | None:
        self.calls += 1
        return self.answer(request, nodes)  # type: ignore[no-any-return]


class Orders(Probe):
    def __init__(self, answer: Callable[[Waiting], Any]) -> None:
        super().__init__()
        self.answer = answer

    def order(self, waiting: Waiting) -> Sequence[int] | None:
        self.calls += 1
        return self.answer(waiting)  # type: ignore[no-any-return]


def fail(*_: object) -> Any:
    raise RuntimeError("no idea\nwhat to do")


def write(column: Any) -> None:
    column[0] = 0


def test_the_version_is_one_until_something_is_taken_away() -> None:
    assert API_VERSION == 1
    assert REQUEST_FIELDS == (
        "job_id", "job_name", "queue", "tenant", "group", "count", "resources", "gpu_model", "standing", "allowed",
    )  # fmt: skip


def test_the_guide_names_every_label_option_field_and_name_of_the_interface() -> None:
    guide = (Path(gosched.__file__).parents[1] / "docs" / "guides" / "plugins.md").read_text()
    labels = [label for plugin in SHIPPED for label in (*plugin.job_labels, *plugin.tracked_labels)]
    methods = [name for name in vars(Nodes) if not name.startswith("_")]
    names = [*labels, *REQUEST_FIELDS, *methods, "rack_label", "balance", NAMESPACES, HOSTNAME, SCHEDULE_ANYWAY]
    assert [name for name in names if name not in guide] == []


# Answers that count


def test_a_filter_keeps_tasks_away_and_explanations_count_it_by_its_name() -> None:
    plugin = Filters(lambda request, nodes: [("painted red", ~np.isin(nodes.ids, ["a", "c"]))])
    plan = plan_with([plugin], NODES, [job(1, group()), job(2, group(cpu=2)), job(3, group(2, cpu=1))])
    assert where(plan) == {"j1": "b"}
    assert plan.explanations["j3"].refused == (("painted red", 2),)
    nowhere = Filters(lambda request, nodes: [("painted red", np.zeros(len(nodes), dtype=bool))])
    plan = plan_with([nowhere], NODES, [job(1, group())])
    assert why(plan, "j1") == "every ready node that fits otherwise is painted red"


def test_scores_come_before_the_strategy_and_those_of_several_plugins_add_up() -> None:
    first = Scores(lambda request, nodes: np.array([0, 60, 50]))
    second = Scores(lambda request, nodes: np.array([0, 0, 20], dtype=np.uint8))
    nobody = Scores(lambda request, nodes: None)
    second.name, nobody.name = "second", "nobody"
    jobs = [job(1, group())]
    assert where(plan_with([], NODES, jobs)) == {"j1": "a"}
    assert where(plan_with([nobody], NODES, jobs)) == {"j1": "a"}
    assert where(plan_with([first], NODES, jobs)) == {"j1": "b"}
    assert where(plan_with([first, second, nobody], NODES, jobs)) == {"j1": "c"}


def test_an_order_goes_before_priority_and_equal_keys_keep_the_queues_order() -> None:
    jobs = [job(1, group(cpu=4)), job(2, group(cpu=4), priority=5), job(3, group(cpu=4)), job(4, group(cpu=4))]
    room = [node("a", cpu=8)]
    assert set(where(plan_with([], room, jobs))) == {"j2", "j1"}
    last = Orders(lambda waiting: [int(job_id == "j2") for job_id in waiting.job_ids])
    assert set(where(plan_with([last], room, jobs))) == {"j1", "j3"}
    backwards = Orders(lambda waiting: np.arange(len(waiting))[::-1])
    backwards.name = "backwards"
    assert set(where(plan_with([backwards], room, jobs))) == {"j4", "j3"}
    assert set(where(plan_with([last, backwards], room, jobs))) == {"j4", "j3"}  # the first counts most: 2 is last
    assert set(where(plan_with([Orders(lambda waiting: None)], room, jobs))) == {"j2", "j1"}


def test_waiting_shows_a_column_for_each_thing() -> None:
    seen: list[Any] = []

    def look(waiting: Waiting) -> None:
        seen.extend([waiting.queue, waiting.job_ids, waiting.job_names, waiting.tenants, waiting.label("team")])
        seen.extend([waiting.priorities.tolist(), waiting.tasks.tolist(), waiting.deadlines_ms.tolist()])

    plan_with([Orders(look)], NODES, [labelled(1, {"team": "nlp"}), job(2, group(3), priority=9)])
    tenant = view_of([], [job(1, group())]).pending[0].tenant
    assert seen == ["default", ["j2", "j1"], ["job-2", "job-1"], [tenant] * 2, ["", "nlp"], [9, 0], [3, 1], [0, 0]]


# What is shown


def test_nodes_show_amounts_labels_and_hosts() -> None:
    def look(request: Request, nodes: Nodes) -> None:
        assert (nodes.ids, nodes.names, nodes.ready.tolist()) == (("a", "b", "c"), ("a", "b", "c"), [True] * 3)
        assert nodes.capacity("cpu").tolist() == [2000, 2000, 4000]
        assert nodes.free("gpu").tolist() == [0, 0, 1000]
        assert nodes.free("memory").tolist() == [16 << 30] * 3
        assert nodes.capacity("licences").tolist() == [0, 0, 0]
        codes, values = nodes.label("zone")
        assert (codes.tolist(), values) == ([-1, -1, 0], ("x",))
        assert nodes.having("zone", ["x", "y"]).tolist() == [False, False, True]
        assert nodes.having("zone", []).tolist() == [False, False, False]
        assert nodes.having("floor", ["x"]).tolist() == [False, False, False]
        assert nodes.rows(["c", "nobody", "a"]).tolist() == [2, 0]

    plugin = Scores(look)
    asked(plugin, NODES, job(1, group()))
    assert plugin.calls == 1


def test_a_request_shows_what_the_plugin_reads_and_nothing_else() -> None:
    shown: list[Any] = []

    def look(request: Request, nodes: Nodes) -> None:
        shown.append(dict(request.labels))
        shown.append([getattr(request, name, "hidden") for name in REQUEST_FIELDS[:6]])
        shown.append(request.allowed.tolist())

    plugin = Scores(look)
    plugin.job_labels, plugin.reads = ("team",), ("queue", "group", "allowed")
    asked(plugin, NODES, labelled(1, {"team": "nlp", "other": "x"}))
    assert shown == [{"team": "nlp"}, ["hidden", "hidden", "default", "hidden", "worker", "hidden"], [True] * 3]
    plan = plan_with([Scores(lambda request, nodes: request.tenant)], NODES, [job(1, group())])
    assert plan.faults == ('probe: score raised AttributeError: tenant is not shown: name it in "reads"',)


def test_every_field_that_can_be_read_is_there_when_it_is_read() -> None:
    shown: list[Any] = []
    plugin = Scores(lambda request, nodes: shown.extend(getattr(request, name) for name in REQUEST_FIELDS))
    plugin.reads = REQUEST_FIELDS
    asked(plugin, NODES, job(1, group(2, cpu=1)))
    assert shown[:2] == ["j1", "job-1"]
    assert shown[6].cpu_millis == 1000


def test_requests_that_show_the_same_share_one_answer() -> None:
    plugin = Scores(lambda request, nodes: None)
    jobs = [labelled(i, {"team": "nlp" if i % 2 else "cv", "i": str(i)}, cpu=0.01 * i) for i in range(1, 11)]
    plan_with([plugin], NODES, jobs)
    assert plugin.calls == 1
    plugin.job_labels = ("team",)
    plan_with([plugin], NODES, jobs)
    assert plugin.calls == 1 + 2
    plugin.reads = ("resources",)
    plan_with([plugin], NODES, jobs)
    assert plugin.calls == 1 + 2 + 10


def test_where_alike_jobs_stand_includes_what_the_cycle_placed() -> None:
    seen: list[list[int]] = []
    plugin = Scores(lambda request, nodes: seen.append(request.alike["app"].tolist()))
    plugin.tracked_labels = ("app",)
    jobs = [labelled(i, {"app": "web"}, cpu=2) for i in (1, 2, 3)]
    plan_with([plugin], NODES, jobs, [({"app": "web"}, "b c c"), ({"app": "db"}, "a")])
    assert seen == [[0, 1, 2], [1, 1, 2], [1, 2, 2]]


# Answers that do not count

FAULTS = [
    (Filters(fail), "filter raised RuntimeError: no idea what to do"),
    (Scores(fail), "score raised RuntimeError: no idea what to do"),
    (Orders(fail), "order raised RuntimeError: no idea what to do"),
    (Filters(lambda r, n: [("x", [True] * 3)]), "filter gave list, expected an array of 3 booleans"),
    (
        Filters(lambda r, n: [("x", np.ones(2, dtype=bool))]),
        "filter gave bool of shape (2,), expected an array of 3 booleans",
    ),
    (Filters(lambda r, n: [("x", np.ones(3))]), "filter gave float64 of shape (3,), expected an array of 3 booleans"),
    (
        Filters(lambda r, n: [("\n", np.ones(3, dtype=bool))]),
        "filter named a mask '\\n', expected a printable text of up to 64 letters",
    ),
    (Filters(lambda r, n: None), "filter raised TypeError: 'NoneType' object is not iterable"),
    (Scores(lambda r, n: np.zeros(3)), "score gave float64 of shape (3,), expected an array of 3 integers"),
    (Scores(lambda r, n: np.zeros((3, 1), int)), "score gave int64 of shape (3, 1), expected an array of 3 integers"),
    (Scores(lambda r, n: np.array([0, 101, 3])), "score gave 0 to 101, expected 0 to 100"),
    (Scores(lambda r, n: np.array([-1, 1, 3])), "score gave -1 to 3, expected 0 to 100"),
    (Scores(lambda r, n: 7), "score gave int, expected an array of 3 integers"),
    (Orders(lambda w: [1]), "order gave int64 of shape (1,), expected an array of 2 integers"),
    (Orders(lambda w: ["a", "b"]), "order gave <U1 of shape (2,), expected an array of 2 integers"),
    (Scores(lambda r, n: write(n.ready)), "score raised ValueError: assignment destination is read-only"),
    (Scores(lambda r, n: write(n.free("cpu"))), "score raised ValueError: assignment destination is read-only"),
    (Scores(lambda r, n: write(n.label("zone")[0])), "score raised ValueError: assignment destination is read-only"),
    (Scores(lambda r, n: setattr(r, "labels", {})), "score raised AttributeError: a request cannot be changed"),
]


@pytest.mark.parametrize(("plugin", "why"), FAULTS, ids=[why for _, why in FAULTS])
def test_a_bad_answer_switches_the_plugin_off_and_the_cycle_goes_on(plugin: Probe, why: str) -> None:
    plugin.calls = 0
    jobs = [labelled(1, {"team": "a"}), labelled(2, {"team": "b"})]
    plugin.job_labels = ("team",)
    good = Scores(lambda request, nodes: np.array([0, 0, 9]))
    good.name = "good"
    plan = plan_with([plugin, good], NODES, jobs)
    assert where(plan) == {"j1": "c", "j2": "c"}
    assert plan.faults == (f"probe: {why}",)
    assert plugin.calls == 1  # nobody asks it again


def test_what_a_faulty_plugin_said_before_no_longer_holds() -> None:
    def once(request: Request, nodes: Nodes) -> list[tuple[str, BoolArray]]:
        return [("closed", np.zeros(3, dtype=bool))] if request.labels["team"] == "a" else fail()

    plugin = Filters(once)
    plugin.job_labels = ("team",)
    jobs = [labelled(1, {"team": "a"}), labelled(2, {"team": "b"}), labelled(3, {"team": "a"})]
    plan = plan_with([plugin], NODES, jobs)
    assert set(where(plan)) == {"j2", "j3"}


def test_masks_of_a_plugin_whose_score_fails_do_not_hold() -> None:
    class Both(Filters):
        def score(self, request: Request, nodes: Nodes) -> IntArray | None:
            return fail()  # type: ignore[no-any-return]

    plugin = Both(lambda request, nodes: [("closed", np.zeros(3, dtype=bool))])
    plan = plan_with([plugin], NODES, [job(1, group())])
    assert where(plan) == {"j1": "a"}
    assert plan.faults == ("probe: score raised RuntimeError: no idea what to do",)


def test_an_answer_that_is_written_to_later_changes_nothing() -> None:
    kept = np.array([0, 0, 100])
    plugin = Scores(lambda request, nodes: kept)

    def spoil(request: Request, nodes: Nodes) -> None:
        kept[:] = [100, 0, 0]

    spoiler = Scores(spoil)
    spoiler.name = "spoiler"
    assert where(plan_with([plugin, spoiler], NODES, [job(1, group())])) == {"j1": "c"}
    assert kept.tolist() == [100, 0, 0]

    mask = np.array([False, False, True])
    closed = Filters(lambda request, nodes: [("closed", mask)])
    spoiler.answer = lambda request, nodes: mask.fill(True)
    assert where(plan_with([closed, spoiler], NODES, [job(1, group())])) == {"j1": "c"}
    assert mask.all()


def test_a_method_that_is_not_overridden_is_not_called() -> None:
    assert plan_with([Probe()], NODES, [job(1, group())]).faults == ()


def test_a_plugin_without_options_refuses_any() -> None:
    with pytest.raises(ValueError, match="it has no option 'speed'; there are none"):
        Probe({"speed": "1"})
