"""A digest of records that is the same on every master: no repr, no hash(), no order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from hashlib import blake2b
from json import JSONEncoder
from operator import attrgetter

_GETTERS: dict[type, Callable[[object], object]] = {}


def record_digest(table: str, key: str, record: object) -> int:
    """Return 128 bits over the record and its place. Sums of these do not depend on order."""
    text = _ENCODER.encode((table, key, record))
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")


def _values(record: object) -> object:
    """Return the values of the fields of a record, in their order."""
    kind = type(record)
    getter = _GETTERS.get(kind)
    if getter is None:
        getter = _GETTERS[kind] = attrgetter(*(f.name for f in fields(kind)))  # type: ignore[arg-type]
    return getter(record)


# JSON, because its encoder is in C: the digest is most of what a small job costs a replica.
_ENCODER = JSONEncoder(separators=(",", ":"), check_circular=False, default=_values)
