"""Where names point: what name servers answer, and the addresses at which a name's server was reached before.

A lookup may fail, or take half a minute where no name server answers. So each has a thread of its own, and until it
has ended, and after it has failed, the addresses that worked are tried; they outlive the program where it has a file.

Invariant: an address says only where to try. Who answers there has to prove who it is: by its certificate, which is
checked against the name as ever, or in the handshake of the replicated log.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAX_NAMES = 16_384  # the one used longest ago is forgotten; a master may have as many channels
MAX_ADDRESSES = 16  # of one name, that are tried
MAX_KEPT = 4  # of one name, that worked before those that worked last
MAX_LOOKUPS = 64  # at the same time; what has no thread yet is asked again
MAX_FILE_BYTES = 16 << 20  # more than so many of the longest names and addresses take
SAVE_EVERY_S = 5.0  # at most, however many names change
ASK_AGAIN_S = 0.5  # after an answer: a pod comes back under its name with another address
STAGGER_S = 0.25  # between the starts of two attempts at one name, as gRPC has it
#: A channel of gRPC: how long a try to connect may take, and the pause after one that failed, are two things. The first
#: is `min_reconnect_backoff`: no pause is made longer by it.
CONNECT_MS = 10_000  # TCP, TLS and HTTP/2 over the longest path that masters may have: 2 s of round trip
RECONNECT = (
    ("grpc.min_reconnect_backoff_ms", CONNECT_MS),
    ("grpc.initial_reconnect_backoff_ms", 100),
)

Lookup = Callable[[str], list[str]]


@dataclass(slots=True)
class _Name:
    #: Of the newest answer.
    answer: tuple[str, ...] = ()
    #: The newest lookup succeeded.
    is_fresh: bool = False
    #: Those that worked, the newest first. Of those that were dialled together each may be the one that did.
    kept: tuple[str, ...] = ()
    #: The lookup that is under way.
    lookup: Future[None] | None = None
    #: The end of the newest lookup, in seconds of the monotonic clock.
    answered_at: float = -ASK_AGAIN_S
    #: Why the newest lookup failed; None: it did not.
    error: OSError | UnicodeError | None = None
    #: What waits for nothing.
    done: Future[None] = field(default_factory=lambda: _done())


class AddressBook:
    """The addresses of names. Any thread may ask it, and none waits but in `find` and `found`."""

    def __init__(
        self,
        file: Path | None = None,
        *,
        lookup: Lookup | None = None,
        unsaved: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`file`: where the addresses that worked are kept; one that cannot be read is as none. `unsaved` is called
        with the reason when it cannot be written: they are kept in memory then."""
        self._file = file
        self._lookup = lookup or _look_up
        self._unsaved = unsaved
        self._lock = threading.Lock()
        self._names: dict[str, _Name] = {host: _Name(kept=kept) for host, kept in _read(file)}
        self._lookups = 0
        self._to_save = self._saves = False

    def of(self, host: str) -> tuple[str, ...]:
        """Return the addresses to try: those of the newest answer first, unless a later lookup has failed."""
        if is_literal(host):
            return (host,)
        with self._lock:
            name = self._names.get(host)
            if name is None:
                return ()
            # Few beside a fresh answer: all that are dialled may be kept next.
            found = [*name.answer, *name.kept[:MAX_KEPT]] if name.is_fresh else [*name.kept, *name.answer]
            return tuple(dict.fromkeys(found))[:MAX_ADDRESSES]

    def is_fresh(self, host: str, address: str) -> bool:
        """Return whether the newest lookup has ended, and named this address: one that is only kept may be another's by
        now."""
        if is_literal(host):
            return True
        name = self._names.get(host)
        return name is not None and name.lookup is None and name.is_fresh and address in name.answer

    def is_asking(self, host: str) -> bool:
        name = self._names.get(host)
        return name is not None and name.lookup is not None

    def error(self, host: str) -> OSError | UnicodeError | None:
        """Return why the newest lookup failed; None: it did not."""
        name = self._names.get(host)
        return name.error if name is not None else None

    def ask(self, host: str) -> Future[None]:
        """Begin a lookup, unless one is under way or has just ended; return what is done after it."""
        if is_literal(host):
            return _done()
        with self._lock:
            name = self._name(host)
            if name.lookup is not None:
                return name.lookup
            if time.monotonic() < name.answered_at + ASK_AGAIN_S or self._lookups >= MAX_LOOKUPS:
                return name.done
            self._lookups += 1
            name.lookup = Future()
            lookup = name.lookup
        try:
            # A daemon: a lookup that hangs does not keep the program from ending.
            threading.Thread(target=self._run, args=(host, name), name=f"lookup {host}", daemon=True).start()
        except RuntimeError as error:  # there are no more threads for now: it is asked again
            self._end(name, (), OSError(str(error)))
        return lookup

    def find(self, host: str, wait_s: float) -> tuple[str, ...]:
        """Return the addresses to try. A lookup has so long, and `STAGGER_S` where some are known."""
        with contextlib.suppress(TimeoutError):
            self.ask(host).result(min(wait_s, STAGGER_S) if self.of(host) else wait_s)
        return self.of(host)

    async def found(self, host: str, wait_s: float) -> tuple[str, ...]:
        """Return what `find` returns."""
        lookup = self.ask(host)
        if not lookup.done():
            await asyncio.wait(
                [asyncio.wrap_future(lookup)], timeout=min(wait_s, STAGGER_S) if self.of(host) else wait_s
            )
        return self.of(host)

    def worked(self, host: str, addresses: Iterable[str]) -> None:
        """Keep the address at which the name's server was reached. A caller that cannot tell which of several it was,
        as gRPC does not say, names all that it dialled: all of them are kept."""
        if is_literal(host):
            return
        reached = tuple(dict.fromkeys(addresses))[:MAX_ADDRESSES]
        with self._lock:
            name = self._name(host)
            if set(name.kept[: len(reached)]) == set(reached):  # their order says nothing
                return
            name.kept = tuple(dict.fromkeys([*reached, *name.kept]))[: max(MAX_KEPT, len(reached))]
            self._to_save = self._file is not None
            if not self._to_save or self._saves:
                return
            self._saves = True
        try:
            threading.Thread(target=self._save, name="addresses", daemon=True).start()  # a slow disk holds nobody up
        except RuntimeError as error:  # there are no more threads for now: the next change is written with this one
            self._saves = False
            self._unsaved(f"cannot write {self._file}: {error}")

    def _name(self, host: str) -> _Name:
        name = self._names.pop(host) if host in self._names else _Name()
        self._names[host] = name
        if len(self._names) > MAX_NAMES:
            del self._names[next(iter(self._names))]
        return name

    def _run(self, host: str, name: _Name) -> None:
        answer: tuple[str, ...] = ()
        problem: OSError | UnicodeError | None = None
        try:
            answer = tuple(dict.fromkeys(self._lookup(host)))[:MAX_ADDRESSES]
        except (OSError, UnicodeError) as error:  # UnicodeError: what could not be a name
            problem = error
        self._end(name, answer, problem)

    def _end(self, name: _Name, answer: tuple[str, ...], problem: OSError | UnicodeError | None) -> None:
        with self._lock:
            lookup, name.lookup = name.lookup, None
            name.is_fresh, name.error = bool(answer), problem
            name.answer = answer or name.answer
            name.answered_at = time.monotonic()
            self._lookups -= 1
        assert lookup is not None
        lookup.set_result(None)

    def _save(self) -> None:
        assert self._file is not None
        while True:
            with self._lock:
                if not self._to_save:
                    self._saves = False
                    return
                self._to_save = False
                kept = {host: name.kept for host, name in self._names.items() if name.kept}
            try:
                _write(self._file, json.dumps({"names": kept}).encode())
            except OSError as error:
                self._unsaved(f"cannot write {self._file}: {error.strerror or error}")
            time.sleep(SAVE_EVERY_S)


def connection(addresses: Sequence[str], port: int, timeout_s: float) -> socket.socket:
    """Return a connection to the first of the addresses that answers; each has its share of the time. Raises OSError:
    what the last one met."""
    *others, last = addresses
    for address in others:
        with contextlib.suppress(OSError):  # the next one may answer
            return socket.create_connection((address, port), timeout_s / len(addresses))
    return socket.create_connection((last, port), timeout_s / len(addresses))


async def connected(addresses: Sequence[str], port: int) -> tuple[socket.socket, str]:
    """Return a socket that is connected to the first of the addresses that answers, and that address. Raises
    OSError."""
    left = list(addresses)
    tries: dict[asyncio.Task[socket.socket], str] = {}
    problem = OSError("there is no address to try")
    try:
        while left or tries:
            if left:
                address = left.pop(0)
                tries[asyncio.ensure_future(_connect(address, port))] = address
            limit_s = STAGGER_S if left else None
            done, _ = await asyncio.wait(tries, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                address = tries.pop(task)
                error = task.exception()
                if error is None:
                    return task.result(), address
                if not isinstance(error, OSError):
                    raise error
                problem = error
        raise problem
    finally:
        for task in tries:
            task.cancel()
            task.add_done_callback(_close_late)


async def _connect(address: str, port: int) -> socket.socket:
    family, kind, protocol, _, target = socket.getaddrinfo(
        address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, target)
    except BaseException:
        sock.close()
        raise
    return sock


def _close_late(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def is_literal(host: str) -> bool:
    """Return whether a host is an address itself; no host is every interface, and nothing to look up either."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return not host
    return True


def grpc_target(addresses: Sequence[str], port: int) -> str:
    """Return the target of gRPC that tries all of them. One target has one family: among others IPv4 is mapped."""
    if not any(":" in address for address in addresses):
        return "ipv4:" + ",".join(f"{address}:{port}" for address in addresses)
    in_v6 = (address if ":" in address else f"::ffff:{address}" for address in addresses)
    return "ipv6:" + ",".join(f"[{address}]:{port}" for address in in_v6)


def name_of(address: str) -> str:
    """Return the name in the `host:port` of a server; empty: it is an address or a socket, and nothing to look up."""
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    return host if colon and port.isdigit() and not is_literal(host) else ""


def grpc_dial(address: str, addresses: Sequence[str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the target and the options of a channel to a server that is called `address`, at these addresses. What the
    certificate has to name stays the same. Without any, gRPC looks the name up."""
    if not addresses or not name_of(address):
        return address, ()
    return grpc_target(addresses, int(address.rpartition(":")[2])), (("grpc.default_authority", address),)


def _look_up(host: str) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def _done() -> Future[None]:
    done: Future[None] = Future()
    done.set_result(None)
    return done


def _read(file: Path | None) -> list[tuple[str, tuple[str, ...]]]:
    if file is None:
        return []
    try:
        with file.open("rb") as opened:
            names: dict[Any, Any] = json.loads(opened.read(MAX_FILE_BYTES))["names"]
            found = [
                (str(host), tuple(a for a in map(str, kept) if a and is_literal(a))[:MAX_ADDRESSES])
                for host, kept in names.items()
            ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []  # none yet, or half a file: lookups bring others
    return found[-MAX_NAMES:]


def _write(file: Path, data: bytes) -> None:
    new = f"{file}.tmp"
    with open(new, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as target:
        target.write(data)
        target.flush()
        os.fsync(target.fileno())
    os.replace(new, file)
