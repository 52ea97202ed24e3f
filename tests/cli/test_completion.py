"""Completion in a real bash; zsh and fish are asked in tests/integration/test_packages.py."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gosched.api.status import Status
from gosched.cli.main import COMMANDS, run_cli
from gosched.client import GoSchedClient
from gosched.core.records.job import JobState
from tests.client.fake_cluster import FakeMaster
from tests.ports import HeldPort

ASK = """
source <(goschedctl completion bash)
COMP_WORDS=({words}) COMP_CWORD={at}
compopt() {{ echo "compopt $1 $2"; }}
_goschedctl_completion goschedctl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def complete(*words: str) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in ("goschedctl", *words))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK.format(words=quoted, at=len(words))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PATH": path},
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def test_bash_completes_commands_subcommands_flags_and_their_values():
    assert complete("") == list(COMMANDS)
    assert complete("sta") == ["status"]
    assert complete("node", "un") == ["uncordon"]
    assert complete("local", "up", "--ma") == ["--masters"]
    assert complete("status", "-o", "j") == ["json"]


def test_bash_completes_the_names_of_files():
    assert complete("submit", "exa") == ["compopt -o default", ""]


def test_a_word_that_is_no_command_completes_nothing():
    assert complete("nope", "x") == [""]


def test_an_unknown_shell_is_refused_with_those_that_are_known(ctl):
    done = ctl("completion", "tcsh")
    assert done.code == 2
    assert "'bash', 'zsh', 'fish'" in done.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_ask_goschedctl(ctl, shell):
    done = ctl("completion", shell)
    assert done.code == 0
    assert f"_GOSCHEDCTL_COMPLETE={shell}_complete" in done.out


def test_bash_completes_the_names_that_the_cluster_and_the_config_file_know(master, tmp_path, monkeypatch):
    monkeypatch.setenv("GOSCHED_ENDPOINTS", master.address)
    assert complete("job", "list", "--queue", "") == [status.path for status in status_of(master).queues]
    assert run_cli(["config", "set-context", "prod", "--endpoints", master.address]) == 0
    assert complete("config", "use-context", "p") == ["prod"]
    assert complete("--context", "") == ["prod"]


def test_jobs_that_ended_are_names_for_what_looks_at_them_alone(ctl, master, job_file, monkeypatch):
    monkeypatch.setenv("GOSCHED_ENDPOINTS", master.address)
    for name in ("lives", "ended"):
        job_file.write_text(f"name: {name}\nrun: x\n")
        ctl("submit", str(job_file))
    master.jobs["j-2"] = replace(master.jobs["j-2"], state=JobState.FAILED, ended_at_ms=time.time_ns() // 1_000_000)
    assert complete("job", "cancel", "") == ["lives"]
    assert complete("logs", "") == ["ended", "lives"]
    assert complete("job", "list", "--state", "ru") == ["running"]


def test_completion_of_names_is_quiet_and_quick_while_no_master_answers(monkeypatch):
    monkeypatch.setenv("GOSCHED_ENDPOINTS", HeldPort().address)
    assert complete("job", "cancel", "a") == [""]


def status_of(master: FakeMaster) -> Status:
    with GoSchedClient(master.address) as client:
        return client.get_status()
