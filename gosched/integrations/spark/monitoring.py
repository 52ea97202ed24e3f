"""A client of Spark's monitoring API (`/api/v1`): of the UI of an application that runs, or of a history server."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from gosched.config.errors import shown
from gosched.integrations.spark import answers
from gosched.integrations.spark.errors import (
    SparkBadAnswer,
    SparkDenied,
    SparkError,
    SparkMisused,
    SparkNotFound,
    SparkUnreachable,
)
from gosched.integrations.spark.records import SparkApplication, SparkExecutor, SparkStage
from gosched.wire.http_exchange import Reply, TooLarge, Unreachable, exchange
from gosched.wire.tls_files import words_of
from gosched.wire.tls_rules import trusting

T = TypeVar("T")

TIMEOUT_S = 10.0
MAX_BYTES = 16 << 20  # of one answer: about 4,000 stages
_BUSY = frozenset({502, 503, 504})
_REASON_BYTES = 300


class SparkClient:
    """A client of one server of Spark. It may be used by several threads; it holds no connection.

    `url`: the address of the UI, or of the history server. `ca`: file of the authority that signs its certificate;
    None: the system's. `timeout_s`: of one request. `max_bytes`: of one answer. All methods raise SparkError.
    """

    def __init__(
        self, url: str, *, ca: str | None = None, timeout_s: float = TIMEOUT_S, max_bytes: int = MAX_BYTES
    ) -> None:
        self._url = _checked(url)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._trust: ssl.SSLContext | None = None
        if self._url.startswith("https:"):
            try:
                self._trust = trusting(ssl.Purpose.SERVER_AUTH, ca)
            except OSError as error:  # ssl.SSLError is one
                raise SparkMisused(f"{ca}: cannot be read as certificates in PEM form: {words_of(error)}") from error

    def applications(self, *, limit: int = 0) -> tuple[SparkApplication, ...]:
        """Return the applications: a UI's own one, or all of a history server, `limit` at most; 0: all."""
        query = [("limit", str(limit))] if limit else []
        return self._ask("applications", answers.read_applications, query)

    def application(self, id: str) -> SparkApplication:
        """Return an application. Raises SparkNotFound."""
        return self._ask(_of(id), answers.read_application)

    def stages(self, id: str, *, statuses: Sequence[str] = ()) -> tuple[SparkStage, ...]:
        """Return the stages of an application, with `statuses` (`active`, `pending`, ...) those in one of them. Raises
        SparkNotFound."""
        query = [("status", status) for status in statuses]
        return self._ask(f"{_of(id)}/stages", answers.read_stages, query)

    def executors(self, id: str) -> tuple[SparkExecutor, ...]:
        """Return the driver and the executors that live. Raises SparkNotFound."""
        return self._ask(f"{_of(id)}/executors", answers.read_executors)

    def settings(self, id: str) -> dict[str, str]:
        """Return the settings that an application runs with, but for secrets. Raises SparkNotFound."""
        return self._ask(f"{_of(id)}/environment", answers.read_settings)

    def _ask(self, path: str, read: Callable[[Any, str], T], query: Sequence[tuple[str, str]] = ()) -> T:
        at = f"{self._url}/api/v1/{path}"
        try:
            reply = exchange(
                f"{at}{'?' * bool(query)}{urlencode(query)}",
                self._trust,
                method="GET",
                headers={"Accept": "application/json"},
                timeout_s=self._timeout_s,
                max_bytes=self._max_bytes,
            )
        except TooLarge as error:
            raise SparkBadAnswer(f"{error}: ask for less, by statuses or with a limit") from error
        except Unreachable as error:
            raise SparkUnreachable(f"{error}: the application may have ended, or not begun") from error
        if reply.status != 200:
            raise _refusal(reply, at)
        return read(answers.parse(reply.body, at), at)


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good or parts.query or parts.fragment or "@" in parts.netloc:
        raise SparkMisused(f"{shown(url)} is no address of a server of Spark: expected http://HOST:PORT")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _of(id: str) -> str:
    if not id or id in (".", ".."):
        raise SparkMisused(f"{shown(id)} is no id of an application, such as app-20261201120000-0000")
    return f"applications/{quote(id, safe='')}"


def _refusal(reply: Reply, at: str) -> SparkError:
    text = " ".join(reply.body[:_REASON_BYTES].decode(errors="replace").split())
    words = "" if text.startswith("<") else shown(text) if text else ""  # a page of Jetty says no more than its status
    said = f"answers {reply.status}{': ' * bool(words)}{words}"
    match reply.status:
        case 401 | 403:
            return SparkDenied(f"{at}: {said}: its UI asks who looks (spark.ui.filters, spark.acls.enable)")
        case 404:
            return SparkNotFound(f"{at}: {said}: no such application, or a Spark before 1.4")
        case status if status in _BUSY:
            return SparkUnreachable(f"{at}: {said}: ask again")
        case status if 300 <= status < 400:
            where = shown(reply.headers.get("location", ""))
            return SparkBadAnswer(f"{at}: {said}, and names {where}: give that server's address if you trust it")
    return SparkBadAnswer(f"{at}: {said}")
