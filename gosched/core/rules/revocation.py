"""Checks what is said of a revoked certificate."""

from __future__ import annotations

import re

from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.records.revocation import Revocation
from gosched.core.rules.finding import Finding
from gosched.core.rules.values import check_line

#: X.509 has at most 20 bytes.
SERIAL = re.compile(r"0|[1-9a-f][0-9a-f]{0,39}")
ROLES = ("", "master", "agent", "client")


def check_serial(serial: str) -> Finding | None:
    """Return what is wrong with the serial number of a certificate, or None."""
    if SERIAL.fullmatch(serial):
        return None
    return Finding(subject=f"certificate {serial[:MAX_NAME_LENGTH]!a}", problem="is no serial number in hex")


def check_revocation(revocation: Revocation) -> Finding | None:
    """Return the first thing that is wrong with a revocation, or None."""
    if found := check_serial(revocation.certificate):
        return found
    subject = f"certificate {revocation.certificate}"
    if revocation.role not in ROLES:
        return Finding(subject=subject, problem=f"has no role {revocation.role[:MAX_NAME_LENGTH]!a}")
    if revocation.at_ms < 0 or revocation.ends_at_ms < 0:
        return Finding(subject=subject, problem="has a moment before 1970")
    return (
        check_line(f"{subject}: holder", revocation.holder)
        or check_line(f"{subject}: reason", revocation.reason)
        or check_line(f"{subject}: by", revocation.by)
    )
