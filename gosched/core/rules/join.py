"""Checks tokens to join with, and the hosts that certificates of agents may name."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from gosched.core.limits import MAX_DURATION_MS, MAX_JOIN_HOSTS, MAX_JOIN_LABELS, MAX_NAME_LENGTH
from gosched.core.records.join import JoinToken, is_pattern
from gosched.core.rules.finding import Finding
from gosched.core.rules.values import check_map, check_name, check_order

_DIGEST = re.compile(r"[0-9a-f]{64}")
_HOST_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_ROLES_DOMAIN = "gosched.internal"  # names below it are roles (wire/roles.py)


def check_join_token(token: JoinToken) -> Finding | None:
    """Return the first thing that is wrong with a token to join with, or None."""
    subject = f"join token {token.name}"
    if not 0 < token.expires_at_ms - token.created_at_ms <= MAX_DURATION_MS:
        return Finding(subject=subject, problem="must last longer than nothing and at most 366 days")
    if not _DIGEST.fullmatch(token.digest) or not (not token.used_key or _DIGEST.fullmatch(token.used_key)):
        return Finding(subject=subject, problem="has no digest of its secret, or a bad one of the key that used it")
    if len(token.labels) > MAX_JOIN_LABELS:
        return Finding(subject=subject, problem=f"{len(token.labels)} labels; at most {MAX_JOIN_LABELS} are allowed")
    return (
        check_name("join token id", token.id)
        or check_name("join token name", token.name)
        or (_check_node(token.node) if token.node else None)
        or check_map("label", token.labels)
        or check_hosts(token.hosts)
    )


def check_hosts(hosts: Sequence[str]) -> Finding | None:
    """Return the first thing that is wrong with the hosts of an agent's certificate, or None."""
    if len(hosts) > MAX_JOIN_HOSTS:
        return Finding(problem=f"{len(hosts)} hosts; at most {MAX_JOIN_HOSTS} are allowed")
    for host in hosts:
        if not is_plain_host(host):
            problem = f"{host[:MAX_NAME_LENGTH]!a} is neither a plain host name nor an address"
            return Finding(problem=problem, advice="no wildcards, no names of roles")
    return check_order("hosts", hosts)


def is_plain_host(host: str) -> bool:
    """Return whether this is an address, or a host name without a wildcard that is no name of a role."""
    if is_address(host):
        return True
    if not host.isascii() or len(host) > MAX_NAME_LENGTH or not all(map(_HOST_LABEL.fullmatch, host.split("."))):
        return False
    under = f".{host.lower()}"
    return not under.endswith(f".{_ROLES_DOMAIN}") and not host.rpartition(".")[2].isdigit()


def is_address(host: str) -> bool:
    try:
        return "%" not in host and bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def _check_node(node: str) -> Finding | None:
    """Check a name, or a pattern: what is not a star has to be one."""
    bare = re.sub(r"[*?]", "x", node) if is_pattern(node) else node
    return check_name("node", bare)
