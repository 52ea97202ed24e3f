"""Writes figures to benchmarks/results.json, a list of `{name, value, unit, n, machine, commit}`.

A new figure replaces the older one of the same name. Smoke runs are printed and not kept.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

RESULTS = Path(__file__).parent / "results.json"


class Report:
    """`smoke` says whether this is only a check that the benchmark runs; make everything small then."""

    def __init__(self, arguments: Sequence[str] | None = None) -> None:
        """`arguments`: those that the benchmark has not taken itself; None: of the command line, all."""
        arguments = sys.argv[1:] if arguments is None else arguments
        unknown = [arg for arg in arguments if arg != "--smoke"]
        if unknown:
            raise SystemExit(f"unknown argument {unknown[0]}; known is --smoke")
        self.smoke = "--smoke" in arguments

    def add(self, name: str, value: float, unit: str, n: int) -> None:
        """`n` is how many were measured."""
        shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
        print(f"{name:40} {shown:>12} {unit:14} n={n}", flush=True)
        if self.smoke:
            return
        row = {"name": name, "value": round(value, 6), "unit": unit, "n": n, "machine": _machine(), "commit": _commit()}
        rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
        rows = sorted([*(r for r in rows if r["name"] != name), row], key=lambda r: str(r["name"]))
        draft = RESULTS.with_suffix(".tmp")
        draft.write_text(json.dumps(rows, indent=1) + "\n")
        draft.replace(RESULTS)


def _machine() -> str:
    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}, Python {platform.python_version()}"
    )


def _commit() -> str:
    """Empty outside of a git checkout; ends in + when files differ from the commit."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    return found.stdout.strip()
