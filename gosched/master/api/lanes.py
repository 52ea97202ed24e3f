"""Lanes of calls: agents, calls of users, and streams of users each have a number of places of their own; and an
identity makes no more calls a second than its rate.

A call takes its place as it arrives, before its request is read, and without a place it is refused at once. So what
users do never keeps an agent's heartbeat out, and no single user takes all places of its lane.

Invariant: what is counted of a caller is what it has open; callers without a call are not remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, StrEnum

from gosched.master.api.rates import Rates
from gosched.master.base.callers import Caller
from gosched.master.base.errors import busy
from gosched.wire.roles import ANY_NODE, Role


class Lane(Enum):
    AGENTS = "agents"
    CALLS = "calls"
    STREAMS = "streams"


class Bound(StrEnum):
    """What a call is refused for."""

    RATE = "rate"
    CALLS = "calls"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of calls that are open at the same time, and of the bytes of their requests."""

    #: Calls of all callers.
    total: int
    #: Calls of one caller.
    each: int
    total_bytes: int
    each_bytes: int


MI = 1024 * 1024
BOUNDS = {
    Lane.AGENTS: Bounds(total=16_384, each=8, total_bytes=512 * MI, each_bytes=32 * MI),
    Lane.CALLS: Bounds(total=8_192, each=2_048, total_bytes=256 * MI, each_bytes=64 * MI),
    Lane.STREAMS: Bounds(total=4_096, each=512, total_bytes=64 * MI, each_bytes=16 * MI),
}
_AGENTS = ("/gosched.v1.NodeService/RegisterNode", "/gosched.v1.NodeService/Heartbeat")


class Lanes:
    """`refused` is told which bound a call was refused for."""

    def __init__(
        self,
        bounds: dict[Lane, Bounds] | None = None,
        *,
        rates: Rates | None = None,
        refused: Callable[[Bound], None] = lambda _: None,
    ) -> None:
        bounds = bounds or BOUNDS
        self.uses = {lane: LaneUse(lane, bounds[lane], refused) for lane in Lane}
        self._rates = rates
        self._refused = refused

    def arrive(self, lane: Lane, caller: Caller) -> Place:
        """Take a place for a call that has just come, if its caller's rate allows it. Raises ApiError."""
        # Without TLS there are no identities, and with it masters and agents come as often as they have to.
        rates = self._rates if caller.role is Role.CLIENT else None
        if rates is not None and not rates.takes(caller.name):
            self._refused(Bound.RATE)
            raise busy(f"{caller.name} makes more than {rates.per_second} calls a second: try again later")
        return self.uses[lane].take(caller)

    @contextmanager
    def place(self, lane: Lane, caller: Caller) -> Iterator[Place]:
        """Take a place for the time of one call. Raises ApiError."""
        place = self.arrive(lane, caller)
        try:
            yield place
        finally:
            place.leave()


class LaneUse:
    """What the calls of one lane take up at this moment, in all and by caller."""

    def __init__(self, lane: Lane, bounds: Bounds, refused: Callable[[Bound], None]) -> None:
        self.lane = lane
        self.bounds = bounds
        self.refused = refused
        self.calls: Counter[str] = Counter()
        self.size: Counter[str] = Counter()
        self.all_calls = self.all_bytes = 0

    def take(self, caller: Caller) -> Place:
        key = "" if _is_many(self.lane, caller) else f"{caller.role} {caller.name}"
        if self.all_calls >= self.bounds.total:
            self.refused(Bound.CALLS)
            raise busy(f"{self.bounds.total} {_WORDS[self.lane]} are open on this master: try again later")
        if key and self.calls[key] >= self.bounds.each:
            self.refused(Bound.CALLS)
            raise busy(f"{caller.name} has {self.bounds.each} {_WORDS[self.lane]} open already: end some of them first")
        self.all_calls += 1
        self.calls[key] += 1
        return Place(self, key)


@dataclass(slots=True, eq=False)
class Place:
    """What one call takes up."""

    use: LaneUse
    #: The caller's role and name; empty where it stands for many callers, which share no bound of their own.
    caller: str
    #: Bytes of its request.
    held: int = 0

    def hold(self, size: int) -> None:
        """Add the bytes of the request, once it is there. Raises ApiError."""
        use, bounds = self.use, self.use.bounds
        of_caller = use.size[self.caller] + size if self.caller else 0
        if use.all_bytes + size > bounds.total_bytes or of_caller > bounds.each_bytes:
            use.refused(Bound.BYTES)
            raise busy("requests with too many bytes are being served already: try again later, or send less at once")
        self.held += size
        use.all_bytes += size
        use.size[self.caller] += size

    def leave(self) -> None:
        use = self.use
        use.all_calls -= 1
        use.all_bytes -= self.held
        for counter, amount in ((use.calls, 1), (use.size, self.held)):
            counter[self.caller] -= amount
            if counter[self.caller] <= 0:
                del counter[self.caller]


_WORDS = {Lane.AGENTS: "calls of agents", Lane.CALLS: "calls", Lane.STREAMS: "streams (watches, logs, commands)"}


def lane_of(method: str, *, streaming: bool) -> Lane:
    if method in _AGENTS:
        return Lane.AGENTS
    return Lane.STREAMS if streaming else Lane.CALLS


def _is_many(lane: Lane, caller: Caller) -> bool:
    """Return whether the caller's name stands for many callers: a master, which calls for others, a certificate that
    agents share, or the address of agents without certificates."""
    return caller.role is Role.MASTER or (lane is Lane.AGENTS and (caller.role is None or caller.name == ANY_NODE))
