"""A long cable in user space, for kernels without netem: carries Ethernet frames between two TAP devices.

`python wire.py FD FD`: the descriptors of the devices. Each line on its standard input is the delay in milliseconds
from then on, and the TCP port that it is for, 0: all frames; it is answered. The wire ends with its input.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import time
from collections import deque
from contextlib import suppress

_FRAME_BYTES = 65_536
_MAX_WAITING = 50_000  # frames; what comes beyond is lost, as on any cable


def carry(one: int, other: int) -> None:
    """Until the standard input ends."""
    delay_s, port = 0.0, 0
    waiting: deque[tuple[float, int, bytes]] = deque()  # in order of their time: a new delay never overtakes
    held: deque[tuple[float, int, bytes]] = deque()  # the same, of the port that has a delay
    poller = select.poll()
    for fd in (one, other, 0):
        poller.register(fd, select.POLLIN)
    while True:
        now = time.monotonic()
        for queue in (waiting, held):
            while queue and queue[0][0] <= now:
                _, to, frame = queue.popleft()
                with suppress(OSError):  # the device is down: the cable is cut
                    os.write(to, frame)
        rest_ms = min([max((queue[0][0] - now) * 1000, 0.0) for queue in (waiting, held) if queue], default=None)
        for fd, _ in poller.poll(rest_ms if rest_ms is None else int(rest_ms) + 1):
            if fd == 0:
                lines = os.read(0, 4096).splitlines()
                if not lines:
                    return
                delay_s, port = [int(word) for word in lines[-1].split()]
                delay_s /= 1000
                os.write(1, b"taken\n" * len(lines))
                continue
            try:
                frame = os.read(fd, _FRAME_BYTES)
            except OSError:
                continue
            queue = held if port and port in _ports(frame) else waiting
            its_delay_s = delay_s if queue is held or not port else 0.0
            due = max(time.monotonic() + its_delay_s, queue[-1][0] if queue else 0.0)
            if len(queue) < _MAX_WAITING:
                queue.append((due, other if fd == one else one, frame))


def _ports(frame: bytes) -> tuple[int, ...]:
    """Return the ports of a TCP segment over IPv4; none of other frames."""
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
        return ()
    at = 14 + 4 * (frame[14] & 15)
    return struct.unpack_from("!HH", frame, at)


if __name__ == "__main__":
    carry(int(sys.argv[1]), int(sys.argv[2]))
