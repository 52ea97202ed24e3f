"""Queues of YARN's schedulers as ours, with a report of what has no equivalent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gosched.lazy import lazy

if TYPE_CHECKING:
    from gosched.integrations.notes import Note
    from gosched.integrations.yarn.queues.imported import Imported
    from gosched.integrations.yarn.queues.reading import read_queues

__getattr__ = lazy(
    __name__,
    {
        "gosched.integrations.notes": "Note",
        "gosched.integrations.yarn.queues.imported": "Imported",
        "gosched.integrations.yarn.queues.reading": "read_queues",
    },
)

__all__ = ["Imported", "Note", "read_queues"]
