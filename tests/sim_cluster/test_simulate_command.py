"""`goschedctl simulate`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gosched.cli.main import run_cli
from tests.sim_cluster.test_traces import swf, write

TRACE = "- {at: 0s, duration: 1m, job: {name: a, queue: dev, count: 2}}\n- {at: 5s, duration: 1m, job: {name: b}}\n"
NODES = "- {count: 2, name: n, cpu: 1, memory: 8Gi}\n"
QUEUES = "queues: [{name: dev, type: capacity, capacity_pct: 50}]\nscheduling: {reservations: all}\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    made = {"trace": ("t.yaml", TRACE), "nodes": ("n.yaml", NODES), "queues": ("q.yaml", QUEUES)}
    return {what: str(write(tmp_path, name, text)) for what, (name, text) in made.items()}


def simulate(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run_cli(["simulate", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_summary_is_on_stdout(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = simulate(capsys, files["trace"], "--nodes", files["nodes"], "--queues", files["queues"])
    assert (code, err) == (0, "")
    assert out.startswith("Jobs       2 with 3 tasks: 2 SUCCEEDED\n")


def test_json_is_the_same_twice_but_for_timings(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    words = (files["trace"], "--nodes", files["nodes"], "--queues", files["queues"], "-o", "json", "--seed", "7")
    first, second = (json.loads(simulate(capsys, *words)[1]) for _ in range(2))
    assert first["inputs"]["seed"] == 7
    assert {**first, "timings": 0} == {**second, "timings": 0}


def test_the_page_is_written(files: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = (files["trace"], "--nodes", files["nodes"], "--queues", files["queues"])
    code, _, err = simulate(capsys, *words, "--html", str(tmp_path / "r.html"))
    assert code == 0
    assert err.strip() == f"plots: {tmp_path / 'r.html'}"
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_an_swf_log_needs_no_nodes_and_takes_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(write(tmp_path, "a.swf", "; MaxProcs: 4", *[swf(n=i, submit=i) for i in range(5)]))
    alone = json.loads(simulate(capsys, log, "-o", "json", "--limit", "3")[1])
    spread = json.loads(simulate(capsys, log, "-o", "json", "--swf-nodes", "2", "--cpus-per-node", "4")[1])
    assert (alone["inputs"]["nodes"], alone["summary"]["tasks"]) == (1, 3)
    assert (spread["inputs"]["nodes"], spread["summary"]["tasks"]) == (2, 20)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["{trace}"], 2, "the trace has no nodes: give --nodes FILE"),
        (["{trace}", "--nodes", "{nodes}"], 1, "SubmitJob: "),
        (["{trace}", "--nodes", "{nodes}", "--reservations", "some"], 2, "expected a number or all"),
        (["{trace}", "--nodes", "{nodes}", "--period", "10"], 2, "a duration with a unit"),
        (["{trace}", "--swf-nodes", "2"], 2, "--swf-nodes and --cpus-per-node must be given together"),
        (["{nodes}", "--nodes", "{nodes}"], 2, "unknown key"),
    ],
)
def test_what_cannot_be_simulated_is_one_line(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], words: list[str], code: int, says: str
) -> None:
    found, out, err = simulate(capsys, *[word.format(**files) for word in words])
    assert (found, out) == (code, "")
    assert says in err
    assert err.count("\n") == 1
