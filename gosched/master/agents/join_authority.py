"""The authority with which a master signs certificates of agents that join.

Invariant: it signs for agents alone, and what it signs is trusted by the authorities that the masters trust now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gosched.config import ConfigError
from gosched.config.files import stamp_of
from gosched.config.join_model import Join
from gosched.config.private import exposed
from gosched.wire.roles import CertificateHolder, Role
from gosched.wire.serials import serial_of_pem
from gosched.wire.tls_watch import TlsWatch

if TYPE_CHECKING:  # slow to import
    from gosched.wire.signing import PublicKey, Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A certificate that was made."""

    #: PEM, with the intermediate authority that signed it, if one did.
    pem: bytes
    ends_at_ms: int
    #: Serial number, in hex.
    serial: str


class JoinAuthority:
    """The files are read each time, so new ones are taken up without a restart."""

    def __init__(self, settings: Join, tls: TlsWatch) -> None:
        """Read the files once. Raises ConfigError."""
        self._settings = settings
        self._tls = tls
        self._digest = ""
        self._digest_of: object = None  # what was seen of the files
        self._read()

    def sign(self, key: PublicKey, node: str, hosts: Sequence[str], cluster_id: str) -> Signed:
        """Return a certificate of the agent of a node. Raises ConfigError."""
        from gosched.wire.signing import general_name, pem_of, role_name, sign

        signer, is_intermediate = self._read()
        in_dns = self._tls.current.holder.in_dns
        holder = CertificateHolder(cluster="" if in_dns else cluster_id, role=Role.AGENT, name=node, in_dns=in_dns)
        life = timedelta(milliseconds=self._settings.certificate_lasts_ms)
        life = min(life, _left(signer))
        made = sign(signer, key, holder, [role_name(holder), *(general_name(host) for host in hosts)], life)
        pem = pem_of(made)
        return Signed(
            pem=pem + (pem_of(signer.certificate) if is_intermediate else b""),
            ends_at_ms=int(made.not_valid_after_utc.timestamp() * 1000),
            serial=serial_of_pem(pem),
        )

    def key_digest(self) -> str:
        """Return the SHA-256 of the authority's public key, in hex. Raises ConfigError."""
        from gosched.wire.signing import key_digest

        stamp = (stamp_of(self._settings.ca_cert), stamp_of(self._settings.ca_key))
        if self._digest_of != stamp or None in stamp:  # guests may ask for it: the files are not read each time
            self._digest = key_digest(self._read()[0].certificate.public_key()).hex()
            self._digest_of = stamp
        return self._digest

    def _read(self) -> tuple[Signer, bool]:
        """Return the authority, and whether it is an intermediate one. Raises ConfigError."""
        from gosched.wire.signing import is_authority, read_signer

        cert, key = self._settings.ca_cert, self._settings.ca_key
        try:
            problem = exposed(key)
        except OSError as error:
            raise ConfigError(f"join.ca_key: cannot read {key}: {error.strerror}") from error
        if problem:
            raise ConfigError(f"join.ca_key: {problem}")
        try:
            signer = read_signer(Path(cert), Path(key))
        except ConfigError as error:
            raise ConfigError(f"join: {error}") from None
        if not is_authority(signer.certificate):
            raise ConfigError(f"join.ca_cert: {cert} is no certificate of an authority")
        if _left(signer) <= timedelta(0):
            raise ConfigError(f"join.ca_cert: {cert} has ended: make another authority, and see `goschedctl cert show`")
        return signer, self._is_intermediate(signer)

    def _is_intermediate(self, signer: Signer) -> bool:
        """Raises ConfigError for an authority that the masters do not trust."""
        from cryptography import x509

        from gosched.wire.tls_expiry import signed_by

        trusted = x509.load_pem_x509_certificates(self._tls.current.pem.ca)
        if signer.certificate in trusted:
            return False
        if any(signed_by(signer.certificate, authority) for authority in trusted):
            return True
        raise ConfigError(
            f"join.ca_cert: {self._settings.ca_cert} is not trusted: put it into {self._tls.ca}, or take one of those"
        )


def pins_of(tls: TlsWatch) -> list[bytes]:
    """Return by which public keys agents know the masters: of the authorities that the masters trust now."""
    from cryptography import x509

    from gosched.wire.signing import key_digest

    return [key_digest(found.public_key()) for found in x509.load_pem_x509_certificates(tls.current.pem.ca)]


def _left(signer: Signer) -> timedelta:
    from datetime import UTC, datetime

    return signer.certificate.not_valid_after_utc - datetime.now(UTC)
