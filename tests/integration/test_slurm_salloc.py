"""salloc on a real cluster of three nodes: what runs where, and what ends an allocation."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.cli import salloc_command
from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.cli.main import run_cli
from gosched.client import JobDetail
from gosched.core.records.job import JobState

from .support import PATIENCE_S, until
from .test_slurm_jobs import GOSCHEDCTL, User, marked


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=1, agents=[AgentShape(resources={"cpu": 4, "memory": "4Gi"})] * 3) as running:
        yield running


@pytest.fixture
def user(cluster: LocalCluster, tmp_path: Path) -> User:
    return User(cluster, tmp_path)


def started(user: User, *words: str, **more: int) -> subprocess.Popen[str]:
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.Popen(
        [GOSCHEDCTL, "salloc", *words], cwd=user.home, env=user.env, text=True, start_new_session=True, **streams
    )  # type: ignore[call-overload, no-any-return]


def ended(cluster: LocalCluster, said: str) -> JobDetail:
    (job,) = re.findall(r"Pending job allocation (\S+)", said)
    with cluster.client() as client:
        return client.wait(job, timeout=PATIENCE_S)


def test_a_command_runs_in_the_allocation_and_srun_in_it_on_all_nodes(user: User, cluster: LocalCluster) -> None:
    line = "cat; echo $SLURM_NNODES $SLURM_NTASKS $PWD $MINE; srun -l sh -c 'echo $SLURM_NODEID' | sort; exit 5"
    user.env["MINE"] = "mine"
    done = subprocess.run(
        [GOSCHEDCTL, "salloc", "-N2", "-n4", "sh", "-c", line],
        cwd=user.home, env=user.env, input="typed\n", capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    job = ended(cluster, done.stderr)
    assert done.stdout.splitlines() == ["typed", f"2 4 {user.home} mine", "0: 0", "1: 0", "2: 1", "3: 1"], done.stderr
    assert done.returncode == 5
    assert f"salloc: Granted job allocation {job.id}\n" in done.stderr
    assert f"salloc: Relinquished job allocation {job.id}\n" in done.stderr
    assert (job.state, job.exit_code, job.job.attempt) == (JobState.FAILED, 5, 1)
    assert [*user.home.iterdir()] == [], "no output files"


def test_a_shell_has_the_terminal(user: User, cluster: LocalCluster) -> None:
    ours, theirs = pty.openpty()
    user.env["PS1"] = "$ "
    salloc = started(user, "-N1", "-n2", "sh", "-i", stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = ""

    def has(words: str) -> bool:
        nonlocal said
        if select.select([ours], [], [], 1.0)[0]:
            said += os.read(ours, 10_000).decode()
        return words in said

    os.write(ours, b"tty >/dev/null && echo tty $((40 + 2)) $SLURM_NTASKS\n")  # typed ahead, it waits for the shell
    until(lambda: has("Granted"), "it is granted")
    until(lambda: has("tty 42 2\r\n"), "the shell answers")
    os.write(ours, b"sleep 1008\n")
    until(lambda: marked("1008"), "it runs")
    os.write(ours, b"\x03")
    until(lambda: not marked("1008"), "Ctrl-C ended it alone")
    os.write(ours, b"exit 0\n")
    until(lambda: has("Relinquished"), "it has ended")
    os.close(ours)
    assert salloc.wait(PATIENCE_S) == 0
    assert ended(cluster, said).state is JobState.SUCCEEDED


def test_one_in_the_background_of_a_terminal_is_not_stopped(user: User, cluster: LocalCluster) -> None:
    ours, theirs = pty.openpty()
    line = f"set -m; {GOSCHEDCTL} salloc -n1 echo ran & wait $!; echo code $?"
    shell = subprocess.Popen(
        ["bash", "-c", line], cwd=user.home, env=user.env, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    said = ""
    while "code " not in said:
        assert select.select([ours], [], [], PATIENCE_S)[0], said
        said += os.read(ours, 10_000).decode()
    assert "ran\r\n" in said
    assert "code 0" in said, said
    assert shell.wait(PATIENCE_S) == 0  # before the terminal is closed, which would end it
    os.close(ours)
    assert ended(cluster, said).state is JobState.SUCCEEDED


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP])
def test_an_allocation_ends_with_salloc_however_that_ends(
    user: User, cluster: LocalCluster, number: signal.Signals
) -> None:
    salloc = started(user, "-N2", "--ntasks-per-node=1", "srun", "sleep", "1006")
    until(lambda: len(marked("1006")) == 2, "its ranks run")
    salloc.send_signal(number)
    if number == signal.SIGSTOP:  # as where the machine is gone: nothing is said any more, and nothing answered
        until(lambda: not marked("1006"), "its ranks have ended")
        salloc.send_signal(signal.SIGKILL)
    _, said = salloc.communicate(timeout=PATIENCE_S)
    killed = number in (signal.SIGKILL, signal.SIGSTOP)
    assert salloc.returncode == (-signal.SIGKILL if killed else 128 + number)
    assert ended(cluster, said).state is JobState.FAILED
    until(lambda: not marked("1006"), "its ranks have ended")


def test_what_a_command_leaves_behind_ends_with_it_and_its_exit_code_counts(user: User, cluster: LocalCluster) -> None:
    line = "trap '' HUP; sleep 1007 & exit 0"
    done = user.run("salloc", "-n1", "sh", "-c", line)
    assert done.returncode == 0, done.stderr
    assert "Relinquished" in done.stderr
    assert "the task has ended" not in done.stderr, "the allocation waits for it"
    assert ended(cluster, done.stderr).state is JobState.SUCCEEDED
    assert marked("1007") == []


def test_an_allocation_that_is_taken_away_or_never_comes_is_said(user: User, cluster: LocalCluster) -> None:
    taken = started(user, "-n1", "sh", "-c", "trap 'echo saved; exit 3' TERM; sleep 1009 & wait")
    until(lambda: marked("1009"), "it runs")
    (job,) = user.run("squeue", "-h", "-o", "%i").stdout.split()
    assert user.run("scancel", job).returncode == 0
    out, said = taken.communicate(timeout=PATIENCE_S)
    assert (out, taken.returncode) == ("saved\n", 3), said
    assert f"salloc: error: Job allocation {job} has been revoked: cancelled" in said
    assert marked("1009") == []

    waits = started(user, "-N3", "-c4", "--hold", "true")
    assert waits.stderr is not None
    head = waits.stderr.readline()
    waits.send_signal(signal.SIGINT)
    _, said = waits.communicate(timeout=PATIENCE_S)
    assert waits.returncode == 130
    assert "salloc: error: no allocation: cancelled" in said
    assert ended(cluster, head).state is JobState.CANCELLED


def test_a_command_that_is_not_there_has_the_exit_code_of_shells(user: User, cluster: LocalCluster) -> None:
    done = user.run("salloc", "-n1", "nowhere-at-all")
    assert done.returncode == 127
    assert "cannot run nowhere-at-all: No such file or directory" in done.stderr
    assert ended(cluster, done.stderr).exit_code == 127


def test_a_command_that_ends_before_it_has_the_allocation_gives_it_back(
    user: User, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(salloc_command, "_RUN", "exit 130")  # as by Ctrl-C while it waits for the other nodes
    monkeypatch.setattr(salloc_command, "_RELEASE_S", 0.5)
    for name, value in user.env.items():
        monkeypatch.setenv(name, value)
    assert run_cli(["salloc", "-n1", "true"]) == 130
    said = capsys.readouterr().err
    assert "salloc: the command has ended, and its allocation had not" in said
    assert ended(cluster, said).state is JobState.CANCELLED
