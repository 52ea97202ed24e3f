"""How long the caller of a gRPC call still waits for its answer.

gRPC for Python tells it as the time until a moment of the wall clock, by the distance of that clock from the monotonic
one when the process began. Once the wall clock was set, what it tells is wrong by as much, for the life of the process.

Invariant: a call is never taken for one that was given up because a clock was set.
"""

from __future__ import annotations

import time
from typing import Any

_SET_S = 0.2  # by which the clock is set; less is what the two readings take on a busy machine
_DISTANCE_S = time.time() - time.monotonic()


def left_s(context: Any) -> float | None:
    """Return the time that the caller waits; 0: it has given the call up. None: it waits for ever, or nobody knows."""
    if not context.peer():  # as gRPC has it of a call that is over
        return 0.0
    if abs(time.time() - time.monotonic() - _DISTANCE_S) > _SET_S:
        return None
    left: float | None = context.time_remaining()
    return left
