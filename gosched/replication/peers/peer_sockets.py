"""The sockets between members before anything is said on them: those that are accepted, and those that are dialled.

Invariant: nothing here blocks the tick. Lookups run on threads, sockets are non-blocking, and a process without a
free descriptor still accepts and closes what it cannot keep.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
from collections.abc import Callable, Iterator
from typing import Any

from pysyncobj.poller import POLL_EVENT_TYPE

from gosched.replication.peers.peers import Peer, Target
from gosched.wire.addresses import STAGGER_S, AddressBook

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
    """Opens connections to peers: at each address that a peer may have, in rounds, a new attempt every `STAGGER_S`
    while those before go on."""

    def __init__(
        self,
        book: AddressBook,
        connecting: Callable[[socket.socket, Target, Peer], None],
        failed: Callable[[Peer, str, str], None],
    ) -> None:
        """Call `connecting` with a socket that is being connected, its target and its peer, or `failed` with the peer,
        the address or name, and why not."""
        self._book = book
        self._connecting = connecting
        self._failed = failed

    def dial(self, peer: Peer, now: float) -> None:
        """Begin a round of attempts, or go on with it; call it at each look while the peer is to be reached."""
        if any(connection.is_open for connection in peer.dialling):
            return  # somebody answers there, and is about to say who it is
        if not peer.asked:
            # Asked in each round, for names move, and on another thread, for lookups hang. Most have an answer when
            # this is called next; before one comes, the kept addresses are tried.
            peer.asked = True
            for host, _ in peer.addresses:
                self._book.ask(host)
            return
        target = next((t for t in self._targets(peer) if t.address not in peer.tried), None)
        if target is not None:
            peer.tried.add(target.address)
            peer.next_dial = now + STAGGER_S
            self._connect(peer, target)
        elif not peer.dialling and (peer.tried or not any(self._book.is_asking(host) for host, _ in peer.addresses)):
            for host, _ in peer.addresses:
                if error := self._book.error(host):
                    self._failed(peer, host, str(error))
            new_round(peer)
            peer.next_dial = now + random.uniform(*_RETRY_S)

    def _targets(self, peer: Peer) -> Iterator[Target]:
        for host, port in peer.addresses:
            for address in self._book.of(host):
                yield Target(host=host, address=(address, port), is_fresh=self._book.is_fresh(host, address))

    def _connect(self, peer: Peer, target: Target) -> None:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                *target.address, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )[0]
            sock = socket.socket(family, kind, protocol)
        except OSError as error:
            self._failed(peer, target.address[0], str(error))
            return
        sock.setblocking(False)
        code = sock.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            sock.close()
            self._failed(peer, target.address[0], os.strerror(code))
            return
        self._connecting(sock, target, peer)


def new_round(peer: Peer) -> None:
    """Let the next attempt begin with all addresses again."""
    peer.tried.clear()
    peer.asked = False


def send_last(sock: socket.socket, frame: bytes) -> None:
    """Send one frame, as far as the socket takes it at once, and close."""
    with contextlib.suppress(OSError), sock:
        sock.setblocking(False)
        sock.send(len(frame).to_bytes(4, "big") + frame)
