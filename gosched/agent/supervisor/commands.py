"""Runs the short commands of a runtime beside its task, each bounded in time."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from gosched.agent.supervisor.records import complain, output

LIMIT_S = 30.0


def run(command: Sequence[str]) -> bool:
    """Run a command and return whether it succeeded; its output goes where complaints go."""
    try:
        with output() as out:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=LIMIT_S, check=False
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        complain(f"{command[0]}: {error}")
        return False
    if done.returncode:
        complain(f"{list(command)} ended with exit code {done.returncode}")
    return done.returncode == 0
