"""Which web pages may reach this master through a browser: its own.

Without TLS a page of any site could reach it in two ways. It could let its own name point to this master's address (DNS
rebinding), and then read and change everything: so the name in `Host` has to be one that no stranger can own. Or it
could send a form to this master's name: so a change that comes from another site's page is refused. With TLS the
certificate has the name, and the second way alone is left.

A name is taken that is an address, `localhost`, a name without a dot, one below a domain that no public name server
answers for (`internal`, `local`, Kubernetes' `svc`), this machine's own, or one that a master is advertised under;
others are named by `server.http_hosts`: a name, `*.DOMAIN`, or `*` for all of them.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Mapping

#: Domains that no public name server answers for (RFC 6761, 6762, 8375; ICANN's `internal`; Kubernetes).
PRIVATE_DOMAINS = ("localhost", "local", "internal", "localdomain", "lan", "home.arpa", "svc", "cluster.local", "test")
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_OWN_SITE = ("same-origin", "none")


class Hosts:
    """The names under which this master may be called. `named`: by its config; `advertised`: of all masters, now."""

    def __init__(self, named: Iterable[str], advertised: Callable[[], Iterable[str]]) -> None:
        own = (socket.gethostname(), socket.getfqdn())
        self._named = frozenset(name.lower().rstrip(".") for name in (*own, *named))
        self._domains = tuple(name[1:] for name in self._named if name.startswith("*."))
        self._any = "*" in self._named
        self._advertised = advertised

    def takes(self, host: str) -> bool:
        """Return whether a request may have this `Host`; with or without a port."""
        name = host_name(host)
        if not name or "." not in name or _is_address(name) or name in self._named:
            return bool(name)
        if self._any or name.endswith((*self._domains, *(f".{domain}" for domain in PRIVATE_DOMAINS))):
            return True
        return any(name == other.lower() or name.endswith(_namespace(other)) for other in self._advertised())


def host_name(host: str) -> str:
    """Return `a.b` of `A.b.:80`, and `::1` of `[::1]:80`; empty for what is neither."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, _, port = host.partition(":")
    return name.lower().rstrip(".") if not port or port.isdigit() else ""


def cross_site(method: str, headers: Mapping[str, str]) -> str:
    """Return why a request is refused that a page of another site may have sent, or nothing."""
    if method in SAFE:
        return ""
    site = headers.get("sec-fetch-site", "none")
    origin = headers.get("origin")
    if site not in _OWN_SITE:
        return f"a page of another site sent it (Sec-Fetch-Site: {site[:40]})"
    if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
        return f"a page of another site sent it (Origin: {origin[:200]})"
    return ""


def _namespace(host: str) -> tuple[str, ...]:
    """Return the ends of names that stand for the same as `.NAMESPACE.svc`, where a host is in one: Kubernetes takes
    `service.namespace`, too."""
    before, found, _ = host.lower().partition(".svc")
    return (f".{before.rpartition('.')[2]}",) if found and "." in before else ()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
