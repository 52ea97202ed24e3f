"""The release before this one: its package as it was released, and how to run its code.

`gosched-48dd9c3.tar.xz` is `git archive 48dd9c3 gosched`; its newest feature level is 4.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

ARCHIVE = Path(__file__).with_name("gosched-48dd9c3.tar.xz")
_START = "import sys; from gosched.{program}.main import main; sys.argv[0] = 'gosched-{program}'; main()"


def unpack(folder: Path) -> Path:
    """Unpack the package into `folder`, and return what goes on PYTHONPATH."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def environment(source: Path) -> dict[str, str]:
    """Return the environment in which the previous release's package is found first."""
    return {**os.environ, "PYTHONPATH": str(source)}


def program(name: str, *words: str) -> list[str]:
    """Return the command of a program, to be run in `environment`: `-c`, since the scripts are this release's."""
    return [sys.executable, "-c", _START.format(program=name), *words]


def run(source: Path, code: str, words: Sequence[str], *, timeout_s: float) -> str:
    """Run code against the previous release, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=environment(source),
        cwd=source,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
