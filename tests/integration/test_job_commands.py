"""`goschedctl job` on a real cluster: lists, selectors, several waits, interrupts, and the attempt that is shown."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.cli.local_cluster import LocalCluster
from gosched.core.commands.jobs import Action
from gosched.core.records.job import JobState

from .support import PATIENCE_S, ledger_job, starts, until, until_there


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=1, agents=1) as running:
        yield running


def ctl(cluster: LocalCluster, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gosched.cli.main", "--endpoints", cluster.endpoints, *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def rows(cluster: LocalCluster, *words: str) -> dict[str, dict[str, object]]:
    answer = ctl(cluster, "job", "list", "-o", "json", *words)
    assert answer.returncode == 0, answer.stderr
    return {row["name"]: row for row in json.loads(answer.stdout)}


def test_a_job_is_shown_as_a_file_submitted_again_listed_and_cancelled_by_its_label(cluster: LocalCluster) -> None:
    with cluster.client() as client:
        client.submit("name: first\nlabels: {of: trip}\nresources: {cpu: 100m, memory: 1Mi}\nrun: sleep 600\n")
        file = ctl(cluster, "job", "show", "first", "-o", "yaml").stdout
        assert ctl(cluster, "submit", "-", given=file.replace("first", "second")).returncode == 0
        until(lambda: client.get_job("second").state is JobState.RUNNING, "it runs")
        assert client.get_job("second").job.spec.groups == client.get_job("first").job.spec.groups
        listed = rows(cluster, "-l", "of=trip", "--state", "running,pending")
        assert set(listed) == {"first", "second"}
        done = ctl(cluster, "job", "cancel", "-l", "of=trip")
        assert (done.returncode, done.stderr.count(": cancelled\n")) == (0, 2)
        client.wait("first", timeout=PATIENCE_S)
        again = ctl(cluster, "job", "cancel", "first")
        assert again.returncode == 1
        assert "it ended CANCELLED" in again.stderr


def test_a_wait_for_several_returns_the_code_of_the_one_that_failed_and_an_interrupt_says_that_they_go_on(
    cluster: LocalCluster,
) -> None:
    with cluster.client() as client:
        for name, run in (("well", "true"), ("badly", "exit 7"), ("long", "sleep 600")):
            client.submit(f"name: {name}\nretry: {{max: 0}}\nresources: {{cpu: 100m, memory: 1Mi}}\nrun: '{run}'\n")
        assert ctl(cluster, "job", "wait", "well", "badly").returncode == 7
        assert ctl(cluster, "job", "wait", "--any", "long", "well").returncode == 0
        command = [sys.executable, "-m", "gosched.cli.main", "--endpoints", cluster.endpoints, "job", "wait", "long"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stderr is not None
            assert waiting.stderr.readline().startswith("long: ")
            waiting.send_signal(signal.SIGINT)
            _, err = waiting.communicate(timeout=PATIENCE_S)
        assert waiting.returncode == 130
        assert "interrupted: long (j-" in err
        assert " goes on; goschedctl job wait j-" in err
        assert client.get_job("long").state in (JobState.PENDING, JobState.RUNNING)
        client.cancel("long")


def test_an_array_is_held_released_and_cancelled_by_its_name(cluster: LocalCluster) -> None:
    with cluster.client() as client:
        array = "name: sweep\narray: {range: 0-3}\nresources: {cpu: 64, memory: 1Mi}\nrun: sleep 600\n"
        client.submit(array)
        held = ctl(cluster, "job", "hold", "sweep").stderr
        assert held.endswith(": held, and 4 jobs of it that waited\n")
        elements = rows(cluster, "--array", "sweep")
        assert [row["wait"]["code"] for row in elements.values()] == ["HELD"] * 4  # type: ignore[index]
        assert ctl(cluster, "job", "release", "sweep").stderr.endswith(": released, and 4 jobs of it that waited\n")
        assert ctl(cluster, "job", "cancel", "sweep").returncode == 0
        until(lambda: client.get_job("sweep").state is JobState.CANCELLED, "all of it is cancelled")
        assert {row["state"] for row in rows(cluster, "--array", "sweep").values()} == {"CANCELLED"}


def test_the_attempt_is_the_same_everywhere(cluster: LocalCluster, tmp_path: Path) -> None:
    ledger, go = tmp_path / "ledger", tmp_path / "go"
    more = "retry: {max: 1, when: [failed]}"
    with cluster.client() as client:
        job = client.submit(ledger_job("again", ledger, then=f"{until_there(go)}; exit 3", more=more)).job_id
        until(lambda: len(starts(ledger)) == 1, "it runs")
        client.control(job, Action.HOLD)  # so that it waits for its second attempt as long as this takes
        go.touch()
        until(lambda: client.get_job(job).state is JobState.PENDING, "it waits again")
        shown = json.loads(ctl(cluster, "job", "show", job, "-o", "json").stdout)
        assert (shown["attempt"], len(shown["attempts"]), shown["tasks"][0]["attempt"]) == (1, 1, 1)
        assert "Attempt    1, and waits for the next one\n" in ctl(cluster, "job", "show", job).stdout
        client.control(job, Action.RELEASE)
        waited = ctl(cluster, "job", "wait", job)
        assert waited.returncode == 3
        assert "attempt 3" not in waited.stderr
        shown = json.loads(ctl(cluster, "job", "show", job, "-o", "json").stdout)
        told = [attempt for _, attempt, _ in starts(ledger)]  # GOSCHED_ATTEMPT of each start
        assert told == [1, 2] == [attempt["number"] for attempt in shown["attempts"]]
        assert (shown["attempt"], rows(cluster, "-a")["again"]["attempt"]) == (2, 2)
        (ended,) = [one for one in client.finished_jobs() if one.job_id == job]
        assert ended.attempts == 2
