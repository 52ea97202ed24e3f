"""How long the replicated log waits for what: from the largest round trip, and from what was measured lately."""

from __future__ import annotations

from dataclasses import dataclass

import pysyncobj.syncobj as library

_WINDOW_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds. An election starts after a silence between the two bounds; without a majority a leader steps down."""

    append_period: float = 0.1
    election_min: float = 0.35
    election_max: float = 0.7
    leader_fallback: float = 0.8
    connection: float = 2.0
    handshake: float = 2.0

    @staticmethod
    def for_round_trip(seconds: float) -> Timing:
        """Return the timing that carries this round trip between two members from the first message on."""
        usual = Timing()
        least = max(usual.election_min, round(1.75 * seconds, 3))
        return Timing(
            append_period=usual.append_period,
            election_min=least,
            election_max=2 * least,
            leader_fallback=max(usual.leader_fallback, 4 * seconds),
            connection=max(usual.connection, 10 * seconds),
            handshake=max(usual.handshake, 10 * seconds),
        )


class Slowest:
    """The longest of the times noted in the last 15 to 30 s; 0 when none was."""

    def __init__(self) -> None:
        self._began = 0.0
        self._now = self._before = 0.0

    @property
    def value(self) -> float:
        self._turn()
        return max(self._now, self._before)

    def note(self, seconds: float) -> None:
        self._turn()
        self._now = max(self._now, seconds)

    def _turn(self) -> None:
        now: float = library.monotonicTime()
        if now - self._began > _WINDOW_S:
            self._before = self._now if now - self._began < 2 * _WINDOW_S else 0.0
            self._began, self._now = now, 0.0
