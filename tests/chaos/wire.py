"""A long cable in user space, for kernels without netem: carries Ethernet frames between two TAP devices.

`python wire.py FD FD`: the descriptors of the devices. Each line on its standard input is the delay in milliseconds
from then on, and is answered; it ends with its input.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections import deque
from contextlib import suppress

_FRAME_BYTES = 65_536
_MAX_WAITING = 50_000  # frames; what comes beyond is lost, as on any cable


def carry(one: int, other: int) -> None:
    """Until the standard input ends."""
    delay_s = 0.0
    waiting: deque[tuple[float, int, bytes]] = deque()  # in order of their time: a new delay never overtakes
    poller = select.poll()
    for fd in (one, other, 0):
        poller.register(fd, select.POLLIN)
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, to, frame = waiting.popleft()
            with suppress(OSError):  # the device is down: the cable is cut
                os.write(to, frame)
        rest_ms = max((waiting[0][0] - now) * 1000, 0.0) if waiting else None
        for fd, _ in poller.poll(rest_ms if rest_ms is None else int(rest_ms) + 1):
            if fd == 0:
                lines = os.read(0, 4096).split()
                if not lines:
                    return
                delay_s = int(lines[-1]) / 1000
                os.write(1, b"taken\n" * len(lines))
                continue
            try:
                frame = os.read(fd, _FRAME_BYTES)
            except OSError:
                continue
            due = max(time.monotonic() + delay_s, waiting[-1][0] if waiting else 0.0)
            if len(waiting) < _MAX_WAITING:
                waiting.append((due, other if fd == one else one, frame))


if __name__ == "__main__":
    carry(int(sys.argv[1]), int(sys.argv[2]))
