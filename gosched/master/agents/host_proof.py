"""Which hosts the certificate of an agent may name: those from which it calls, and those that an operator named.

Otherwise an agent could get the certificate of another node's host, or of a master's, and pose as it.

Invariant: no host is taken on an agent's word alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from ipaddress import IPv6Address, ip_address

from gosched.core.rules.join import check_hosts, is_address
from gosched.master.base.callers import denied
from gosched.master.base.errors import invalid
from gosched.wire.addresses import AddressBook

RESOLVE_S = 3.0  # for the look-up of a name
_BOOK = AddressBook()  # whose fresh answers count, and nothing else


async def proved_hosts(asked: Sequence[str], address: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the hosts for a certificate. `address`: where the agent calls from; it alone where nothing is asked.
    `known`: need no proof. Raises ApiError."""
    hosts = tuple(sorted(set(asked) or {address}))
    if found := check_hosts(hosts):
        raise invalid(str(found))
    for host in hosts:
        if host not in known and not await _is_at(host, address):
            raise denied(
                f"the agent calls from {address}, and asks for a certificate of {host}: advertise an address that it"
                f" calls from, or make a token with --host {host}"
            )
    return hosts


async def _is_at(host: str, address: str) -> bool:
    """Return whether a host is, or leads to, this address."""
    if not is_address(address):
        return False
    if is_address(host):
        return _plain(host) == _plain(address)
    found = [one for one in await _BOOK.found(host, RESOLVE_S) if _BOOK.is_fresh(host, one) and is_address(one)]
    return any(_plain(one) == _plain(address) for one in found)


def _plain(address: str) -> object:
    """Return an address, of IPv4 also where it was written as one of IPv6."""
    found = ip_address(address)
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
