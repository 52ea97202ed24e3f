"""`dataclasses.replace` for records, in less than half its time: the state machine replaces records of thirty fields,
some for each task that changes.

A new record is filled through the descriptors of its slots; `dataclasses.replace` looks at each field by its name, and
calls an `__init__` that writes each through `object.__setattr__`. Only for what is frozen and has slots, and takes its
fields as they are given (no `__post_init__`, no field without `init`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

Write = Callable[[Any, Any], None]

if TYPE_CHECKING:
    from dataclasses import replace as replace  # so that the type checker knows the fields
else:

    def replace(record: Any, /, **changes: Any) -> Any:
        """Return the record with some fields changed. Raises TypeError for a field that it does not have."""
        kind = type(record)
        write = _WRITE.get(kind) or _WRITE.setdefault(kind, setters(kind))
        copy = object.__new__(kind)
        for name, write_one in write.items():
            write_one(copy, getattr(record, name))
        try:
            for name, value in changes.items():
                write[name](copy, value)
        except KeyError:
            raise TypeError(f"{kind.__name__} has no field {name}") from None
        return copy


_WRITE: dict[type, dict[str, Write]] = {}


def setters(kind: type) -> dict[str, Write]:
    """Return what writes each field of a new record, by its name. Raises TypeError for a class that is no record."""
    if hasattr(kind, "__post_init__") or not all(field.init for field in fields(kind)):
        raise TypeError(f"{kind.__name__} does more than to take its fields")
    return {field.name: getattr(kind, field.name).__set__ for field in fields(kind)}
