"""Figures, text and page: right for a run small enough to reckon by hand, and the same each time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from gosched.core.records.queue import Queue, QueueOrder
from gosched.core.resources import Resources
from gosched.core.spec.task_group import TaskGroup
from gosched.scheduling import Policy
from gosched.sim.cluster.page import page
from gosched.sim.cluster.report import Json, as_text, percentile, report, spread
from gosched.sim.cluster.series import FIRST_WIDTH_MS, MOST_BUCKETS, Series
from gosched.sim.cluster.svg import ticks
from gosched.sim.cluster.trace import COMMAND
from tests.sim_cluster.support import job, nodes, simulated

INPUTS = {"trace": "<made> up", "seed": 1, "left_out": [["no run time", 2]]}


def made(jobs=None, **more) -> Json:  # type: ignore[no-untyped-def]
    jobs = jobs or [job(0, 100, cpus=4, name="a"), job(0, 5, cpus=4, name="b"), job(0, None, cpus=5, name="never")]
    policy = Policy(order=QueueOrder.FIFO, reservations=0)
    return report(simulated(jobs, nodes(), policy=policy, **more), INPUTS, 1.5)


def test_waits_slowdowns_and_use_are_those_of_the_run() -> None:
    found = made()["summary"]
    assert found["states"] == {"PENDING": 1, "SUCCEEDED": 2}
    assert found["wait_s"]["mean"] == 50
    assert found["bounded_slowdown"]["mean"] == (1 + 105 / 10) / 2, "a job of 5 s counts as one of 10 s"
    assert found["utilisation_pct"]["cpu"] == 100
    assert found["end_ms"] == 105_000
    assert (found["starts"], found["evictions"], found["lost_work_pct"]) == (2, {}, 0)


def test_work_is_counted_by_what_became_of_it() -> None:
    jobs = [
        job(0, 100, cpus=4, name="low"),
        job(40, 20, cpus=4, name="high", priority=900),
        job(200, 100, cpus=2, name="killed", timeout_ms=10_000),
        job(210, None, cpus=1, name="endless"),
        job(220, 5, cpus=3, name="last"),
    ]
    data = report(simulated(jobs, nodes()), INPUTS, 1.0)
    assert data["summary"]["work"] == {
        "cpu": {
            "useful_s": 4 * 100 + 4 * 20 + 3 * 5,
            "lost_s": 4 * 40,
            "unfinished_s": 2 * 10 + 1 * 15,
            "lost_pct": round(100 * 160 / 690, 3),
            "utilisation_pct": round(100 * 495 / (4 * 225), 3),
        }
    }
    held = data["summary"]["utilisation_pct"]["cpu"]
    assert held == round(100 * 690 / (4 * 225), 3), "all that was held is useful, lost or unfinished"


def test_work_is_told_in_gpus_where_there_are_some() -> None:
    group = TaskGroup(name="task", count=1, resources=Resources(cpu_millis=1000, gpu_millis=8000), command=COMMAND)
    plain = job(0, 3600)
    wide = replace(plain, spec=replace(plain.spec, groups=(group,)))
    data = report(simulated([wide], nodes(cpus=16, gpus=8)), INPUTS, 1.0)
    assert "8.00 GPU-hours useful (100.0 % of the cluster), 0.00 lost to evictions (0.00 % of all work)" in as_text(
        data
    )
    assert data["summary"]["work"]["cpu"]["useful_s"] == 3600
    assert "<td>GPU</td><td>8.00</td><td>0.00</td><td>0.00</td><td>0.00 %</td><td>100.0 %</td>" in page(data)


def test_a_report_without_work_still_has_a_page() -> None:
    data = made()
    del data["summary"]["work"]
    assert "</html>" in page(data)


def test_a_killed_job_is_measured_by_how_long_it_ran() -> None:
    found = made([job(0, 100, name="a", timeout_ms=20_000)])["summary"]
    assert found["bounded_slowdown"]["mean"] == 1


def test_only_timings_differ_between_runs() -> None:
    first, second = made(), made()
    assert first.pop("timings") != {}
    assert second.pop("timings") != {}
    assert json.dumps(first) == json.dumps(second)


def test_the_text_fits_a_terminal_and_says_what_was_left_out() -> None:
    text = as_text(made())
    assert "3 with 3 tasks: 1 PENDING, 2 SUCCEEDED" in text
    assert "2 lines with no run time" in text
    assert max(map(len, text.splitlines())) < 120


def test_queues_are_listed_when_there_are_several() -> None:
    queues = (Queue(path="a"), Queue(path="default"))
    data = made([job(0, 10, cpus=2, queue="a"), job(0, 10, cpus=1)], queues=queues)
    assert [(queue["name"], queue["share_pct"]) for queue in data["queues"]] == [("a", 50.0), ("default", 25.0)]
    assert "QUEUE" in as_text(data)


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_needs_nothing_from_outside_and_escapes_names() -> None:
    queues = (Queue(path="a"), Queue(path="default"))
    text = page(made([job(i, 10, name=f"j{i}", queue="a") for i in range(200)], queues=queues))
    elements = Elements()
    elements.feed(text)
    assert {tag for tag, _ in elements.found}.isdisjoint({"script", "link", "img", "iframe"})
    assert "http" not in text
    assert "&lt;made&gt; up" in text
    assert "<made>" not in text
    assert sum(tag == "svg" for tag, _ in elements.found) == 5
    assert len(text) < 300_000


def test_every_plot_names_its_axes_with_units() -> None:
    plots = re.findall(r"<svg.*?</svg>", page(made()))
    titles = [" ".join(re.findall(r">([^<]+)</text>", plot)) for plot in plots]
    assert all("time" in words for words in titles)
    for wanted in ("in use, %", "jobs", "time, seconds"):
        assert any(wanted in words for words in titles)


def test_a_run_without_jobs_has_a_page_too() -> None:
    data = report(simulated([], nodes()), INPUTS, 0.0)
    assert "Jobs       0 with 0 tasks" in as_text(data)
    assert "</html>" in page(data)


def test_series_keep_their_sums_however_long_the_run() -> None:
    series = Series(["x"])
    at = 0
    for step in range(1, 3000):
        at += step * 977
        series.hold(at, [step % 7])
    exact = sum(step * 977 * (step % 7) for step in range(1, 3000))
    assert series.total("x") == exact
    assert len(series.column("x")) <= MOST_BUCKETS
    assert series.width_ms > FIRST_WIDTH_MS


def test_percentiles_are_nearest_ranks() -> None:
    assert [percentile([1, 2, 3, 4], part) for part in (0, 50, 75, 99)] == [1, 2, 3, 4]
    assert spread([])["mean"] is None


@pytest.mark.parametrize("top", [0.003, 1, 7, 104, 2_000_000])
def test_ticks_are_few_and_round(top: float) -> None:
    found = ticks(top)
    assert 3 <= len(found) <= 10
    assert found[-1] <= top * 1.001
