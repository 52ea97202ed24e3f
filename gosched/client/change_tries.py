"""What the tries of a change tell: whether it may have been made already, and what its caller can do then.

Invariant: a change gets another request id only while no try of it can have been carried out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gosched.client.calls import Call
from gosched.client.errors import OutOfTime, Unavailable, Unreachable, is_transient
from gosched.client.targets import may_have_arrived


class MastersClock:
    """The time for new request ids: of this machine, until the masters find it too far off; then theirs."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def learn(self, clock_ms: int) -> None:
        """Go by the masters' clock from now on."""
        self._ahead_ms = clock_ms - time.time_ns() // 1_000_000


class ChangeTries:
    """The tries of one call."""

    def __init__(self, call: Call[Any]) -> None:
        self._call = call
        #: Some try may have been carried out, or may still be.
        self.may_be_done = False

    @contextmanager
    def one(self) -> Iterator[None]:
        """Watch one try."""
        import grpc  # takes long to import; whoever tries has it

        try:
            yield
        except grpc.RpcError as error:
            self.may_be_done |= is_transient(error) and may_have_arrived(error)
            raise
        except BaseException:  # whatever ended the wait for the answer
            self.may_be_done = True
            raise

    def explained(self, error: Unavailable) -> Unavailable | None:
        """Return the error as the caller of a change needs it; None: as it is."""
        if not self._call.is_change or isinstance(error, Unreachable | OutOfTime):
            return None
        text = f"{error}. It may still take effect: look before you repeat it"
        return Unavailable(text, was_reached=error.was_reached, request_id=self._call.request.request_id)
