"""Both sides of an allocation of salloc, without a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.agent.slurm import allocation
from tests.integration.support import until

PATIENCE_S = 60


class Allocation:
    """A `hold` that runs."""

    def __init__(self, directory: Path, cwd: Path) -> None:
        self.directory = directory
        env = {**os.environ, "SLURM_JOB_ID": "j-1", "ENVIRONMENT": "BATCH"}
        self.holder = self._started("hold", cwd=cwd, env=env)

    def run(self, *words: str) -> subprocess.Popen[str]:
        # The shell stays, and ends after it, as what exec starts does.
        ready = 'until [ -e lease ]; do sleep 0.02; done; "$0" -m gosched.agent.slurm.allocation run . "$@"; exit $?'
        return subprocess.Popen(
            ["sh", "-c", ready, sys.executable, *words],
            cwd=self.directory, env={**os.environ, "TERM": "vt52"},
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def _started(self, what: str, *, cwd: Path, env: dict[str, str]) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "gosched.agent.slurm.allocation", what, str(self.directory)]
        return subprocess.Popen(words, cwd=cwd, env=env, text=True, stderr=subprocess.PIPE)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Allocation]:
    (tmp_path / "own").mkdir()
    (tmp_path / "cwd").mkdir()
    held = Allocation(tmp_path / "own", tmp_path / "cwd")
    yield held
    if held.holder.poll() is None:
        held.holder.kill()
    held.holder.communicate(timeout=PATIENCE_S)


def test_a_command_has_the_directory_and_the_variables_of_a_script_and_its_own_terminal(held: Allocation) -> None:
    command = held.run("sh", "-c", 'echo "$PWD $SLURM_JOB_ID ${ENVIRONMENT-none} $TERM"; exit 7')
    said, _ = command.communicate(timeout=PATIENCE_S)
    assert said == f"{held.directory.with_name('cwd')} j-1 none vt52\n"
    assert (command.returncode, held.holder.wait(PATIENCE_S)) == (7, 7)
    assert (held.directory / "allocation.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("words", "code"), [(["sh", "-c", "kill -9 $$"], 137), (["nowhere"], 127), ([os.devnull], 126)]
)
def test_an_end_of_any_kind_is_the_end_of_the_allocation(held: Allocation, words: list[str], code: int) -> None:
    command = held.run(*words)
    command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, held.holder.wait(PATIENCE_S)) == (code, code)


def test_a_command_that_is_cut_off_ends_the_allocation(held: Allocation) -> None:
    command = held.run("sh", "-c", "kill -9 $PPID")
    command.communicate(timeout=PATIENCE_S)
    _, said = held.holder.communicate(timeout=PATIENCE_S)
    assert held.holder.returncode == 1
    assert said == "gosched: the command was ended, as salloc is gone or has lost its connection\n"


def test_a_signal_is_for_the_command_to_decide(held: Allocation) -> None:
    command = held.run("sh", "-c", "trap 'echo asked; exit 3' INT; kill -INT $PPID; kill -INT $$; sleep 600")
    said, _ = command.communicate(timeout=PATIENCE_S)
    assert (said, command.returncode, held.holder.wait(PATIENCE_S)) == ("asked\n", 3, 3)


def test_a_command_hears_that_the_allocation_is_to_end_and_has_time_for_it(held: Allocation) -> None:
    command = held.run("sh", "-c", "trap 'sleep 1; echo saved; exit 3' TERM; echo ready; while :; do sleep 0.1; done")
    assert command.stdout is not None
    assert command.stdout.readline() == "ready\n"
    held.holder.terminate()
    said, _ = command.communicate(timeout=PATIENCE_S)
    assert "saved\n" in said
    assert held.holder.wait(PATIENCE_S) == 3


def test_a_command_hears_what_came_together_with_it(held: Allocation) -> None:
    until((held.directory / "lease").exists, "it is held")
    held.holder.send_signal(signal.SIGSTOP)
    command = held.run("sh", "-c", "trap 'echo saved; exit 3' TERM; echo ready; while :; do sleep 0.1; done")
    assert command.stdout is not None
    assert command.stdout.readline() == "ready\n"
    held.holder.terminate()
    held.holder.send_signal(signal.SIGCONT)
    said, _ = command.communicate(timeout=PATIENCE_S)
    assert "saved\n" in said
    assert held.holder.wait(PATIENCE_S) == 3


def test_an_allocation_that_waits_for_its_command_ends_when_it_is_told_to(held: Allocation) -> None:
    until((held.directory / "lease").exists, "it is held")
    held.holder.terminate()
    assert held.holder.wait(PATIENCE_S) == -signal.SIGTERM


def test_an_allocation_to_which_no_command_comes_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(allocation, "COME_S", 0.2)
    assert allocation.main(["hold", str(tmp_path)]) == 1
    assert "no command came within 0.2 s: salloc is gone" in capsys.readouterr().err
    assert json.loads((tmp_path / "allocation.json").read_text())["cwd"] == os.getcwd()
