"""Which programs may call one that has no TLS: those of this host and of private networks.

A container's port is published and its address is not loopback, so "no TLS, then loopback alone" cannot hold there.

Invariant: without TLS no caller with a public address is answered, but for the refusal.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import unquote

_PRIVATE = tuple(
    ipaddress.ip_network(network)
    for network in (
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",  # carriers' and clouds' private space (RFC 6598)
        "169.254.0.0/16",
        "::1/128",
        "fc00::/7",
        "fe80::/10",
    )
)


def refusal(host: str) -> str:
    """Return why a caller at this address is not answered without TLS, or nothing if it is."""
    if _is_private(host):
        return ""
    return f"without TLS callers of private addresses alone are answered, and {host or '?'} is none: configure tls"


def host_of(peer: str) -> str:
    """Return `10.0.0.7` of gRPC's `ipv4:10.0.0.7:40000`, and `::1` of `ipv6:%5B::1%5D:40000`."""
    return unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]")


def _is_private(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in _PRIVATE if network.version == address.version)
