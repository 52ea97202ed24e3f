"""A digest of records that is the same on every master: no repr, no hash(), no order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from hashlib import blake2b
from json import JSONEncoder
from operator import attrgetter
from typing import Any

from gosched.core.primitives import ADDED

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
        getter = _GETTERS[kind] = _getter(kind)
    return getter(record)


def _getter(kind: type) -> Callable[[object], object]:
    known = fields(kind)
    every: Callable[[object], Any] = attrgetter(*(f.name for f in known))
    rounds: dict[int, int] = {}  # the place of the first field of each round
    for place, field in enumerate(known):
        if ADDED in field.metadata:
            rounds.setdefault(field.metadata[ADDED], place)
    if not rounds:
        return every
    defaults = [(first, tuple([f.default for f in known[first:]])) for first in rounds.values()]

    def without_defaults(record: object) -> object:
        values = every(record)
        for first, unset in defaults:
            if values[first:] == unset:
                return values[:first]
        return values

    return without_defaults


# JSON, because its encoder is in C: the digest is most of what a small job costs a replica.
_ENCODER = JSONEncoder(separators=(",", ":"), check_circular=False, default=_values)
