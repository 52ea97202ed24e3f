"""The leader's belief that nodes live: when each was heard last, in memory, on the monotonic clock.

Which silent nodes are given up, and when:

1. A node is silent once its lease is over. Time for which this process stood still is added to all leases.
2. A leader that is late (`lateness.py`) gives up none, and none for half a lease after the last sign of it.
3. Where many miss a heartbeat together (MANY_SHARE of all, and more than MANY), the fault may be this master's own: it
   gives up none for one lease after the first of theirs was over, or until all are heard again. A switch that takes a
   rack with it is found in that time.
4. A node whose tasks end with its lease is waited for longer, as is every node under a new leader: its tasks outlive a
   change of leaders.
5. A node whose tasks may live on, in gangs that go on without them, is waited for once its other tasks are lost.
6. Of those that are left, the longest silent go first, AT_ONCE at each check. One that is heard before its turn lives.

Invariant: only a node's own silence counts against it, never the lateness of this process; and the lease that a node
was given is over before any leader, this one or the next, counts it as dead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gosched.master.agents.lateness import Lateness
from gosched.master.base.clock import Clock

CHECK_S = 0.5
STALL_S = 1.0  # between two checks: this process stood still, and heartbeats wait unread
MANY, MANY_SHARE = 20, 0.05  # nodes that miss a heartbeat together
MISSED = 1.3  # times between two heartbeats: one has been missed
AT_ONCE = 50  # nodes that are given up at one check
HEARTBEAT_COST_MS = 2  # of the leader's time for each node: half of it is left for all else


class Leases:
    def __init__(self, clock: Clock, *, timeout_s: float, first_s: float, heartbeat_s: float = 0.0) -> None:
        """`heartbeat_s`: between two heartbeats of a node, in a cluster of any size."""
        self._clock = clock
        self._timeout_s = timeout_s
        self._first_s = max(first_s, timeout_s)  # a lease that the leader before gave may run on
        self._heartbeat_s = heartbeat_s
        self._ends: dict[str, float] = {}
        self._heard: dict[str, float] = {}
        self._given_up: set[str] = set()
        self._awaited: set[str] = set()  # those whose agents were stopped
        self._waited_for: set[str] = set()  # silent ones with tasks that may live on
        self._silent = 0
        self._many_until: float | None = None
        self._checked = clock.monotonic_s()
        self._confirmed = -math.inf
        self.lateness = Lateness(clock, quiet_s=timeout_s / 2)

    def lease_ms(self, node: str) -> int:
        """Return what a node is told: how long it lives without another answer, counted from when it asked. That is as
        long as this leader waits for it, and no longer than a next leader would from the moment at which this one was
        last known to lead."""
        now = self._clock.monotonic_s()
        until = min(self._ends.get(node, 0.0), self._confirmed + self._first_s)
        return int(max(until - now, self._timeout_s) * 1000)

    @property
    def heartbeat_ms(self) -> int:
        """Return the time between two heartbeats that a node is told: more in a large cluster, as far as the lease
        allows."""
        wanted_ms = min(len(self._ends) * HEARTBEAT_COST_MS, self._timeout_s * 500)
        return int(max(self._heartbeat_s * 1000, wanted_ms))

    def begin(self, nodes: Iterable[str], asked_s: float = -math.inf) -> None:
        """Give every living node a longer first lease under a new leader: its heartbeats have to find this master.
        `asked_s`: when it proposed what opened its epoch."""
        now = self._checked = self._clock.monotonic_s()
        self._ends = dict.fromkeys(nodes, now + self._first_s)
        self._heard = {}
        self._given_up = set()
        self._awaited = set()
        self._waited_for = set()
        self._silent = 0
        self._many_until = None
        self._confirmed = asked_s
        self.lateness.begin()

    def confirmed(self, at_s: float) -> None:
        """Note that this master led at that moment: what it proposed then was committed."""
        self._confirmed = max(self._confirmed, at_s)

    def is_confirmed(self) -> bool:
        """Return whether it has led so lately that a lease given now ends before the first ones of a next leader."""
        return self._clock.monotonic_s() - self._confirmed < (self._first_s - self._timeout_s) / 2

    def renew(self, node: str, *, tasks_end_with_it: bool = False) -> None:
        """Note that a node was heard. `tasks_end_with_it`: it has tasks that end with its lease, and this leader is
        confirmed. Such a lease is longer by what `is_confirmed` leaves until a next leader would give the node up."""
        now = self._clock.monotonic_s()
        self._heard[node] = now
        self._waited_for.discard(node)
        lasts_s = (self._first_s + self._timeout_s) / 2 if tasks_end_with_it else self._timeout_s
        self._ends[node] = max(now + lasts_s, self._ends.get(node, 0.0))

    def wait_for(self, node: str, wait_s: float) -> None:
        """Let the node live for so long without a heartbeat: its agent was stopped, and has promised as much to its
        tasks."""
        self._ends[node] = max(self._clock.monotonic_s() + wait_s, self._ends.get(node, 0.0))
        self._awaited.add(node)

    def is_back(self, node: str) -> None:
        """End that wait with the first heartbeat of a new registration, whose answer has set its tasks another end: no
        later than a first lease."""
        if node in self._awaited:
            self._awaited.discard(node)
            self._ends[node] = min(self._ends[node], self._clock.monotonic_s() + self._first_s)

    def wait_on(self, node: str) -> None:
        """Let a silent node be, until it is heard or `end_wait`."""
        self._waited_for.add(node)

    def end_wait(self, node: str) -> None:
        """Give the node up at a next check, like any that is silent."""
        self._waited_for.discard(node)

    @property
    def waited_for(self) -> list[str]:
        return sorted(self._waited_for)

    def silent_ms(self, node: str) -> int:
        """Return for how long its lease has been over; 1 at least."""
        return max(int((self._clock.monotonic_s() - self._ends.get(node, math.inf)) * 1000), 1)

    def spare(self, node: str) -> None:
        """Note that a node that was given up has registered anew meanwhile, and lives."""
        self._given_up.discard(node)
        self.renew(node)

    def drop(self, node: str) -> None:
        self._ends.pop(node, None)
        self._heard.pop(node, None)
        self._given_up.discard(node)
        self._awaited.discard(node)
        self._waited_for.discard(node)

    def is_given_up(self, node: str) -> bool:
        """Return whether the node is about to be counted as dead, or has been: it must be given no lease."""
        return node in self._given_up

    def expired(self) -> list[str]:
        """Return the nodes that are given up, until the next call. Call every CHECK_S, and `resume` where that takes
        longer for another reason than that this process stood still."""
        now = self._clock.monotonic_s()
        gap, self._checked = now - self._checked, now
        self.lateness.check(gap - CHECK_S)
        if gap > STALL_S:
            self._ends = {node: end + gap for node, end in self._ends.items()}
        over = sorted([(end, node) for node, end in self._ends.items() if end <= now and node not in self._waited_for])
        self._look_for_many(now, over)
        chosen = [] if self.doubt else [node for _, node in over[:AT_ONCE]]
        self._given_up = set(chosen)
        return chosen

    def _look_for_many(self, now: float, over: list[tuple[float, str]]) -> None:
        """Begin to wait where many nodes miss a heartbeat, which is before the first of their leases is over."""
        heard_by = now - self._missed_s
        known = self._awaited | self._waited_for
        silent = {node for node, at in self._heard.items() if at < heard_by and node not in known}
        silent.update([node for _, node in over])
        self._silent = len(silent)
        is_many = len(silent) > max(MANY, MANY_SHARE * len(self._ends))
        if is_many and self._many_until is None and not self.lateness.why:  # after a stall all are heard late
            self._many_until = max(now, min([self._ends[node] for node in silent])) + self._timeout_s
        elif not silent or (not is_many and not self._waits_for_many):
            self._many_until = None

    @property
    def _waits_for_many(self) -> bool:
        return self._many_until is not None and self._clock.monotonic_s() < self._many_until

    @property
    def _missed_s(self) -> float:
        """Return after how long a node has missed a heartbeat, however often it sends them."""
        return max(MISSED * self.heartbeat_ms / 1000, self._timeout_s / 2)

    def resume(self) -> None:
        """Note that checks go on: what lay between was other work, not a stall."""
        self._checked = self._clock.monotonic_s()

    @property
    def doubt(self) -> str:
        """Return why silent nodes are not given up at present; empty: they are, or none is silent and this leader is
        on time."""
        if why := self.lateness.why:
            return f"this leader is late, and gives up no node meanwhile: {why}"
        if self._waits_for_many:
            return f"{self._silent} of {len(self._ends)} nodes fell silent together: the leader waits for another lease"
        return ""

    def oldest_age_s(self) -> float:
        """Return the time since the node was heard that was heard longest ago; 0 where none was."""
        return self._clock.monotonic_s() - min(self._heard.values()) if self._heard else 0.0

    def age_ms(self, node: str) -> int:
        """Return the time since its last heartbeat; -1 where it sent none to this leader."""
        heard = self._heard.get(node)
        return -1 if heard is None else int((self._clock.monotonic_s() - heard) * 1000)
