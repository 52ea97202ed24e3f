"""The hook before an upgrade: which masters it takes out of the cluster, and when it lets the upgrade go on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.helm_values import CHART

GOSCHEDCTL = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$*" in
  "cluster members -o name") [ -n "$MEMBERS" ] || { echo "no master answered" >&2; exit 5; }; printf '%s\\n' $MEMBERS ;;
  "cluster remove-master "*) exit "$REMOVED" ;;
esac
"""


def run(tmp_path: Path, members: str, count: int, *, fewer: bool = False, removed: int = 0) -> tuple[int, list[str]]:
    """Its exit code, and the masters that it took out."""
    program, calls = tmp_path / "goschedctl", tmp_path / "calls"
    program.write_text(GOSCHEDCTL)
    program.chmod(0o755)
    env = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CALLS": str(calls),
        "MEMBERS": members,
        "REMOVED": str(removed),
        "FEWER": "true" if fewer else "false",
    }
    script = [sys.executable, str(CHART / "files" / "leave.py"), "gosched", str(count)]
    code = subprocess.run(script, env=env, timeout=60, check=False).returncode
    lines = calls.read_text().splitlines()
    return code, [line.rpartition(" ")[2] for line in lines if line.startswith("cluster remove-master ")]


def test_masters_beyond_the_count_are_taken_out_the_last_one_first(tmp_path: Path) -> None:
    members = "gosched-0 gosched-3 gosched-1 gosched-4 gosched-2 other-7 gosched-x"
    assert run(tmp_path, members, 3) == (0, ["gosched-4", "gosched-3"])


@pytest.mark.parametrize("count", [3, 5])
def test_as_many_or_more_masters_take_nobody_out(tmp_path: Path, count: int) -> None:
    assert run(tmp_path, "gosched-0 gosched-1 gosched-2", count) == (0, [])


def test_a_cluster_that_does_not_answer_lets_an_upgrade_mend_it_but_does_not_lose_pods(tmp_path: Path) -> None:
    assert run(tmp_path, "", 3) == (0, [])
    assert run(tmp_path, "", 3, fewer=True) == (1, [])


def test_a_master_that_cannot_be_taken_out_stops_the_upgrade(tmp_path: Path) -> None:
    assert run(tmp_path, "gosched-0 gosched-1 gosched-2", 1, removed=1) == (1, ["gosched-2"])
