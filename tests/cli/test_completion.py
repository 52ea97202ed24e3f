"""Completion in a real bash; zsh and fish are asked in tests/integration/test_packages.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gosched.cli.main import COMMANDS

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
