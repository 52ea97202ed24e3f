"""The records of the codec's list."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def record_at(place: str) -> type[Any]:
    """Return the record that the codec's list calls so, such as `core.records.job.Job`."""
    module, _, name = place.rpartition(".")
    found: type[Any] = getattr(import_module(f"gosched.{module}"), name)
    return found
