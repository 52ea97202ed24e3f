"""Who may call without TLS."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gosched.wire.plain_text import host_of, refusal

PRIVATE = (
    "127.0.0.1 127.8.9.1 10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 100.127.255.255 "
    "169.254.169.254 ::1 fc00::1 fd12:3456::1 fe80::1%eth0 ::ffff:10.0.0.1"
)
PUBLIC = (
    "8.8.8.8 9.255.255.255 11.0.0.0 172.15.255.255 172.32.0.0 192.167.1.1 192.169.0.1 100.63.255.255 100.128.0.0 "
    "169.253.1.1 203.0.113.7 0.0.0.0 2001:db8::1 2a00::1 :: ::ffff:8.8.8.8 ::ffff:203.0.113.7 64:ff9b::a00:1"
)


@pytest.mark.parametrize("host", PRIVATE.split())
def test_private_callers_are_answered(host: str) -> None:
    assert refusal(host) == ""


@pytest.mark.parametrize("host", [*PUBLIC.split(), "", "?", "master-1", "10.0.0"])
def test_public_and_unknown_callers_are_refused_with_what_to_do(host: str) -> None:
    assert refusal(host).endswith("is none: configure tls")


@given(st.ip_addresses(v=4))
def test_no_globally_reachable_address_is_private(address: ipaddress.IPv4Address) -> None:
    if address.is_global:
        assert refusal(str(address))
        assert refusal(f"::ffff:{address}")


@pytest.mark.parametrize(
    ("peer", "host"),
    [("ipv4:10.0.0.7:40000", "10.0.0.7"), ("ipv6:%5B::1%5D:4", "::1"), ("ipv6:%5Bfe80::1%25eth0%5D:4", "fe80::1%eth0")],
)
def test_the_host_of_a_grpc_peer_is_found(peer: str, host: str) -> None:
    assert host_of(peer) == host
