"""Whether a member's front is alive enough for the member to lead.

A front says that it is at work between any two things that it does (`say_alive`), so a busy one is heard, and one that
stands still is not. Three things make it no silence of its own:

- The time in which the front's thread was ready to run and had no processor, by the kernel's count, is no silence.
- How long it may be silent is learned, like the timeouts of elections: a silence that ended by itself says how long the
  next one may last.
- Who has just taken the lead over from a living leader is given the most patience: where that leader's front was too
  slow, this one may be as well, and a lead that is handed round helps nobody.

Invariant: a front that stands still is found out after MOST_S of turns at the latest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from gosched.replication.raft.timing import Slowest

LEAST_S = 2.0
MOST_S = 8.0
HOLD_S = 10.0  # after a lead that was taken over; also how lately the leader before must have led
_TIMES = 3.0  # the longest silence of lately
_LOOK_S = 0.5  # of silence, before the kernel is asked
_MAX_TURN_S = 0.2  # what one turn counts for at most: if we did not run, the front may have spoken meanwhile


def waited_for_cpu_s(pid: int | None = None) -> float:
    """Return how long a process's first thread, of the parent by default, has waited for a processor in its life; 0
    where the kernel does not count it, or the process is gone."""
    try:
        return int(Path(f"/proc/{pid or os.getppid()}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


class FrontWatch:
    """The silence of one front, counted in turns of its replica. `waited_s`: for a processor, in its life."""

    def __init__(self, now: float, waited_s: Callable[[], float] = waited_for_cpu_s) -> None:
        self._waited_s = waited_s
        self._turned_at = now
        self._silent_s = 0.0
        self._waited_at_look_s: float | None = None  # in this silence
        self._silences = Slowest()  # that have ended
        self._leads = False
        self._other_led_at = -HOLD_S  # when another member was last known to lead
        self._patient_until = now

    def heard(self) -> None:
        """Note that the front spoke."""
        self._silences.note(self._silent_s)
        self._silent_s = 0.0
        self._waited_at_look_s = None

    def turn(self, now: float, *, leads: bool, other_leads: bool) -> bool:
        """Count a turn; return whether the front speaks. Call once a turn, with who leads."""
        self._silent_s += min(now - self._turned_at, _MAX_TURN_S)
        self._turned_at = now
        if leads and not self._leads and now - self._other_led_at < HOLD_S:
            self._patient_until = now + HOLD_S
        if other_leads:
            self._other_led_at = now
        self._leads = leads
        if self._silent_s < _LOOK_S:
            return True
        if self._waited_at_look_s is None:
            self._waited_at_look_s = self._waited_s()
        patience_s = self._patience_s(now)
        if self._silent_s < patience_s:
            return True
        waited_s = self._waited_s() - self._waited_at_look_s
        return self._silent_s < MOST_S and self._silent_s - waited_s < patience_s

    def _patience_s(self, now: float) -> float:
        """Return how long the front may be silent."""
        if now < self._patient_until:
            return MOST_S
        return min(max(LEAST_S, _TIMES * self._silences.value), MOST_S)
