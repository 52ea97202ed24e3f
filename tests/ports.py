"""Ports for servers that must be told where to listen.

Invariant: between the choice of a port and its last use it is never free for anybody else, on a machine where other
tests bind and connect at the same time.
"""

from __future__ import annotations

import os
import socket
import weakref


class HeldPort:
    """A port of 127.0.0.1 that nobody listens on yet. What binds it with SO_REUSEADDR, as all servers here do, may
    listen there, go away and come back; nobody else is given it while this object is there."""

    def __init__(self) -> None:
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.number: int = holder.getsockname()[1]
            weakref.finalize(self, os.close, holder.detach())

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.number}"
