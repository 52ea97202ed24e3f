"""Ids of jobs, made where a submission arrives, sortable by time, never guessed twice; and of clusters; keys."""

from __future__ import annotations

import secrets

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u
_TIME_DIGITS = 9  # of 5 bits: milliseconds until the year 3084
_RANDOM_DIGITS = 8


def new_job_id(now_ms: int) -> str:
    return f"j-{_encoded(now_ms, _TIME_DIGITS)}{_encoded(secrets.randbits(5 * _RANDOM_DIGITS), _RANDOM_DIGITS)}"


def new_cluster_id() -> str:
    return secrets.token_hex(8)


def new_task_key() -> str:
    return secrets.token_hex(16)


def _encoded(number: int, digits: int) -> str:
    return "".join(_DIGITS[(number >> (5 * place)) & 31] for place in reversed(range(digits)))
