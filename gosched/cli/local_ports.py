"""Free ports of a local cluster, kept from other clusters on the machine while it exists."""

from __future__ import annotations

import random
import socket

from gosched.cli.local_program import LocalClusterError

_PORTS = range(30_000, 32_700)  # below what the kernel gives out by itself, above the MASTER_PORT of jobs


class HeldPorts:
    """Ports that are bound here, without listening, until `close`.

    No other cluster can take one, not even while the program that it is for is down. That program can: it sets
    SO_REUSEADDR, as this side does after its bind.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self) -> int:
        for _ in range(1000):
            port = random.choice(_PORTS)
            held = socket.socket()
            try:
                held.bind(("127.0.0.1", port))
            except OSError:
                held.close()
                continue
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._held.append(held)
            return port
        raise LocalClusterError(f"no free port between {_PORTS.start} and {_PORTS.stop} on 127.0.0.1")

    def close(self) -> None:
        for held in self._held:
            held.close()
