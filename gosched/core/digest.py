"""A digest of records that is the same on every master: no repr, no hash(), no order of arrival."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from hashlib import blake2b

_FIELDS: dict[type, tuple[str, ...]] = {}


def record_digest(table: str, key: str, record: object) -> int:
    """128 bits over the record and its place. Sums of these do not depend on order."""
    parts: list[str] = [table, "\0", key]
    _write(record, parts)
    return int.from_bytes(blake2b("".join(parts).encode(), digest_size=16).digest(), "big")


def _write(value: object, out: list[str]) -> None:
    # Each value ends in a mark that strings cannot forge, since their length stands before them.
    if value is None:
        out.append("~")
    elif isinstance(value, str):
        out.append(f"s{len(value)}:{value}")
    elif isinstance(value, int):
        out.append(f"i{int(value)};")
    elif isinstance(value, tuple):
        out.append(f"t{len(value)}:")
        for item in value:
            _write(item, out)
    elif is_dataclass(value):
        kind = type(value)
        names = _FIELDS.get(kind)
        if names is None:
            names = _FIELDS[kind] = tuple(f.name for f in fields(value))
        out.append(f"r{kind.__name__}:")
        for name in names:
            _write(getattr(value, name), out)
    else:
        raise TypeError(f"{type(value).__name__} has no digest")
