"""Where the masters listen for gRPC, by the status that one of them gives over HTTP or HTTPS.

A URL names one master's HTTP port. Its status has the gRPC address of every master, which is what the client talks to
from then on.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from gosched.client.credentials import plain_token
from gosched.client.errors import Misused
from gosched.client.targets import LOOK_UP_S, MAX_MASTERS, TlsFiles, Token
from gosched.wire.addresses import AddressBook, connection, name_of
from gosched.wire.probe import Obstacle
from gosched.wire.tls_rules import trusting

# A port of the other scheme: it closes the connection, or its answer is no TLS.
_OTHER_SCHEME = ConnectionResetError | ssl.SSLError
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")
_MAX_STATUS_BYTES = 16 * 1024 * 1024


class NoAddresses(Exception):
    """One line that says why a URL told no addresses; another try may do better."""

    def __init__(self, url: str, words: str, *, is_silence: bool = True) -> None:
        """`is_silence`: something may listen there, and only not answer yet."""
        super().__init__(f"{url}: {words}")
        self.obstacle = Obstacle(words=words, is_silence=is_silence)


def grpc_addresses(
    url: str, tls: TlsFiles | None, timeout_s: float, book: AddressBook | None = None, token: Token = None
) -> list[str]:
    """Return the gRPC addresses of all masters. `book`: where names point; None: they are looked up. Raises
    NoAddresses; Misused where no other try will help."""
    book = book or AddressBook()
    if tls is not None and not tls.cert:
        raise Misused(f"{url}: with a token alone, name the masters' token_addr as endpoints, as host:port")
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _Plain(book)]
    if url.startswith("https://") and tls is not None:
        handlers.append(_Secure(book, _context(tls)))
    try:
        request = urllib.request.Request(f"{url}/api/v1/status")  # noqa: S310 - the user's own
        if token := plain_token(url, token) if url.startswith("http://") else "":
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.build_opener(*handlers).open(request, timeout=timeout_s) as answer:
            status = json.loads(answer.read(_MAX_STATUS_BYTES))
        found = [str(master["grpc_address"]) for master in status["masters"] if master.get("grpc_address")]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise Misused(f"{url}: its certificate is not trusted by the given ca: {reason.verify_message}") from error
        is_silence = not isinstance(reason, ConnectionRefusedError | socket.gaierror | _OTHER_SCHEME)
        raise NoAddresses(url, _words(reason), is_silence=is_silence) from error
    if not found:
        raise NoAddresses(url, "its status names no master's gRPC address")
    return _reachable(found[:MAX_MASTERS], urlsplit(url).hostname or "", book)


def _context(tls: TlsFiles) -> ssl.SSLContext:
    """Return a context that trusts the given authority alone, and shows the client's certificate. Raises Misused."""
    tls.read()  # so that a file that is not there is named
    try:
        context = trusting(ssl.Purpose.SERVER_AUTH, str(tls.ca))
        context.load_cert_chain(str(tls.cert), str(tls.key))
    except ssl.SSLError as error:
        raise Misused(f"cannot use {tls.cert} with {tls.key} and {tls.ca}: {_words(error)}") from error
    return context


class _Plain(urllib.request.HTTPHandler):
    """Opens http:// URLs where their names point by the book."""

    def __init__(self, book: AddressBook) -> None:
        super().__init__()
        self._book = book

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(partial(_dialling, http.client.HTTPConnection, self._book), request)


class _Secure(urllib.request.HTTPSHandler):
    """The same for https://; the certificate is checked against the name."""

    def __init__(self, book: AddressBook, context: ssl.SSLContext) -> None:
        super().__init__()
        self._book, self._trusts = book, context

    def https_open(self, request: urllib.request.Request) -> Any:
        kind = partial(http.client.HTTPSConnection, context=self._trusts)
        return self.do_open(partial(_dialling, kind, self._book), request)


def _dialling(kind: Callable[..., Any], book: AddressBook, host: str, **more: Any) -> Any:
    """Return a connection that is made with the addresses of the book: `socket` would wait for a name server beyond any
    timeout."""

    def dial(address: tuple[str, int], timeout: float, *_: object) -> socket.socket:
        found = book.find(address[0], timeout)
        if not found:
            raise book.error(address[0]) or TimeoutError("no name server answers")
        return connection(found, address[1], timeout)

    made = kind(host, **more)
    made._create_connection = dial
    return made


def _reachable(found: list[str], host: str, book: AddressBook) -> list[str]:
    names = [name_of(address) for address in found]
    for name in filter(None, names):
        book.ask(name)  # all at once
    if any(not name or book.find(name, LOOK_UP_S) for name in names):
        return found
    # Names of containers, whose ports are published where this one answered.
    inner = f"[{host}]" if ":" in host else host
    return [f"{inner}:{port}" for port in dict.fromkeys(address.rpartition(":")[2] for address in found)]


def _words(reason: object) -> str:
    if isinstance(reason, ConnectionResetError):
        return "it closed the connection: does it take TLS alone, https://?"
    if isinstance(reason, ssl.SSLError) and reason.reason in _NO_TLS:
        return "it talks plain text: is it http://?"
    if isinstance(reason, ssl.SSLError) and reason.reason:
        return reason.reason.replace("_", " ").lower()
    if isinstance(reason, KeyError):
        return f"its status has no {reason}: is it a master's HTTP port?"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return " ".join(str(reason).split()) or type(reason).__name__
