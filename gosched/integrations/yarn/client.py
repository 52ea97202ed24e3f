"""The client of YARN's ResourceManagers."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from gosched.integrations.yarn import calls
from gosched.integrations.yarn.errors import YarnMisused
from gosched.integrations.yarn.records import (
    ClusterInfo,
    ClusterMetrics,
    NewApplication,
    Submission,
    YarnApplication,
    YarnNode,
    YarnScheduler,
)
from gosched.integrations.yarn.steps import MAX_BYTES, Exchange, Managers, Steps
from gosched.wire.http_exchange import Reply, Unreachable, exchange
from gosched.wire.tls_files import words_of
from gosched.wire.tls_rules import trusting

T = TypeVar("T")
#: Takes the name of a host, returns the header `Authorization` for it: `Negotiate ...`. May block.
Authorize = Callable[[str], str]

TIMEOUT_S = 10.0
FAILOVER_S = 15.0
KILL_S = 60.0
LOG_BYTES = 1 << 20


class YarnClient:
    """A client of one YARN cluster. It may be used by several threads; it holds no connection.

    `urls`: the web addresses of all ResourceManagers. `user`: sent as `user.name`, which a cluster without Kerberos
    believes. `authorize`: for a cluster with Kerberos, `negotiate`, or another function that takes a host and returns
    the header `Authorization` for it; None: no ticket is shown. `ca`: file of the authority that signs the
    certificates; None: the system's. `timeout_s`: of one request. `failover_s`: how long it asks again while no
    ResourceManager is active but one is on standby. All methods raise YarnError.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        user: str = "",
        authorize: Authorize | None = None,
        ca: str | None = None,
        timeout_s: float = TIMEOUT_S,
        failover_s: float = FAILOVER_S,
    ) -> None:
        self._managers = Managers(urls, user=user, failover_s=failover_s)
        self._line = Line(urls, authorize=authorize, ca=ca, timeout_s=timeout_s)

    def info(self) -> ClusterInfo:
        """Return what the first ResourceManager that answers says of itself, also if it is on standby."""
        return self._run(self._managers.ask(calls.info()))

    def metrics(self) -> ClusterMetrics:
        """Return sums over the cluster."""
        return self._run(self._managers.ask(calls.metrics()))

    def nodes(self, *, states: Sequence[str] = ()) -> tuple[YarnNode, ...]:
        """Return the nodes, with `states` those in one of these; without, those that are not gone."""
        return self._run(self._managers.ask(calls.nodes(states)))

    def scheduler(self) -> YarnScheduler:
        """Return the tree of queues, with what they hold."""
        return self._run(self._managers.ask(calls.scheduler()))

    def apps(
        self,
        *,
        states: Sequence[str] = (),
        user: str = "",
        queue: str = "",
        types: Sequence[str] = (),
        tags: Sequence[str] = (),
        started_after_ms: int = 0,
        limit: int = 0,
    ) -> tuple[YarnApplication, ...]:
        """Return the applications that meet all of these. `limit`: at most so many; 0: all."""
        return self._run(self._managers.ask(calls.apps(states, user, queue, types, tags, started_after_ms, limit)))

    def app(self, id: str) -> YarnApplication:
        """Return an application. Raises YarnNotFound."""
        return self._run(self._managers.ask(calls.app(id)))

    def state(self, id: str) -> str:
        """Return the state of an application. Raises YarnNotFound."""
        return self._run(self._managers.ask(calls.state(id)))

    def new_application(self) -> NewApplication:
        """Return an id to submit an application under."""
        return self._run(self._managers.ask(calls.new_application()))

    def submit(self, submission: Submission) -> None:
        """Submit an application. The same one once more is no second one."""
        self._run(self._managers.ask(calls.submit(submission)))

    def kill(self, id: str, *, timeout_s: float = KILL_S) -> str:
        """End an application, and return the state that it has ended in. Raises YarnNotFound, YarnTimedOut."""
        return self._run(self._managers.kill(id, timeout_s))

    def log(self, app: YarnApplication, name: str = "stdout", *, last_bytes: int = LOG_BYTES) -> bytes:
        """Return the end of a file of `<LOG_DIR>` of the ApplicationMaster. Raises YarnNotFound: there is none."""
        return self._run(self._managers.log(app, name, last_bytes))

    def _run(self, steps: Steps[T]) -> T:
        """Do what the steps say."""
        try:
            todo = next(steps)
            while True:
                if isinstance(todo, Exchange):
                    todo = steps.send(self._line.exchange(todo))
                else:
                    time.sleep(todo.seconds)
                    todo = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class Line:
    """How one exchange is made: with which trust, by whose word, and in what time."""

    def __init__(self, urls: Sequence[str], *, authorize: Authorize | None, ca: str | None, timeout_s: float) -> None:
        self._authorize = authorize
        self._timeout_s = timeout_s
        self._trust: ssl.SSLContext | None = None
        if ca is not None or any(url.startswith("https:") for url in urls):
            try:
                self._trust = trusting(ssl.Purpose.SERVER_AUTH, ca)
            except OSError as error:  # ssl.SSLError is one
                raise YarnMisused(f"{ca}: cannot be read as certificates in PEM form: {words_of(error)}") from error

    def exchange(self, todo: Exchange) -> Reply | Unreachable:
        """Send a request, and once more where its server asks for Kerberos; block until its answer is there or its
        time is over. Raises what `authorize` raises."""
        try:
            reply = self._once(todo, {})
            challenge = reply.headers.get("www-authenticate", "").lower()
            if self._authorize is None or reply.status != 401 or "negotiate" not in challenge:
                return reply
            return self._once(todo, {"Authorization": self._authorize(urlsplit(todo.url).hostname or "")})
        except Unreachable as error:
            return error

    def _once(self, todo: Exchange, more: Mapping[str, str]) -> Reply:
        if self._trust is None and todo.url.startswith("https:"):  # a node's, though the ResourceManager's are http
            self._trust = trusting(ssl.Purpose.SERVER_AUTH, None)
        return exchange(
            todo.url,
            self._trust,
            method=todo.method,
            headers={**todo.headers, **more},
            body=todo.body,
            timeout_s=self._timeout_s,
            max_bytes=MAX_BYTES,
        )
