"""One request to a server of Spark: its address, whom to trust, and what its refusals mean.

Invariant: each request ends in time, its answer has a bound, and a redirect is not followed.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from gosched.config.errors import shown
from gosched.integrations.spark.answers import parse
from gosched.integrations.spark.errors import (
    SparkBadAnswer,
    SparkDenied,
    SparkError,
    SparkMisused,
    SparkNotFound,
    SparkUnreachable,
)
from gosched.wire.http_exchange import Reply, TooLarge, Unreachable, exchange, server_address
from gosched.wire.tls_files import words_of
from gosched.wire.tls_rules import trusting

_BUSY = frozenset({502, 503, 504})
_MAX_WORDS = 300


class SparkServer:
    """A server. It may be used by several threads; it holds no connection."""

    def __init__(self, url: str, *, ca: str | None, timeout_s: float, max_bytes: int) -> None:
        self.url = _checked(url)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._trust: ssl.SSLContext | None = None
        if self.url.startswith("https:"):
            try:
                self._trust = trusting(ssl.Purpose.SERVER_AUTH, ca)
            except OSError as error:  # ssl.SSLError is one
                raise SparkMisused(f"{ca}: cannot be read as certificates in PEM form: {words_of(error)}") from error

    def ask(self, path: str, query: Sequence[tuple[str, str]] = (), *, post: object = None) -> tuple[Any, str]:
        """Return the JSON of an answer, and where it stands, for errors. `post`: what is sent, as JSON; None: nothing
        is. Raises SparkError."""
        at = f"{self.url}/{path}"
        body = None if post is None else json.dumps(post).encode()
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json;charset=UTF-8"
        try:
            reply = exchange(
                f"{at}{'?' * bool(query)}{urlencode(query)}",
                self._trust,
                method="GET" if body is None else "POST",
                headers=headers,
                body=body,
                timeout_s=self._timeout_s,
                max_bytes=self._max_bytes,
            )
        except TooLarge as error:
            raise SparkBadAnswer(f"{error}: ask for less, by statuses or with a limit") from error
        except Unreachable as error:
            raise SparkUnreachable(f"{error}: it does not run, or is slow") from error
        if reply.status != 200:
            raise _refusal(reply, at)
        return parse(reply.body, at), at


def _checked(url: str) -> str:
    found = server_address(url)
    if found is None:
        raise SparkMisused(f"{shown(url)} is no address of a server of Spark: expected http://HOST:PORT")
    return found


def _refusal(reply: Reply, at: str) -> SparkError:
    words = _words(reply)
    said = f"answers {reply.status}{': ' * bool(words)}{words}"
    match reply.status:
        case 401 | 403:
            return SparkDenied(f"{at}: {said}: it wants to know who asks (a filter, or spark.acls.enable)")
        case 404:
            return SparkNotFound(f"{at}: {said}: no such application, or a Spark before 1.4")
        case status if status in _BUSY:
            return SparkUnreachable(f"{at}: {said}: ask again")
        case status if 300 <= status < 400:
            where = shown(reply.headers.get("location", ""))
            return SparkBadAnswer(f"{at}: {said}, and names {where}: give that server's address if you trust it")
    return SparkBadAnswer(f"{at}: {said}")


def _words(reply: Reply) -> str:
    """Return what a refusal says, without the stack of Java that may follow; a page of Jetty says no more than its
    status."""
    text = reply.body.decode(errors="replace").lstrip()
    if text.startswith("<"):
        return ""
    if text.startswith("{"):
        try:
            text = str(json.loads(text).get("message") or "")
        except (ValueError, RecursionError):
            text = ""
    said = " ".join(text.partition("\n\t")[0].split())[:_MAX_WORDS]
    return repr(said) if said else ""
