"""A look at a program that gRPC cannot talk to: what stands in the way, in words for people.

gRPC says `Socket closed` or `failed to connect` and keeps the reason to itself. So once a channel has failed, a
connection of our own is opened, as far as the first frame of HTTP/2.

Invariant: a look sends nothing that could change anything, and it ends within its time.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from gosched.wire.addresses import AddressBook, connection
from gosched.wire.tls_files import EXPIRED, NOT_YET_VALID, WRONG_NAME, why_untrusted, words_of
from gosched.wire.tls_rules import trusting

MOST_AT_ONCE = 16
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # with empty settings
_SETTINGS_FRAME = 4
_SOCKET = "unix:"
_ALERT = b"\x15\x03"
_PLAIN_ON_TLS = "it takes TLS alone, and this program has no certificate: set tls_cert, tls_key and tls_ca"
#: What a server says of a client's certificate, by OpenSSL's names of alerts.
_REFUSED = {
    "CERTIFICATE_REQUIRED": "it wants a client certificate, and was shown none",
    "UNKNOWN_CA": "it does not trust {cert}: another authority than its own signed that",
    "CERTIFICATE_UNKNOWN": "it does not trust {cert}",
    "CERTIFICATE_EXPIRED": "it takes {cert} for expired, by its clock",
    "BAD_CERTIFICATE": "it refuses {cert}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsPaths:
    """Paths of PEM files: the certificate that is shown, its key, and the authority."""

    cert: str
    key: str
    ca: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """What stands between this program and a server."""

    words: str
    #: It is a mistake in certificates or settings: no later try will do better.
    is_lasting: bool = False
    #: A connection was made, or may yet be, and nothing came: the server may be frozen, or far away.
    is_silence: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """A server that is looked at."""

    host: str
    port: int
    #: Where its name points.
    at: tuple[str, ...]

    def connection(self, timeout_s: float) -> socket.socket:
        """Raises OSError."""
        return connection(self.at, self.port, timeout_s)


def look_at_all(
    addresses: Sequence[str], tls: TlsPaths | None, timeout_s: float, book: AddressBook
) -> dict[str, Obstacle | None]:
    """Return for each address what `look` returns."""
    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(addresses)), thread_name_prefix="look") as pool:
        looks = pool.map(lambda address: look(address, tls, timeout_s, book), addresses)
        return dict(zip(addresses, looks, strict=True))


def look(address: str, tls: TlsPaths | None, timeout_s: float, book: AddressBook) -> Obstacle | None:
    """Return what keeps gRPC from talking to the server at `host:port` or `unix:/path`; None: nothing that can be seen
    from here. `book`: where names point."""
    if address.startswith(_SOCKET):
        return _at_socket(address.removeprefix(_SOCKET), timeout_s)
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    target = _Server(host=host, port=int(port), at=book.find(host, timeout_s))
    if not target.at:
        return _unresolved(host, book.error(host))
    try:
        with target.connection(timeout_s) as sock:
            return _beyond_tls(sock, target, tls, timeout_s) if tls else _in_plain_text(sock, target, timeout_s)
    except TimeoutError:
        return Obstacle(words=f"no answer within {timeout_s:g} s", is_silence=True)
    except OSError as error:
        return Obstacle(words=words_of(error).lower())


def _at_socket(path: str, timeout_s: float) -> Obstacle | None:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            sock.connect(path)
            sock.sendall(_PREFACE)
            return _of_frame(sock.recv(64))
    except FileNotFoundError:
        return Obstacle(words=f"there is no socket {path}: no master with it in server.socket runs here")
    except TimeoutError:
        return Obstacle(words=f"no answer within {timeout_s:g} s", is_silence=True)
    except OSError as error:
        return Obstacle(words=words_of(error).lower())


def _unresolved(host: str, error: Exception | None) -> Obstacle:
    if error is None or (isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN):
        return Obstacle(words=f"the name {host} cannot be looked up now: no name server answers", is_silence=True)
    return Obstacle(words=f"no host is called {host}")


def _in_plain_text(sock: socket.socket, target: _Server, timeout_s: float) -> Obstacle | None:
    sock.sendall(_PREFACE)
    try:
        answer = sock.recv(64)
    except ConnectionResetError:
        answer = b""
    if answer.startswith(b"HTTP/1"):
        return Obstacle(words=f"it is an HTTP port: name the gRPC port, or write http://{target.host}:{target.port}")
    if answer.startswith(_ALERT) or (not answer and _speaks_tls(target, timeout_s)):
        return Obstacle(words=_PLAIN_ON_TLS, is_lasting=True)
    return _of_frame(answer)


def _beyond_tls(sock: socket.socket, target: _Server, tls: TlsPaths, timeout_s: float) -> Obstacle | None:
    context = trusting(ssl.Purpose.SERVER_AUTH, tls.ca)
    if tls.cert:
        context.load_cert_chain(tls.cert, tls.key)
    context.set_alpn_protocols(["h2"])
    try:
        secure = context.wrap_socket(sock, server_hostname=target.host)
    except ssl.SSLCertVerificationError as error:
        return Obstacle(words=_untrusted(error, target, tls, timeout_s), is_lasting=True)
    except (ssl.SSLError, ConnectionError) as error:
        if _speaks_plain_text(target, timeout_s):
            words = "it talks plain text, and this program has certificates: leave them out, or give it some, too"
            return Obstacle(words=words, is_lasting=True)
        return Obstacle(words=f"the TLS handshake failed: {words_of(error)}")
    with secure:
        try:
            secure.sendall(_PREFACE)
            answer = secure.recv(64)
        except ssl.SSLError as error:  # with TLS 1.3 the server's verdict comes after the handshake
            return _of_alert(error, tls)
        except ConnectionError:
            answer = b""
    if not answer:  # gRPC's servers say nothing of a certificate that they do not take
        words = f"it closed the connection when it was shown {tls.cert}: another authority than its own signed that"
        return Obstacle(words=words, is_lasting=True)
    return _of_frame(answer)


def _of_frame(answer: bytes) -> Obstacle | None:
    if len(answer) > _SETTINGS_FRAME - 1 and answer[3] == _SETTINGS_FRAME:
        return None
    return Obstacle(words="it closed the connection" if not answer else "it does not speak gRPC")


def _of_alert(error: ssl.SSLError, tls: TlsPaths) -> Obstacle:
    alert = error.reason or ""
    for name, words in _REFUSED.items():
        if alert.endswith(name):
            return Obstacle(words=words.format(cert=tls.cert), is_lasting=True)
    return Obstacle(words=f"it refuses the TLS connection: {words_of(error)}")


def _untrusted(error: ssl.SSLCertVerificationError, target: _Server, tls: TlsPaths, timeout_s: float) -> str:
    if error.verify_code in WRONG_NAME:
        names = ", ".join(_names(target, tls, timeout_s))
        return f"its certificate is for {names or 'another host'}, not for {target.host}: call it by a name of these"
    if error.verify_code in (EXPIRED, NOT_YET_VALID):
        state = "has expired" if error.verify_code == EXPIRED else "is not valid yet"
        return f"its certificate {state}, by the clock of this machine"
    return why_untrusted(error, "its certificate", "", tls.ca)


def _names(target: _Server, tls: TlsPaths, timeout_s: float) -> Iterator[str]:
    """Yield the hosts and addresses that the server's certificate is for."""
    context = trusting(ssl.Purpose.SERVER_AUTH, tls.ca)
    context.check_hostname = False
    if tls.cert:
        context.load_cert_chain(tls.cert, tls.key)
    shown: Mapping[str, Any] = {}
    with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
        sock = opened.enter_context(target.connection(timeout_s))
        shown = opened.enter_context(context.wrap_socket(sock)).getpeercert() or {}
    for kind, name in shown.get("subjectAltName", ()):
        if kind in ("DNS", "IP Address"):
            yield str(name)


def _speaks_tls(target: _Server, timeout_s: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with target.connection(timeout_s) as sock, context.wrap_socket(sock):
            return True
    except OSError:
        return False


def _speaks_plain_text(target: _Server, timeout_s: float) -> bool:
    try:
        with target.connection(timeout_s) as sock:
            sock.sendall(_PREFACE)
            answer = sock.recv(64)
    except OSError:
        return False
    return _of_frame(answer) is None or answer.startswith(b"HTTP/1")
