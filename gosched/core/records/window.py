"""Windows: nodes that are reserved for a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Nodes that are kept from `start_ms` to `end_ms` (0: open) for jobs of these queues (and what is below them) and
    tenants; for nobody, if none is named: maintenance."""

    name: str
    start_ms: int
    end_ms: int = 0
    nodes: tuple[str, ...]
    queues: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    reason: str = ""
