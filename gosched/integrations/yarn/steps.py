"""How a call is carried out, whoever sends and waits: which ResourceManager is asked, and when again.

A generator yields what is to be done, an `Exchange` or a `Pause`, and is sent what came of it. The clients with and
without asyncio differ in how they do these two, and in nothing else.

Invariant: no ResourceManager is asked that the caller did not name: a standby's word where the active one is, is shown
to people and not followed. The one other host is the node that an active one names, for a log.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote, urlsplit

from gosched.config.errors import shown
from gosched.integrations.yarn import calls
from gosched.integrations.yarn.calls import Call
from gosched.integrations.yarn.errors import (
    YarnBadAnswer,
    YarnDenied,
    YarnError,
    YarnMisused,
    YarnNotFound,
    YarnRefused,
    YarnTimedOut,
    YarnUnreachable,
)
from gosched.integrations.yarn.fields import parse
from gosched.integrations.yarn.records import ENDED, YarnApplication
from gosched.wire.http_exchange import Reply, TooLarge, Unreachable, server_address

T = TypeVar("T")
#: Of one answer: about 40,000 applications.
MAX_BYTES = 64 << 20
_PAUSE_S = 0.3
_BUSY = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class Exchange:
    """Send this, and say what came back."""

    url: str
    method: str
    headers: dict[str, str]
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so long."""

    seconds: float


Steps = Generator[Exchange | Pause, Reply | Unreachable | None, T]


class Managers:
    """The ResourceManagers of a cluster, and which of them was active last."""

    def __init__(self, urls: Sequence[str], *, user: str, failover_s: float) -> None:
        self._urls = [_checked(url) for url in urls]
        if not self._urls:
            raise YarnMisused("no ResourceManager is named: give the address of its web page, http://HOST:8088")
        self._user = user
        self._failover_s = failover_s
        self._active = 0

    def ask(self, call: Call[T]) -> Steps[T]:
        """Ask the one that was active last, then the others. While one of them is on standby, a failover may be under
        way: then ask again, for `failover_s`. Raises YarnError."""
        ends = time.monotonic() + self._failover_s
        while True:
            said, waits = [], False
            for number in range(len(self._urls)):
                place = (self._active + number) % len(self._urls)
                url = self._urls[place]
                reply = yield from self._exchange(url, call)
                if isinstance(reply, TooLarge):
                    raise YarnBadAnswer(f"{reply}: ask for less, by filters or with a limit")
                if isinstance(reply, Unreachable):
                    said.append(str(reply))
                elif (standby := _standby(reply)) is not None and not call.of_any:
                    said.append(f"{url} is on standby{standby}")
                    waits = True
                elif reply.status in _BUSY:
                    said.append(f"{url} answers {reply.status}")
                else:
                    self._active = place
                    return _read(call, reply, url)
            if not waits or time.monotonic() >= ends:
                why = "no ResourceManager is active" if waits else "no ResourceManager answers"
                raise YarnUnreachable(f"{why}: {'; '.join(said)}")
            yield Pause(_PAUSE_S)

    def kill(self, id: str, timeout_s: float) -> Steps[str]:
        """End an application, and return the state that it ended in: another one than `KILLED` where it was faster.
        Raises YarnTimedOut after `timeout_s`."""
        ends = time.monotonic() + timeout_s
        while True:
            state = yield from self.ask(calls.kill(id))
            if state in ENDED:
                return state
            if time.monotonic() >= ends:
                raise YarnTimedOut(f"{id} is {state} {timeout_s:g} s after it was to be killed; YARN goes on")
            yield Pause(_PAUSE_S)

    def log(self, app: YarnApplication, name: str, last_bytes: int) -> Steps[bytes]:
        """Return the end of a log of the ApplicationMaster's container, from its node. Raises YarnNotFound where there
        is none: it has not begun, or the node has removed it."""
        parts = urlsplit(app.log_url)
        if not parts.netloc:
            raise YarnNotFound(f"{app.id} has no logs: it has not been placed")
        container = parts.path.removeprefix("/node/containerlogs/").partition("/")[0]
        path = f"/ws/v1/node/containerlogs/{quote(container, safe='')}/{quote(name, safe='')}"
        user = f"&user.name={quote(self._user, safe='')}" if self._user else ""
        url = f"{parts.scheme}://{parts.netloc}{path}"
        reply = yield Exchange(f"{url}?size=-{last_bytes}{user}", "GET", {"Accept": "text/plain"}, None)
        if isinstance(reply, Unreachable):
            raise YarnUnreachable(str(reply))
        assert reply is not None, "an exchange has a result"
        if reply.status == 404:
            raise YarnNotFound(f"{url}: the node has no such log, or has removed it")
        if reply.status != 200:
            raise _refusal(reply, url)
        return _content(reply.body)

    def _exchange(self, url: str, call: Call[T]) -> Steps[Reply | Unreachable]:
        headers = {"Accept": "application/json"}
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        reply = yield Exchange(url + call.target(self._user), call.method, headers, call.body)
        assert reply is not None, "an exchange has a result"
        return reply


def _checked(url: str) -> str:
    found = server_address(url)
    if found is None or urlsplit(found).path:
        raise YarnMisused(f"{shown(url)} is no address of a ResourceManager: expected http://HOST:8088")
    return found


def _standby(reply: Reply) -> str | None:
    """Return what a ResourceManager on standby says of the active one; None: it is not on standby."""
    if 300 <= reply.status < 400:
        return f", and names {shown(reply.headers.get('location', ''))}"
    return ", and knows of no active one" if "refresh" in reply.headers else None


def _content(shown: bytes) -> bytes:
    """Return a log without what a node writes before and after it."""
    _, begins, content = shown.partition(b"\nLogContents:\n")
    before, ends, _ = content.rpartition(b"End of LogType:")
    return before if begins and ends else shown


def _read(call: Call[T], reply: Reply, url: str) -> T:
    at = f"{url}/ws/v1/cluster/{call.path}"
    if reply.status in (200, 202):
        # A submission is answered without a body.
        return call.read(parse(reply.body or b"{}", at))
    raise _refusal(reply, at)


def _refusal(reply: Reply, at: str) -> YarnError:
    words = _words(reply, at)
    match reply.status:
        case 401 | 403:
            advice = "" if words else ": say who you are, with a user or a ticket of Kerberos"
            return YarnDenied(f"{at}: {words or f'answers {reply.status}'}{advice}")
        case 404:
            return YarnNotFound(words or f"{at}: not found: is this a ResourceManager?")
        case status if 400 <= status < 500:
            return YarnRefused(words or f"{at}: answers {status}")
    return YarnBadAnswer(f"{at}: answers {reply.status}{': ' * bool(words)}{words}")


def _words(reply: Reply, at: str) -> str:
    """Return what an exception of Hadoop says, without the names of Java's classes before it."""
    try:
        error = parse(reply.body, at).child("RemoteException")
        said = error.text("message") if error is not None else ""
    except YarnBadAnswer:
        return ""
    while (head := said.partition(": "))[2] and head[0].startswith(("java.", "org.apache.")):
        said = head[2]
    return " ".join(said.split())[:500]
