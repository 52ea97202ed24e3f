"""Paths such as `spec.name`, from a record to a value in it: the type at the end, and how to get there."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints


def names_of(kind: type) -> list[str]:
    """Return the fields of a dataclass or a named tuple, in their order."""
    return [field.name for field in fields(kind)] if is_dataclass(kind) else list(_hints(kind))


def is_record(kind: Any) -> bool:
    return is_dataclass(kind) or hasattr(kind, "_fields")


def type_at(kind: type, path: str) -> Any:
    """Return the type at the end of a path of fields and properties. Raises TypeError where there is none."""
    hint: Any = kind
    for name in path.split("."):
        hint = without_none(hint)
        found = getattr(hint, name, None)
        hint = _hints(found.fget).get("return") if isinstance(found, property) else _hints(hint).get(name)
        if hint is None:
            raise TypeError(f"{kind.__name__} has no {path}")
    return hint


def may_be_none(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def without_none(hint: Any) -> Any:
    """Return X of `X | None`, and any other type as it is."""
    return next(kind for kind in get_args(hint) if kind is not types.NoneType) if may_be_none(hint) else hint


def reader(path: str) -> Callable[[Any], Any]:
    """Return a function from a record to the value at a path."""
    names = path.split(".")

    def read(record: Any) -> Any:
        for name in names:
            record = getattr(record, name)
        return record

    return read


@cache
def _hints(of: Any) -> dict[str, Any]:
    """Kept, because a class is asked for each of its fields, and each program that prints JSON waits for it."""
    return get_type_hints(of)
