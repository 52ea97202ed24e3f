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
from urllib.parse import urlsplit

from gosched.client.credentials import plain_token
from gosched.client.errors import Misused
from gosched.client.targets import MAX_MASTERS, TlsFiles, Token
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


def grpc_addresses(url: str, tls: TlsFiles | None, timeout_s: float, token: Token = None) -> list[str]:
    """Return the gRPC addresses of all masters. Raises NoAddresses; Misused where no other try will help."""
    if tls is not None and not tls.cert:
        raise Misused(f"{url}: with a token alone, name the masters' token_addr as endpoints, as host:port")
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if url.startswith("https://") and tls is not None:
        handlers.append(urllib.request.HTTPSHandler(context=_context(tls)))
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
    return _reachable(found[:MAX_MASTERS], urlsplit(url).hostname or "")


def _context(tls: TlsFiles) -> ssl.SSLContext:
    """Return a context that trusts the given authority alone, and shows the client's certificate. Raises Misused."""
    tls.read()  # so that a file that is not there is named
    try:
        context = trusting(ssl.Purpose.SERVER_AUTH, str(tls.ca))
        context.load_cert_chain(str(tls.cert), str(tls.key))
    except ssl.SSLError as error:
        raise Misused(f"cannot use {tls.cert} with {tls.key} and {tls.ca}: {_words(error)}") from error
    return context


def _reachable(found: list[str], host: str) -> list[str]:
    if any(_is_known(address) for address in found):
        return found
    # Names of containers, whose ports are published where this one answered.
    inner = f"[{host}]" if ":" in host else host
    return [f"{inner}:{port}" for port in dict.fromkeys(address.rpartition(":")[2] for address in found)]


def _is_known(address: str) -> bool:
    try:
        return bool(socket.getaddrinfo(address.rpartition(":")[0].strip("[]"), None))
    except OSError:
        return False


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
