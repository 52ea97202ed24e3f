"""How many calls a second an identity may make: a bucket of tokens for each, as GCRA keeps it.

Instead of a count and a time, a caller has one number: when its bucket would be full again. A call moves that by the
time of one token, and is refused where it lies further ahead than the burst allows.

Invariant: a call costs a few steps, however many callers there are; at most `MAX_CALLERS` of them are remembered, the
latest. One that is forgotten begins with a full bucket.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

MAX_CALLERS = 16_384


class Rates:
    """`per_second`: calls of one caller in the long run; `burst`: those that it may make at once after a pause."""

    def __init__(
        self, per_second: int, burst: int, now_s: Callable[[], float], *, max_callers: int = MAX_CALLERS
    ) -> None:
        self.per_second = per_second
        self._token_s = 1.0 / per_second
        self._ahead_s = (burst - 1) * self._token_s
        self._now_s = now_s
        self._most = max_callers
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def takes(self, caller: str) -> bool:
        """Take a token, and return whether there was one."""
        now, full_at = self._now_s(), self._full_at
        full = max(full_at.get(caller, now), now)
        if full - now > self._ahead_s:
            return False
        full_at[caller] = full + self._token_s
        full_at.move_to_end(caller)
        if len(full_at) > self._most:
            full_at.popitem(last=False)
        return True
