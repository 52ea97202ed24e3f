"""What has happened lately: the newest events of the history.

Invariant: events of a page are shown as words only; a kind that this release does not know is shown by its name.
"""

from __future__ import annotations

from gosched.api.history import EventPage, HistoryEvent
from gosched.master.base.callers import Caller
from gosched.master.web.sources import Sources
from gosched.wire.codec import to_record
from gosched.wire.v1 import history_pb2


async def recent_events(sources: Sources, caller: Caller, most: int, *, node: str = "") -> tuple[HistoryEvent, ...]:
    """Return the newest events, the newest first; none while no leader answers."""
    answer = await sources.ask("ListEvents", history_pb2.ListEventsRequest(page_size=most, node=node), caller)
    return tuple(reversed(to_record(answer, EventPage).events)) if answer is not None else ()
