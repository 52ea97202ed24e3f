"""Roles in certificates: what the holder of a certificate is, and so what it may call.

A certificate says it in one URI among its alternative names: gosched://CLUSTER/ROLE/NAME. CLUSTER is the cluster's id,
or empty: whichever cluster trusts the authority. NAME is a master's member id, a node's name or id (`*`: any node), or
what a client is called. Authorities that can write no URIs, such as Helm, write a DNS name instead:
NAME.ROLE.gosched.internal, without a cluster. A certificate with neither is a client's.

Invariant: a certificate has one role, said once, and a role name that is not understood gives none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote, unquote

from gosched.core.limits import MAX_NAME_LENGTH

SCHEME = "gosched://"
DOMAIN = ".gosched.internal"  # `.internal` has no owner on the Internet
ANY_NODE = "*"


# A label of DNS, in lower case so that it has one spelling; or any.
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class Role(Enum):
    MASTER = "master"
    AGENT = "agent"
    CLIENT = "client"


_ROLES = {role.value: role for role in Role}
_KINDS = ", ".join(_ROLES)


class BadCertificate(ValueError):
    """One line that says why a certificate gives no role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateHolder:
    """What a certificate says of its holder."""

    #: The id of the holder's cluster; empty: any.
    cluster: str = ""
    role: Role = Role.CLIENT
    #: Empty for a client whose certificate names no role.
    name: str = ""
    #: The certificate says it in a DNS name, by which a client that dials can check it.
    in_dns: bool = False

    def uri(self) -> str:
        return f"{SCHEME}{quote(self.cluster, safe='')}/{self.role.value}/{quote(self.name, safe='*')}"

    def is_of(self, cluster_id: str) -> bool:
        """Return whether the holder belongs to this cluster, as far as both are known."""
        return not self.cluster or not cluster_id or self.cluster == cluster_id


def identity_of(uris: Iterable[str], dns_names: Iterable[str] = ()) -> CertificateHolder:
    """Return what the alternative names of a certificate say. Raises BadCertificate."""
    in_uris = [uri for uri in uris if uri.lower().startswith(SCHEME)]
    in_dns = [name for name in dns_names if name.lower().endswith(DOMAIN)]
    found = in_uris + in_dns
    if not found:
        return CertificateHolder()
    if len(found) > 1:
        raise BadCertificate(f"the certificate names {len(found)} roles ({', '.join(found)!a}): it may name one")
    return _in_uri(in_uris[0]) if in_uris else _in_dns(in_dns[0])


def server_name(role: Role, name: str) -> str:
    """Return the DNS name by which a holder of this role and name, or of any name, is known to be one."""
    return f"{name}.{role.value}{DOMAIN}"


def node_label(name: str, node_id: str) -> str:
    """Return what a node is called in DNS names of certificates: its name where that is a single label, or its id."""
    return name if _LABEL.fullmatch(name) else node_id


def _in_uri(uri: str) -> CertificateHolder:
    parts = [unquote(part) for part in uri[len(SCHEME) :].split("/")]
    if len(parts) != 3 or parts[1] not in _ROLES or not parts[2] or not _is_plain(parts):
        raise BadCertificate(f"{uri!a} in the certificate is not gosched://CLUSTER/ROLE/NAME (roles: {_KINDS})")
    return CertificateHolder(cluster=parts[0], role=_ROLES[parts[1]], name=parts[2])


def _in_dns(host: str) -> CertificateHolder:
    name, _, role = host[: -len(DOMAIN)].partition(".")
    if host != host.lower() or role not in _ROLES or not (name == ANY_NODE or _LABEL.fullmatch(name)):
        raise BadCertificate(f"{host!a} in the certificate is not NAME.ROLE{DOMAIN} (roles: {_KINDS})")
    return CertificateHolder(role=_ROLES[role], name=name, in_dns=True)


def _is_plain(parts: Iterable[str]) -> bool:
    return all(part.isprintable() and len(part) <= MAX_NAME_LENGTH for part in parts)
