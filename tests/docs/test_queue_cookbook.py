"""What the cookbook of queues says of each recipe, simulated with the recipe's own trace.

The numbers of CLAIMS are the recipes', its rows what became of equal jobs: how many, their name, and each attempt's
start and end in minutes, with the cause of an eviction.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from gosched.config import load_master_settings
from gosched.config.load import parse_queue_file
from gosched.sim.cluster.policy import policy_of
from gosched.sim.cluster.recorder import JobRecord
from gosched.sim.cluster.simulator import Simulator
from gosched.sim.cluster.traces import read_nodes
from gosched.sim.cluster.traces.native import read
from tests.docs.pages import ROOT, Block, blocks

PAGE = ROOT / "docs/guides/queue-cookbook.md"
FILES = [block for block in blocks(PAGE) if block.language == "yaml"]
NODES, RECIPES = FILES[0], list(zip(FILES[1::2], FILES[2::2], strict=True))

CLAIMS = {
    1: ["60 p 0-10", "40 p 0-1 RECLAIM 10-20", "1 b 1-11"],
    2: ["20 t 0-10", "10 t 10-20"],
    3: ["100 p 0-10", "1 b 10-20"],
    4: ["50 s 0-10", "50 s 0-1 RECLAIM 6-16", "1 p 1-6"],
    5: ["1 ann-1 0-10", "1 ben-1 10-20", "1 ann-2 20-30"],
    6: ["1 a 0-10", "1 b 10-20", "1 c 1-11"],
    7: ["1 prod 0-10", "40 l 0-10", "20 l 10-20", "20 v 0-10", "40 v 10-20"],
    8: ["8 e 0-10", "8 e 0-1 RECLAIM 10-20", "1 o 1-11"],
    9: ["96 big 0-10", "4 big 0-1 RECLAIM 6-16", "1 notebook 1-6"],
    10: ["1 now 0-10", "1 early 10-20", "1 late 20-30"],
}


def course(job: JobRecord) -> str:
    """Return the job's name, without the index of an element, and its attempts."""
    words = [job.name.partition(".")[0]]
    for attempt in job.attempts:
        words.append(f"{attempt.start_ms / 60_000:g}-{attempt.end_ms / 60_000:g}")
        if attempt.ended_by != "SUCCEEDED":
            words.append(attempt.ended_by)
    return " ".join(words)


def simulated(config: Block, trace: Block, folder: Path) -> list[str]:
    path = folder / "queues.yaml"
    path.write_text(config.text)
    settings = load_master_settings(str(path), {})
    simulator = Simulator(
        read(trace.text, trace.place).jobs,
        read_nodes(NODES.text, NODES.place),
        policy_of(settings),
        queues=settings.queue_records(),
        quotas=settings.quota_records(),
    )
    courses = Counter(course(job) for job in simulator.run().jobs.values())
    return [f"{count} {what}" for what, count in courses.items()]


@pytest.mark.parametrize("number", CLAIMS)
def test_a_recipe_does_what_the_page_says(number: int, tmp_path: Path) -> None:
    assert sorted(simulated(*RECIPES[number - 1], tmp_path)) == sorted(CLAIMS[number])


@pytest.mark.parametrize("number", CLAIMS)
def test_a_recipe_can_be_applied(number: int) -> None:
    config = RECIPES[number - 1][0]
    queues, _ = parse_queue_file(config.text, config.place)
    assert len(queues) >= 2


def test_each_recipe_has_its_claim() -> None:
    numbers = [int(number) for number in re.findall(r"(?m)^## (\d+)\. ", PAGE.read_text())]
    assert numbers == [*CLAIMS] == [*range(1, len(RECIPES) + 1)]


def test_an_elastic_job_gives_tasks_and_runs_on_as_the_first_recipe_says(tmp_path: Path) -> None:
    config, trace = RECIPES[0]
    elastic = replace(trace, text=trace.text.replace("array: {range: 1-100}", "count: 100, gang: {min: 1}"))
    assert "gang: {min: 1}" in elastic.text
    assert sorted(simulated(config, elastic, tmp_path)) == ["1 b 1-11", "1 p 0-10"]


def test_another_config_has_another_result(tmp_path: Path) -> None:
    gentle, sharp = RECIPES[2][0], RECIPES[0][0]
    trace = RECIPES[2][1]
    assert simulated(gentle, trace, tmp_path) != simulated(sharp, trace, tmp_path)
