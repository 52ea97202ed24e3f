"""Links between members that behave as TCP does: in order, late, stalled, cut in one direction, broken.

Invariant: a link loses nothing and changes no order while it lives; when it dies, what was under way is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Protocol

from gosched.sim.raft.clock import Clock

SILENCE_S = 2.0
_LOOK_S = 0.1
_RETRY_S = (0.2, 0.5)


class Endpoint(Protocol):
    """A member as the network sees it. Each call may end in a crash, which the member handles itself."""

    name: str

    def reachable(self) -> bool: ...

    def connected(self, peer: str) -> None: ...

    def disconnected(self, peer: str) -> None: ...

    def wake(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """The delays of messages, in seconds."""

    #: The longest usual one.
    delay: float = 0.02
    #: The part of the messages that is slow.
    slow_share: float = 0.01
    #: The longest of a slow one.
    slow: float = 0.5


@dataclass(slots=True)
class _Link:
    """The link between two members."""

    ends: tuple[str, str]
    rngs: dict[tuple[str, str], Random]
    up: bool = False
    closing: bool = False  # one end is gone; the other still reads what had left
    retry_at: float = 0.0
    #: (sender, receiver) -> arrival, departure, frame.
    frames: dict[tuple[str, str], deque[tuple[float, float, bytes]]] = field(default_factory=dict)


class Network:
    """The links of all members. `note` gets a line for each change of a link."""

    def __init__(
        self, clock: Clock, seed: str, names: list[str], weather: Weather, note: Callable[[str], None]
    ) -> None:
        self._clock = clock
        self._note = note
        self.weather = weather
        self.members: dict[str, Endpoint] = {}
        self._cuts: set[tuple[str, str]] = set()
        # Each direction has its own randomness: the library walks over sets, whose order must not matter.
        self._links = {
            (a, b): _Link((a, b), {(x, y): Random(f"{seed} {x}>{y}") for x, y in ((a, b), (b, a))})
            for a, b in combinations(sorted(names), 2)
        }
        clock.after(0.0, self._look)

    def send(self, sender: str, receiver: str, frame: bytes, at: float) -> bool:
        link = self._link(sender, receiver)
        if not link.up or link.closing:
            return False
        rng, weather = link.rngs[sender, receiver], self.weather
        delay = rng.random() * (weather.slow if rng.random() < weather.slow_share else weather.delay)
        queue = link.frames[sender, receiver]
        arrival = max(at + delay, queue[-1][0] if queue else 0.0)
        queue.append((arrival, at, frame))
        self._clock.at(arrival, self.members[receiver].wake)
        return True

    def take(self, receiver: str) -> tuple[str, bytes] | None:
        """Return the next frame that has arrived."""
        best: tuple[float, str] | None = None
        for sender in self.members:
            if sender == receiver or (sender, receiver) in self._cuts:
                continue
            queue = self._link(sender, receiver).frames.get((sender, receiver))
            if queue and queue[0][0] <= self._clock.now and (best is None or queue[0][0] < best[0]):
                best = queue[0][0], sender
        if best is None:
            return None
        return best[1], self._link(best[1], receiver).frames[best[1], receiver].popleft()[2]

    def waiting_bytes(self, sender: str, receiver: str) -> int:
        queue = self._link(sender, receiver).frames.get((sender, receiver), ())
        return sum(len(frame) for _, _, frame in queue)

    def cut(self, sender: str, receiver: str) -> None:
        self._cuts.add((sender, receiver))

    def is_cut(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) in self._cuts

    def heal(self) -> None:
        self._cuts.clear()

    def reset(self, a: str, b: str) -> None:
        link = self._link(a, b)
        if not link.up:
            return
        self._note(f"link {a}-{b} broken")
        link.up = link.closing = False
        link.frames = {}
        link.retry_at = self._clock.now + link.rngs[link.ends].uniform(*_RETRY_S)
        for x, y in ((a, b), (b, a)):
            self.members[x].disconnected(y)

    def gone(self, name: str) -> None:
        """Break the links of a process that ended. The kernel may still deliver what it had sent, or the first part of
        it."""
        for link in self._links.values():
            if name not in link.ends or not link.up:
                continue
            peer = link.ends[1] if link.ends[0] == name else link.ends[0]
            under_way = link.frames[name, peer]
            for _ in range(link.rngs[name, peer].randint(0, len(under_way))):
                under_way.pop()
            link.frames[peer, name].clear()
            link.closing = True

    def _link(self, a: str, b: str) -> _Link:
        return self._links[(a, b) if a < b else (b, a)]

    def _look(self) -> None:
        for link in self._links.values():
            if link.up:
                self._end_if_dead(link)
            elif self._clock.now >= link.retry_at and self._passable(link):
                self._connect(link)
        self._clock.after(_LOOK_S, self._look)

    def _end_if_dead(self, link: _Link) -> None:
        a, b = link.ends
        if link.closing and not any(link.frames.values()):
            self.reset(a, b)
            return
        for queue in link.frames.values():
            if queue and self._clock.now - queue[0][1] > SILENCE_S:
                self.reset(a, b)
                return

    def _passable(self, link: _Link) -> bool:
        a, b = link.ends
        cut = (a, b) in self._cuts or (b, a) in self._cuts
        return not cut and self.members[a].reachable() and self.members[b].reachable()

    def _connect(self, link: _Link) -> None:
        a, b = link.ends
        link.up, link.closing = True, False
        link.frames = {(a, b): deque(), (b, a): deque()}
        self._note(f"link {a}-{b} up")
        self.members[a].connected(b)
        if link.up:
            self.members[b].connected(a)
