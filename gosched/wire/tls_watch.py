"""The TLS files of a program, as they are in use: new contents are taken up while it runs.

Whoever makes a connection asks `TlsWatch.current` each time. A change is taken up as a whole: certificate, key and
authorities that go together, for the holder that the program began as.

Invariant: what is in use was checked (`own_identity`); a set that is bad or half written changes nothing, and is looked
at again.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

from gosched.wire.certificates import dialling_context, own_identity, serving_context
from gosched.wire.role_rules import BUILT_IN, RoleReader
from gosched.wire.roles import BadCertificate, CertificateHolder

if TYPE_CHECKING:
    from gosched.wire.tls_expiry import Expiry

LOOK_S = 2.0  # between two looks at the files
MAX_FILE_BYTES = 1024 * 1024
WARN_AGAIN_S = 24 * 3600.0


class Log(Protocol):
    """The log of the program."""

    def info(self, event: str, **values: object) -> object: ...

    def warning(self, event: str, **values: object) -> object: ...

    def error(self, event: str, **values: object) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsPem:
    """The contents of the three files; `ca` holds one authority or several."""

    cert: bytes
    key: bytes
    ca: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSet:
    """Contents that go together, and what was made of them."""

    pem: TlsPem
    #: What the certificate says of this program.
    holder: CertificateHolder
    #: For those that dial this program.
    server: ssl.SSLContext
    #: The same, where those may dial that have a token in place of a certificate.
    guests: ssl.SSLContext
    #: For servers that it dials; it checks their hosts.
    client: ssl.SSLContext


class TlsWatch:
    """The three files of a program. `watch` looks at them every few seconds, `ask` makes it look at once."""

    def __init__(
        self, cert: str, key: str, ca: str, log: Log, *, says_refusals: bool = True, roles: RoleReader = BUILT_IN
    ) -> None:
        """Read the files. `says_refusals`: no other process that uses them logs why they are refused. `roles`: says
        what certificates are. Raises BadCertificate."""
        self.roles = roles
        self._log = log
        self._says_refusals = says_refusals
        self.cert, self.key, self.ca = cert, key, ca
        self.current = self._load(self._read())
        self._followers: list[Callable[[], None]] = []
        self._suspect: tuple[TlsPem | None, ...] = ()  # bad at the last look: perhaps half written
        self._told = ""
        self._asked = asyncio.Event()
        self._warn_at = 0.0

    def follow(self, follower: Callable[[], None]) -> None:
        """Call it in the loop of `watch` after each change."""
        self._followers.append(follower)

    def ask(self) -> None:
        """Make `watch` look at once."""
        self._asked.set()

    def look(self) -> bool:
        """Take up what has changed, if it is good, and return whether anything was taken up. What is bad is logged
        once it has been so for two looks: a program may be writing the files."""
        pem: TlsPem | None = None
        try:
            pem = self._read()
            if pem == self.current.pem:
                self._suspect, self._told = (), ""
                return False
            found = self._load(pem)
            if found.holder != self.current.holder:
                raise BadCertificate(_another(self.cert, found.holder, self.current.holder))
        except BadCertificate as error:
            self._refuse(pem, str(error))
            return False
        self.current, self._suspect, self._told = found, (), ""
        self._log.info(
            "certificates taken up", cert=self.cert, ca=self.ca, authorities=pem.ca.count(b"-BEGIN CERTIFICATE-")
        )
        return True

    async def watch(self) -> NoReturn:
        """Look at the files for as long as the program runs."""
        while True:
            if time.monotonic() >= self._warn_at:
                self._warn_at = time.monotonic() + WARN_AGAIN_S
                await asyncio.to_thread(self._warn)
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._asked.wait()
            except TimeoutError:
                pass
            self._asked.clear()
            if await asyncio.to_thread(self.look):
                self._warn_at = 0.0
                for follower in self._followers:
                    follower()

    def watch_in_thread(self) -> None:
        """Look at the files in a thread of its own, in a program without an event loop."""

        def run() -> None:
            while True:
                time.sleep(LOOK_S)
                self.look()

        threading.Thread(target=run, name="tls", daemon=True).start()

    def _read(self) -> TlsPem:
        return TlsPem(cert=_contents(self.cert), key=_contents(self.key), ca=_contents(self.ca))

    def _load(self, pem: TlsPem) -> TlsSet:
        """Return the checked set. `ssl` reads the files by itself, so they must still be the same afterwards. Raises
        BadCertificate."""
        holder = own_identity(self.cert, self.key, self.ca, self.roles)
        try:
            server = serving_context(self.cert, self.key, self.ca)
            guests = serving_context(self.cert, self.key, self.ca, guests=True)
            client = dialling_context(self.cert, self.key, self.ca)
        except OSError as error:  # ssl.SSLError is one
            raise BadCertificate(f"cannot use {self.cert}, {self.key}, {self.ca}: {error}") from error
        if self._read() != pem:
            raise BadCertificate(f"{self.cert}, {self.key} or {self.ca} changes right now")
        return TlsSet(pem=pem, holder=holder, server=server, guests=guests, client=client)

    def _refuse(self, pem: TlsPem | None, problem: str) -> None:
        if self._says_refusals and self._suspect == (pem,) and problem != self._told:
            self._told = problem
            self._log.error("new certificates are refused, the old ones stay in use", why=problem)
        self._suspect = (pem,)

    def expiries(self) -> tuple[Expiry, ...]:
        """Return the times of what is in use: the own certificate, then the authorities."""
        from gosched.wire.tls_expiry import expiries  # slow to import

        pem = self.current.pem
        return expiries(pem.cert, pem.ca)

    def _warn(self) -> None:
        for found in self.expiries():
            if found.is_due(time.time()):
                file = self.ca if found.is_authority else self.cert
                self._log.warning("a certificate expires soon: renew it", file=file, ends=found.ends_text, id=found.id)


def _contents(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            found = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise BadCertificate(f"cannot read {path}: {error.strerror}") from error
    if len(found) > MAX_FILE_BYTES:
        raise BadCertificate(f"{path} has more than {MAX_FILE_BYTES} bytes, and is no PEM file of certificates")
    return found


def _another(cert: str, found: CertificateHolder, mine: CertificateHolder) -> str:
    """Return why the certificate of another holder is not taken up."""
    form = " in a DNS name" if found.in_dns != mine.in_dns else ""
    return f"{cert} is of {found.uri()}{form}, and this program runs as {mine.uri()}: that needs a restart"
