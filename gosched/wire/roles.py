"""Roles in certificates: what the holder of a certificate is, and so what it may call.

A certificate says it in one URI among its alternative names: gosched://CLUSTER/ROLE/NAME. CLUSTER is the cluster's id,
or empty: whichever cluster trusts the authority. NAME is a master's member id, a node's name or id (`*`: any node), or
what a client is called. A certificate without such a URI is a client's.

Invariant: a certificate has one role, and a URI that is not understood gives none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote, unquote

from gosched.core.limits import MAX_NAME_LENGTH

SCHEME = "gosched://"
ANY_NODE = "*"


class Role(Enum):
    MASTER = "master"
    AGENT = "agent"
    CLIENT = "client"


class BadCertificate(ValueError):
    """One line that says why a certificate gives no role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateHolder:
    """What a certificate says of its holder."""

    #: The id of the holder's cluster; empty: any.
    cluster: str = ""
    role: Role = Role.CLIENT
    #: Empty for a client whose certificate has no URI.
    name: str = ""

    def uri(self) -> str:
        return f"{SCHEME}{quote(self.cluster, safe='')}/{self.role.value}/{quote(self.name, safe='*')}"

    def is_of(self, cluster_id: str) -> bool:
        """Return whether the holder belongs to this cluster, as far as both are known."""
        return not self.cluster or not cluster_id or self.cluster == cluster_id


def identity_of(uris: Iterable[str]) -> CertificateHolder:
    """Return what the URIs of a certificate say. Raises BadCertificate."""
    found = [uri for uri in uris if uri.lower().startswith(SCHEME)]
    if not found:
        return CertificateHolder()
    if len(found) > 1:
        raise BadCertificate(f"the certificate names {len(found)} roles ({', '.join(found)!a}): it may name one")
    parts = [unquote(part) for part in found[0][len(SCHEME) :].split("/")]
    roles = {role.value: role for role in Role}
    if len(parts) != 3 or parts[1] not in roles or not parts[2] or not _is_plain(parts):
        kinds = ", ".join(roles)
        raise BadCertificate(f"{found[0]!a} in the certificate is not gosched://CLUSTER/ROLE/NAME (roles: {kinds})")
    return CertificateHolder(cluster=parts[0], role=roles[parts[1]], name=parts[2])


def _is_plain(parts: Iterable[str]) -> bool:
    return all(part.isprintable() and len(part) <= MAX_NAME_LENGTH for part in parts)
