"""Faults inside a real process: slow or failing disk calls, and a wall clock that is wrong.

Python imports this at its start where this directory is on PYTHONPATH. What goes wrong stands in the JSON file that
FAULTS_FILE names (see `tests/chaos/faults.py`), is looked at before each call, and may change while the process runs.
"""

from __future__ import annotations

import errno
import json
import os
import time
from typing import Any

_FILE = os.environ.get("FAULTS_FILE", "")
_PATIENCE_S = 0.05  # how old a look at the file may be

_real = {name: getattr(os, name) for name in ("fdatasync", "fsync", "write", "ftruncate", "rename")}
_time, _time_ns, _monotonic, _sleep = time.time, time.time_ns, time.monotonic, time.sleep
_faults: dict[str, Any] = {}
_looked_at = -1.0
_changed_at = 0
_failed: dict[str, int] = {}


def _now() -> dict[str, Any]:
    """The faults of this moment; those of before while the file is not there or half written."""
    global _faults, _looked_at, _changed_at
    if _monotonic() - _looked_at < _PATIENCE_S:
        return _faults
    _looked_at = _monotonic()
    try:
        changed_at = os.stat(_FILE).st_mtime_ns
        if changed_at != _changed_at:
            with open(_FILE, encoding="utf-8") as file:
                _faults = json.load(file)
            _changed_at = changed_at
            _failed.clear()
    except (OSError, ValueError):
        pass
    return _faults


def _path(where: object) -> str:
    if isinstance(where, int):
        try:
            return os.readlink(f"/proc/self/fd/{where}")
        except OSError:
            return ""
    return os.fsdecode(where)  # type: ignore[arg-type]


def _meet(call: str, where: object) -> None:
    """Waits or raises as the faults say for this call on this file."""
    for fault in _now().get(call, ()):
        if fault["match"] not in _path(where):
            continue
        _sleep(fault.get("delay_s", 0.0))
        if name := fault.get("error"):
            times = fault.get("times")
            if times is None or _failed.get(call, 0) < times:
                _failed[call] = _failed.get(call, 0) + 1
                code = getattr(errno, name)
                raise OSError(code, os.strerror(code))


def _wrapped(call: str) -> Any:
    real = _real[call]

    def wrapper(first: Any, *rest: Any, **named: Any) -> Any:
        _meet(call, first)
        return real(first, *rest, **named)

    return wrapper


if _FILE:
    for _name in _real:
        setattr(os, _name, _wrapped(_name))
    time.time = lambda: _time() + _now().get("clock_ahead_s", 0.0)
    time.time_ns = lambda: _time_ns() + int(_now().get("clock_ahead_s", 0.0) * 1e9)
