"""The certificate, the key and the authorities of an agent that joined by itself: `tls` in its data directory.

Invariant: whenever the agent is killed, the three files go together at its next start. A new set is written beside the
old one, the certificate last; once that is there, the set is complete and takes the old one's place.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gosched.agent.files import sync_directory, write_synced
from gosched.config.address import split_address
from gosched.config.private import exposed
from gosched.config.settings import Tls

if TYPE_CHECKING:  # slow to import
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

CERT, KEY, CA, MASTERS = "cert.pem", "key.pem", "ca.pem", "masters"
_NEW = ".new"
_MAX_MASTERS = 64


class JoinFiles:
    """Layout: `cert.pem`, `key.pem`, `ca.pem`, and `masters`: where the masters take calls of agents, one a line."""

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / "tls"

    @property
    def tls(self) -> Tls:
        cert, key, ca = (str(self.folder / name) for name in (CERT, KEY, CA))
        return Tls(cert=cert, key=key, ca=ca)

    @property
    def has_joined(self) -> bool:
        return (self.folder / CERT).exists() or (self.folder / f"{CERT}{_NEW}").exists()

    @property
    def is_valid(self) -> bool:
        """Return whether there is a certificate that has not ended."""
        try:
            return not self.why_over()
        except (OSError, ValueError):
            return False

    def open(self) -> None:
        """Make the directory, and finish what a killed agent began. Raises OSError."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.folder.chmod(0o700)
        if (self.folder / f"{CERT}{_NEW}").exists():
            self._take_new()
        for name in (KEY, CA):
            (self.folder / f"{name}{_NEW}").unlink(missing_ok=True)

    def kept_key(self) -> ec.EllipticCurvePrivateKey:
        """Return the key that joins, the same one after a try that was cut off: a token is used up for its key. Raises
        OSError, and ValueError for a file that is no key of ours."""
        from gosched.wire.certificate_request import new_key, read_key
        from gosched.wire.signing import key_pem

        path = self.folder / KEY
        if path.exists():
            if problem := exposed(path):
                raise ValueError(problem)
            return read_key(path.read_bytes())
        key = new_key()
        write_synced(path, key_pem(key))
        return key

    def store(self, certificate: bytes, authorities: bytes, key: bytes | None, masters: Sequence[str]) -> None:
        """Take a new set. `key`: PEM; None: it stays. Raises OSError."""
        told = [master for master in masters if _is_target(master)][:_MAX_MASTERS]
        if told:
            write_synced(self.folder / MASTERS, "".join(f"{master}\n" for master in told).encode())
        if key is not None:
            write_synced(self.folder / f"{KEY}{_NEW}", key)
        write_synced(self.folder / f"{CA}{_NEW}", authorities)
        write_synced(self.folder / f"{CERT}{_NEW}", certificate)
        self._take_new()

    def masters(self) -> tuple[str, ...]:
        """Return where the masters take calls of agents, as they said last. Raises OSError."""
        try:
            lines = (self.folder / MASTERS).read_text(encoding="utf-8").split()
        except FileNotFoundError:
            return ()
        return tuple([line for line in lines if _is_target(line)][:_MAX_MASTERS])

    def chain(self) -> list[x509.Certificate]:
        """Return the agent's certificate, and what signed it where that is an intermediate. Raises OSError,
        ValueError."""
        from cryptography import x509

        return x509.load_pem_x509_certificates((self.folder / CERT).read_bytes())

    def authorities(self) -> list[x509.Certificate]:
        """Return the authorities that the agent trusts. Raises OSError, ValueError."""
        from cryptography import x509

        return x509.load_pem_x509_certificates((self.folder / CA).read_bytes())

    def why_over(self) -> str:
        """Return that the certificate has ended, in words; empty: it has not. Raises OSError, ValueError."""
        ends = self.chain()[0].not_valid_after_utc
        if ends > datetime.now(UTC):
            return ""
        return f"the certificate {self.folder / CERT} ended at {ends:%Y-%m-%dT%H:%M:%SZ}"

    def _take_new(self) -> None:
        for name in (KEY, CA, CERT):
            new = self.folder / f"{name}{_NEW}"
            if new.exists():
                os.replace(new, self.folder / name)
        sync_directory(self.folder)


def _is_target(text: str) -> bool:
    try:
        host, port = split_address(text)
    except ValueError:
        return False
    return bool(host and port)
