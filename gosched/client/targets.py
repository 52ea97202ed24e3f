"""Which master is asked next: the endpoints that a client was given, the masters that it has learnt of, what failed.

Invariant: nothing here waits or sends; the clients with and without asyncio share it. Each master answers: a follower
forwards to the leader, and says so, and the next call goes to the leader itself where the client knows that address.
Where it cannot be reached from here, any master that can reach it will do. A call goes to one master at a time, and
moves on when that one gives no answer.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gosched.client.arguments import given_as
from gosched.client.errors import Misused, Unavailable, Unreachable, from_rpc, is_transient
from gosched.config.files import stamp_of
from gosched.wire.addresses import RECONNECT, AddressBook
from gosched.wire.metadata import LEADER

if TYPE_CHECKING:
    from gosched.wire.probe import Obstacle

AVOID_LEADER_S = 600.0  # that could not be reached from here: other masters pass calls on meanwhile
LEARN_EVERY_S = 10.0  # between two looks at which masters there are
LOOK_AT_FILES_S = 2.0  # between two looks at the TLS files
LOOK_UP_S = 1.0  # at most, for where a name points
CONNECT_S = 1.5  # for a first connection, where there are other masters: it is gone on with while they are asked
TRY_S = 3.0  # one master's time for one call; one that is frozen never answers
MAX_MASTERS = 64
LOOK_AFTER_S = 0.8  # what stands in the way is looked at once all tries have failed for so long
_LOOK_EVERY_S = 3.0
_MOST_NAMED = 8  # endpoints in a message
_URLS = ("http://", "https://")
_HOW_TLS = "tls=TlsFiles(...) in Python, else a context, or GOSCHED_TLS_CERT, GOSCHED_TLS_KEY and GOSCHED_TLS_CA"
OPTIONS = (
    # A frozen or cut-off master is noticed within two seconds in the middle of a stream.
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 1000),
    ("grpc.http2.max_pings_without_data", 0),
    *RECONNECT,
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.enable_http_proxy", 0),
)
CLOSED = "the client is closed: make another one"
# In gRPC's words that there was no connection, so that nothing was sent; those of names differ from release to release.
_NO_CONNECTION = ("failed to connect", "DNS resolution failed", "errors resolving")
SOCKET = "unix:"
_MAX_SOCKET = 107 + len(SOCKET)  # bytes of the name of a socket, in Linux
_MAX_LABEL = 63  # characters of a part of a host's name


#: A secret, or what returns it for each call; it may block.
Token = str | Callable[[], str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Paths of PEM files: the client's certificate and key, and the authority's certificate. A client that has a token
    needs the last alone."""

    cert: str | Path = ""
    key: str | Path = ""
    ca: str | Path

    def read(self) -> tuple[bytes, bytes, bytes]:
        """Return the contents: of the authority's certificate, the key, and the certificate, empty where there is none.
        Raises Misused for files that do not go together, or have expired."""
        if not self.cert:
            return _read(self.ca), b"", b""
        from gosched.wire.roles import BadCertificate
        from gosched.wire.tls_files import check_files

        try:
            check_files(str(self.cert), str(self.key), str(self.ca))
            ca, key, cert = (Path(path).read_bytes() for path in (self.ca, self.key, self.cert))
        except BadCertificate as error:
            raise Misused(f"tls: {error}") from error
        except OSError as error:
            raise Misused(f"cannot read {error.filename}: {error.strerror}") from error
        return ca, key, cert


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Misused(f"cannot read {path}: {error.strerror}") from error


class TlsInUse:
    """The client's TLS files, as its channels use them. New contents are for new channels, once they go together."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._contents: tuple[bytes, bytes, bytes] | None = None
        self._seen: tuple[object, ...] = ()
        self._look_at = 0.0
        #: Counts the contents that were taken up.
        self.version = 0

    def contents(self) -> tuple[bytes, bytes, bytes]:
        """Return the contents like `TlsFiles.read`, which is asked again when the files have changed. Raises Misused
        while there are none to go on with."""
        now = time.monotonic()
        if self._contents is None or now >= self._look_at:
            self._look_at = now + LOOK_AT_FILES_S
            seen = tuple(stamp_of(path) for path in (self._files.ca, self._files.key, self._files.cert))
            if seen != self._seen:
                self._read(seen)
        assert self._contents is not None
        return self._contents

    def _read(self, seen: tuple[object, ...]) -> None:
        try:
            contents = self._files.read()
        except Misused:
            if self._contents is None:
                raise
            return  # half written, perhaps; it is looked at again
        self._seen = seen
        if contents != self._contents:
            self._contents = contents
            self.version += 1


class Targets:
    """The endpoints, `host:port` of gRPC, the URL of a master's HTTP port, or `unix:/path` of its socket, and the
    masters that are asked. At a socket the caller is its account: TLS files count for addresses alone."""

    def __init__(
        self,
        endpoints: str | Sequence[str],
        tls: TlsFiles | None,
        token: Token = None,
        *,
        fails_fast: bool = False,
    ) -> None:
        """`fails_fast`: masters that refuse the connection are not waited for, until one has answered."""
        self.endpoints = endpoint_list(endpoints)
        self.is_local = is_socket(self.endpoints[0])
        self.tls = tls = None if self.is_local else tls
        self.token = token
        if token and tls is None and not self.is_local:
            raise Misused("a token is not sent in plain text: give tls=TlsFiles(ca=...), too")
        self._tls_in_use = TlsInUse(tls) if tls else None
        self.fails_fast = fails_fast
        #: A master has answered this client: the endpoints are right, and it is worth while to look for another one.
        self.has_answered = False
        #: Some call may have reached a master.
        self.may_have_arrived = False
        #: Some master has answered the call with an error.
        self.was_reached = False
        #: What stands between this client and the masters, or their URLs, as far as it was looked at.
        self.obstacles: dict[str, Obstacle] = {}
        #: Empty: not known yet, `urls` say it.
        self.known: list[str] = [endpoint for endpoint in self.endpoints if not endpoint.startswith(_URLS)]
        self.urls = [] if self.known else self.endpoints
        self.last_error = ""
        self._told = list(self.known)
        self._next = random.randrange(MAX_MASTERS)
        #: The master that calls go to first; empty: `current`, as streams do, which any master serves.
        self.leader = ""
        #: Where names of masters point, and did when they were reached.
        self.book = AddressBook()
        #: Masters that gave no answer when they were called last.
        self.silent: set[str] = set()
        self._avoided: dict[str, float] = {}  # masters, and until when they are not called as the leader
        self._learn_at = time.monotonic() + LEARN_EVERY_S  # a shorter life needs none
        secure = next((url for url in self.endpoints if url.startswith("https://")), "")
        if secure and tls is None:
            raise Misused(f"{secure} needs the client's TLS files: {_HOW_TLS}")

    def tls_contents(self) -> tuple[int, tuple[bytes, bytes, bytes] | None]:
        """Return a count of the contents, and the contents of the TLS files: CA, key, certificate. None: no TLS. Raises
        Misused."""
        if self._tls_in_use is None:
            return 0, None
        contents = self._tls_in_use.contents()
        return self._tls_in_use.version, contents

    def check(self, target: str) -> None:
        """Raise Misused for an address that a client of a socket does not know."""
        if self.is_local and not is_socket(target):
            raise Misused(f"at a socket its own master is called alone, and not {target}: name addresses as endpoints")

    def is_old(self, version: int) -> bool:
        """Return whether channels with these contents of the TLS files are to be closed; the last ones still have
        streams."""
        return self._tls_in_use is not None and version < self._tls_in_use.version - 1

    @property
    def current(self) -> str:
        return self.known[self._next % len(self.known)]

    def passed_on(self, trailer: Any) -> None:
        """Take up which master a call was passed on to, by the trailing metadata of its answer."""
        for key, address in trailer or ():
            if key == LEADER and address in self.known and time.monotonic() >= self._avoided.get(address, 0.0):
                self.leader = address

    def failed(self, error: Any, *, at_leader: bool = False) -> None:
        """Move on to the next master; raise when the error is an answer. `at_leader`: it is that of a call that went to
        the leader."""
        if not is_transient(error):
            raise from_rpc(error) from None
        text = " ".join((error.details() or error.code().name).split())[:200]
        no_connection = not may_have_arrived(error)
        self.may_have_arrived |= not no_connection
        silent = no_connection or error.code().name == "DEADLINE_EXCEEDED"
        self.was_reached |= not silent
        if silent and len(self.silent) < MAX_MASTERS:
            self.silent.add(self.leader if at_leader and self.leader else self.current)
        if not self.last_error or not silent:  # what a master that lives says tells more
            self.last_error = text
        if not at_leader or self.leader == self.current:
            self._next += 1
        if at_leader:
            if silent and self.leader:
                self._avoided[self.leader] = time.monotonic() + AVOID_LEADER_S
            self.leader = ""

    def unconnected(self, target: str) -> None:
        """Move on to the next master: there is no connection to this one yet."""
        self.last_error = self.last_error or f"no connection to {target} within {CONNECT_S:g} s"
        if target == self.leader:
            self._avoided[target] = time.monotonic() + AVOID_LEADER_S
            self.leader = ""
        if target == self.current:
            self._next += 1

    def time_to_learn(self) -> bool:
        """Return whether to look again which masters there are: they come and go while a client lives."""
        if self.is_local or (self.tls is not None and not self.tls.cert):
            return False  # where masters tell each other to call, the caller is nobody, or another one
        if time.monotonic() < self._learn_at:
            return False
        self._learn_at = time.monotonic() + LEARN_EVERY_S
        return True

    def learn(self, masters: Sequence[str]) -> None:
        """Take over where masters listen now. The client's own endpoints stay."""
        current = self.current
        self.known = list(dict.fromkeys([*self._told, *filter(None, masters), current]))[:MAX_MASTERS]
        self._next = self.known.index(current) if current in self.known else 0
        self.leader = self.leader if self.leader in self.known else ""
        self._avoided = {address: until for address, until in self._avoided.items() if address in self.known}


class Tries:
    """The tries of one call: how long it may go on, and how long to wait before the next."""

    def __init__(self, targets: Targets, timeout_s: float) -> None:
        self._targets, self._timeout_s = targets, timeout_s
        self._began = time.monotonic()
        self._ends = self._began + timeout_s
        self._look_after_s = LOOK_AFTER_S
        self._count = 0
        targets.last_error, targets.may_have_arrived, targets.obstacles = "", False, {}
        targets.was_reached = False

    def left_s(self) -> float:
        """Return the time that is left. Raises Unavailable when there is none."""
        left = self._ends - time.monotonic()
        if left > 0:
            return left
        targets = self._targets
        asked, obstacles = ", ".join(targets.endpoints), _told(targets.obstacles)
        problem = obstacles or targets.last_error or "no reply"
        text = f"no master answered within {self._timeout_s:g} s ({asked}): {problem}"
        raise Unavailable(text, was_reached=targets.was_reached and not obstacles)

    def time_to_look(self) -> bool:
        """Return whether to look what stands between this client and the masters, for `looked`."""
        since_s = time.monotonic() - self._began
        if since_s < self._look_after_s:
            return False
        self._look_after_s = since_s + _LOOK_EVERY_S
        return True

    def looked(self, found: Mapping[str, Obstacle | None]) -> None:
        """Take over what was found. Raises Unreachable where a later try cannot help, or is not wanted."""
        targets = self._targets
        known: dict[str, Obstacle | None] = {**(found or targets.obstacles)}
        obstructed = {address: obstacle for address, obstacle in known.items() if obstacle is not None}
        if not known or len(obstructed) < len(known):
            targets.obstacles = {}  # some master lives: what it says tells more
            return
        targets.obstacles = obstructed
        if targets.has_answered or targets.may_have_arrived:
            return
        obstacles = targets.obstacles.values()
        if all(one.is_lasting for one in obstacles) or (
            targets.fails_fast and not any(one.is_silence for one in obstacles)
        ):
            raise Unreachable(f"no master can be reached: {_told(targets.obstacles)}")

    def pause_s(self) -> float:
        """Return how long to wait after a try: all masters are asked once without a pause, then with one."""
        self._count += 1
        if self._count < max(1, len(self._targets.known)):
            return 0.0
        return min(pause_s(), max(0.0, self._ends - time.monotonic()))


def may_have_arrived(error: Any) -> bool:
    """Return whether the call that failed may have reached a master, by gRPC's words."""
    text = " ".join((error.details() or error.code().name).split())[:200]
    return not any(words in text for words in _NO_CONNECTION)


def pause_s() -> float:
    """Return how long to wait before a master is asked again; not the same for all clients that lost one."""
    return random.uniform(0.05, 0.2)


def _told(obstacles: Mapping[str, Obstacle]) -> str:
    """Return what stands in the way at each endpoint; endpoints with the same are named together."""
    named: dict[str, list[str]] = {}
    for address, obstacle in obstacles.items():
        named.setdefault(obstacle.words, []).append(address)
    return "; ".join(f"{_some(addresses)}: {words}" for words, addresses in named.items())


def _some(addresses: Sequence[str]) -> str:
    more = len(addresses) - _MOST_NAMED
    return ", ".join(addresses[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def endpoint_list(endpoints: object) -> list[str]:
    """Return the endpoints of a text, with commas between them, or of a list. Raises Misused."""
    listed = endpoints.split(",") if isinstance(endpoints, str) else endpoints
    if not isinstance(listed, Sequence) or not all(isinstance(endpoint, str) for endpoint in listed):
        raise Misused(f"endpoints: expected text such as http://host:8080, or a list of it, got {given_as(endpoints)}")
    found = [_plain(endpoint.strip().rstrip("/")) for endpoint in listed if endpoint.strip()]
    if not found or len(found) > MAX_MASTERS:
        raise Misused(f"name 1 to {MAX_MASTERS} masters, such as host:9090,host:9091 or http://host:8080")
    for endpoint in found:
        if not _is_endpoint(endpoint):
            raise Misused(
                f"endpoint {endpoint!r} is neither host:port nor http://host:port, nor unix:/path of a socket"
            )
    if 0 < sum(map(is_socket, found)) < len(found):
        raise Misused("endpoints: name sockets alone, or addresses alone: a caller is another one at either")
    return found


def is_socket(endpoint: str) -> bool:
    """Return whether an endpoint is a Unix socket of a master on this machine."""
    return endpoint.startswith(SOCKET)


def _plain(endpoint: str) -> str:
    """Return the one spelling of an endpoint: gRPC takes unix:///path, too."""
    return endpoint.replace("unix:///", "unix:/", 1) if endpoint.startswith("unix:///") else endpoint


def _is_endpoint(text: str) -> bool:
    """Tell whether a text may be an endpoint: its host could be one, and of gRPC there is a port."""
    is_url = text.startswith(_URLS)
    if is_socket(text):
        path = text.removeprefix(SOCKET)
        is_absolute = path.startswith("/") and not path.startswith("//")
        return is_absolute and text.isprintable() and len(text.encode()) <= _MAX_SOCKET
    try:
        parts = urlsplit(text if is_url else f"//{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:  # a port that is none, or half an IPv6 address
        return False
    labels = host.removesuffix(".").split(".")
    return (is_url or (bool(port) and not parts.path)) and all(0 < len(label) <= _MAX_LABEL for label in labels)
