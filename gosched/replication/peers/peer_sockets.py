"""The sockets between members before anything is said on them: those that are accepted, and those that are dialled.

Invariant: nothing here blocks the tick. Lookups run on a thread, sockets are non-blocking, and a process without a
free descriptor still accepts and closes what it cannot keep.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import os
import random
import socket
from collections.abc import Callable
from typing import Any

from pysyncobj.poller import POLL_EVENT_TYPE

from gosched.replication.peers.peers import Peer

_ACCEPTS_PER_TURN = 16  # so that one that was let in may speak before as many come that it has to go
_RETRY_S = (0.2, 0.5)


class Listener:
    """Accepts connections of other members in PySyncObj's poller."""

    def __init__(self, poller: Any, sock: socket.socket, accepted: Callable[[socket.socket, str], None]) -> None:
        """Call `accepted` with each new socket and the host it comes from."""
        self._poller = poller
        self._sock = sock
        self._sock.setblocking(False)
        self._accepted = accepted
        self._spare_fd = os.open(os.devnull, os.O_RDONLY)  # to be able to refuse when no descriptor is left
        self._poller.subscribe(sock.fileno(), self._accept, POLL_EVENT_TYPE.READ)

    def close(self) -> None:
        self._poller.unsubscribe(self._sock.fileno())
        self._sock.close()
        os.close(self._spare_fd)

    def _accept(self, _fd: int, _event: int) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, address = self._sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._refuse_one()
                return
            self._accepted(sock, address[0])

    def _refuse_one(self) -> None:
        """Give up the spare descriptor to accept the waiting connection and close it."""
        os.close(self._spare_fd)
        try:
            self._sock.accept()[0].close()
        except OSError:
            pass  # it went away by itself
        finally:
            self._spare_fd = os.open(os.devnull, os.O_RDONLY)


class Dialler:
    """Opens connections to peers, one attempt at a time for each."""

    def __init__(
        self, connecting: Callable[[socket.socket, str, Peer], None], failed: Callable[[Peer, str], None]
    ) -> None:
        """Call `connecting` with a socket that is being connected, its host and its peer, or `failed` with why not."""
        self._connecting = connecting
        self._failed = failed
        self._resolver = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="resolver")

    def close(self) -> None:
        self._resolver.shutdown(wait=False, cancel_futures=True)

    def dial(self, peer: Peer, now: float) -> None:
        """Begin an attempt, or go on with it; call it at each tick while the peer is to be reached."""
        # Resolved anew for each attempt, off this thread: names move, and lookups hang.
        if peer.resolving is None:
            host, port = peer.addresses[peer.tried % len(peer.addresses)]
            peer.resolving = self._resolver.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
            return
        if not peer.resolving.done():
            return
        resolving, peer.resolving = peer.resolving, None
        host, _ = peer.addresses[peer.tried % len(peer.addresses)]
        peer.tried += 1
        peer.next_dial = now + random.uniform(*_RETRY_S)
        try:
            family, kind, protocol, _, address = resolving.result()[0]
            sock = socket.socket(family, kind, protocol)
        except OSError as error:
            self._failed(peer, str(error))
            return
        sock.setblocking(False)
        code = sock.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            sock.close()
            self._failed(peer, os.strerror(code))
            return
        self._connecting(sock, host, peer)


def send_last(sock: socket.socket, frame: bytes) -> None:
    """Send one frame, as far as the socket takes it at once, and close."""
    with contextlib.suppress(OSError), sock:
        sock.setblocking(False)
        sock.send(len(frame).to_bytes(4, "big") + frame)
