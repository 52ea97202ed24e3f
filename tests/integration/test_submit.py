"""`submit`, `run` and `plan` as people type them, on a whole cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.cli.local_cluster import LocalCluster
from tests.cli.examples import commands, examples
from tests.integration.support import goschedctl, until

BIN = Path(sys.executable).parent
RUN = [("submit",), ("run",), ("plan",), ("job", "validate"), ("job", "schema")]
PASTED = [line for path, command in commands() if path in RUN for line in examples(command)]
SLOW = "trap 'echo saving; sleep 0.3; echo saved; exit 5' TERM; echo started; sleep 1000 & wait"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=1, agents=2) as cluster:
        yield cluster


def env(cluster: LocalCluster) -> dict[str, str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "GOSCHED_ENDPOINTS": cluster.endpoints, "PATH": path, "NO_COLOR": "1"}


def state_of(cluster: LocalCluster, job: str) -> str:
    return json.loads(goschedctl(cluster.endpoints, "job", "show", job, "-o", "json").stdout)["state"]


def started(cluster: LocalCluster, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(BIN / "goschedctl"), *words],
        env=env(cluster),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("line", PASTED)
def test_an_example_of_the_help_works_when_it_is_pasted(cluster, tmp_path, line) -> None:
    (tmp_path / "job.yaml").write_text("name: job\nrun: echo hello\nresources: {cpu: 0.1}\n")
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=tmp_path, env=env(cluster), capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr


def test_flags_over_a_file_reach_the_task_and_its_output_the_file(cluster, tmp_path) -> None:
    job, log = tmp_path / "job.yaml", tmp_path / "out.log"
    job.write_text("name: job\nrun: echo $A $B in $PWD; echo err >&2; exit $C\nenv: {A: 1, C: 0}\nretry: {max: 0}\n")
    words = ["--name", "over", "--chdir", "/", "--env", "B=2", "--set", "env.C=7", "--output", str(log)]
    done = goschedctl(cluster.endpoints, "submit", str(job), *words)
    assert (done.returncode, done.stdout) == (7, "")
    assert sorted(log.read_text().splitlines()) == ["1 2 in /", "err"]
    assert "over: failed" in done.stderr


def test_a_file_that_cannot_be_written_to_is_an_error_before_there_is_a_job(cluster) -> None:
    done = goschedctl(cluster.endpoints, "submit", "--name", "never", "--output", "/no/such/dir/log", "--", "true")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert goschedctl(cluster.endpoints, "job", "show", "never").returncode == 1


def test_an_interrupted_wait_says_that_the_job_goes_on(cluster) -> None:
    with started(cluster, "submit", "--wait", "--name", "goes-on", "--", "sleep", "1000") as waits:
        job = waits.stdout.readline().strip()
        until(lambda: state_of(cluster, "goes-on") == "RUNNING", "it runs")
        waits.send_signal(signal.SIGINT)
        _, said = waits.communicate(timeout=60)
    assert waits.returncode == 130
    assert f"interrupted: goes-on ({job}) goes on" in said
    assert f"goschedctl job cancel {job}" in said
    assert state_of(cluster, "goes-on") == "RUNNING"
    assert goschedctl(cluster.endpoints, "job", "cancel", job).returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_cancels_the_job_and_shows_the_rest_of_its_output(cluster, number, code) -> None:
    with started(cluster, "run", "--name", f"saves-{code}", "--", "sh", "-c", SLOW) as run:
        assert run.stdout.readline() == "started\n"
        run.send_signal(number)
        rest, said = run.communicate(timeout=60)
    assert (run.returncode, rest) == (code, "saving\nsaved\n")
    assert "interrupted: " in said
    assert f"saves-{code}: cancelled" in said
    assert state_of(cluster, f"saves-{code}") == "CANCELLED"


def test_a_second_ctrl_c_leaves_at_once(cluster) -> None:
    with started(cluster, "run", "--name", "stubborn", "--", "sh", "-c", "trap '' TERM; echo on; sleep 1000") as run:
        assert run.stdout.readline() == "on\n"
        run.send_signal(signal.SIGINT)
        line = iter(run.stderr.readline, "")
        assert any("is cancelled" in text for text in line)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=8)  # stop_grace is 10 s
    assert run.returncode == 130
    assert "is being cancelled; goschedctl logs -f" in said


def test_a_run_that_nobody_reads_is_cancelled(cluster) -> None:
    with started(cluster, "run", "--name", "unread", "--", "sh", "-c", "while echo y; do sleep 0.01; done") as run:
        run.stdout.readline()
        run.stdout.close()
        run.stdout = None
        run.communicate(timeout=60)
    until(lambda: state_of(cluster, "unread") == "CANCELLED", "it is cancelled")


def test_what_can_never_start_is_said_at_submit_once_in_plan_and_in_explain(cluster, tmp_path) -> None:
    queues = tmp_path / "queues.yaml"
    queues.write_text("queues: [{name: default}, {name: small, limit: {cpu: 1}}]\n")
    assert goschedctl(cluster.endpoints, "queue", "apply", str(queues)).returncode == 0
    line = "queue small: the job needs 2 CPUs, its limit is 1: waiting does not help"
    flags = ["-q", "small", "--cpu", "2", "--name", "large", "--", "true"]
    planned = goschedctl(cluster.endpoints, "plan", *flags)
    assert (planned.returncode, (planned.stdout + planned.stderr).count(line)) == (3, 1)
    done = goschedctl(cluster.endpoints, "submit", *flags)
    assert f"large: warning: {line}" in done.stderr
    until(lambda: line in goschedctl(cluster.endpoints, "explain", "large").stdout, "it is explained")
    planned = goschedctl(cluster.endpoints, "plan", "--mem", "1000Ti", "--", "true")
    assert (planned.stdout + planned.stderr).count("asks for 1000Ti of memory on one node") == 1


FILE = """name: sum
run: echo $A
env: {A: 1}
resources: {cpu: 0.1}
"""


def test_a_file_is_read_by_a_master_with_the_flags_over_it(cluster, tmp_path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(FILE)
    flags = ["--count", "2", "--env", "B=2", "--set", "retry.max=0", "--label", "team=nlp", "--wait"]
    done = goschedctl(cluster.endpoints, "submit", str(file), *flags)
    assert done.returncode == 0, done.stderr
    job = json.loads(goschedctl(cluster.endpoints, "job", "show", "sum", "-o", "json").stdout)
    assert (job["id"], job["state"], job["labels"]) == (done.stdout.strip(), "SUCCEEDED", {"team": "nlp"})
    assert len(job["tasks"]) == 2


def test_a_wrong_file_has_the_line_that_validate_names_also_without_a_master(cluster, tmp_path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"{FILE}---\n{FILE.replace('sum', 'other')}cuont: 2\n")
    found = goschedctl(cluster.endpoints, "submit", str(file))
    here = goschedctl(cluster.endpoints, "job", "validate", str(file))
    alone = goschedctl("127.0.0.1:1", "submit", str(file))
    line = f'{file}:10: cuont: unknown key (did you mean "count"?)\n'
    assert (found.returncode, found.stderr) == (2, f"goschedctl: {line}")
    assert (here.returncode, here.stderr) == (2, line)
    assert (alone.returncode, alone.stderr) == (2, f"goschedctl: {line}")
    assert goschedctl(cluster.endpoints, "job", "show", "other").returncode == 1


def test_many_jobs_come_through_a_pipe_in_the_order_in_which_they_can_start(cluster) -> None:
    jobs = [f"name: p{n}\nrun: 'true'\nafter: {{p{n + 1}: any}}\nresources: {{cpu: 0.1}}\n" for n in range(20)]
    text = "---\n".join([*jobs, "name: p20\nrun: 'true'\nhold: true\nresources: {cpu: 0.1}\n"])
    done = subprocess.run(
        [str(BIN / "goschedctl"), "submit", "-", "-o", "json", "--priority", "high"],
        input=text, env=env(cluster), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [job["name"] for job in json.loads(done.stdout)] == [f"p{n}" for n in range(20, -1, -1)]
    shown = json.loads(goschedctl(cluster.endpoints, "job", "show", "p0", "-o", "json").stdout)
    assert shown["state"] == "PENDING"
    assert goschedctl(cluster.endpoints, "job", "cancel", "p20").returncode == 0
