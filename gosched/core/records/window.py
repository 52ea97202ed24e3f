"""Windows: nodes that are reserved for a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Nodes that are reserved for a time: for some queues and tenants, or for maintenance."""

    #: Unique.
    name: str
    #: When it begins.
    start_ms: int
    #: When it ends; 0: open.
    end_ms: int = 0
    #: Ids, sorted; never empty.
    nodes: tuple[str, ...]
    #: Paths of queues whose jobs may run there, and those of the queues below them.
    queues: tuple[str, ...] = ()
    #: Tenants whose jobs may run there. No queue and no tenant: maintenance, no job runs there.
    tenants: tuple[str, ...] = ()
    #: One line for people; may be empty.
    reason: str = ""
