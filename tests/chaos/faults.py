"""The control file of `tests/faults`: what goes wrong in one process, from now on."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

SHIM = Path(__file__).parent.parent / "faults"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFault:
    """Calls on files whose path holds `match` take `delay_s` longer, and fail with `error` ("EIO") at most `times`
    times (None: always)."""

    match: str = "/raft/"
    delay_s: float = 0.0
    error: str | None = None
    times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """`calls`: name of a function of `os` (fdatasync, fsync, write, ftruncate, rename) -> what it meets."""

    calls: dict[str, tuple[DiskFault, ...]] = field(default_factory=dict)
    clock_ahead_s: float = 0.0


NONE = Faults()


def slow_syncs(delay_s: float) -> Faults:
    fault = (DiskFault(delay_s=delay_s),)
    return Faults(calls={"fdatasync": fault, "fsync": fault})


def set_faults(file: Path, faults: Faults) -> None:
    """Holds within 0.05 s, for the process and those that it starts."""
    calls = {
        name: [{"match": f.match, "delay_s": f.delay_s, "error": f.error, "times": f.times} for f in each]
        for name, each in faults.calls.items()
    }
    scratch = file.with_suffix(".new")
    scratch.write_text(json.dumps({**calls, "clock_ahead_s": faults.clock_ahead_s}))
    scratch.rename(file)


def environment(file: Path) -> dict[str, str]:
    """For the process that is to meet them."""
    return {"PYTHONPATH": os.pathsep.join([str(SHIM), *_before()]), "FAULTS_FILE": str(file)}


def _before() -> list[str]:
    return [path for path in [os.environ.get("PYTHONPATH", "")] if path]
