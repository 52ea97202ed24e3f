"""`dataclasses.replace` and `__init__` for records, in half of their time: the state machine makes a few records of up
to forty fields for each task that changes.

A new record is filled as a draft: an object of another class with the same slots, which may be written to plainly. It
becomes a record by its class, and from then on it is as frozen as the others. `dataclasses.replace` looks at each field
by its name, and the `__init__` of what is frozen writes each through `object.__setattr__`. Only for what is frozen and
has slots, and takes its fields as they are given (no `__post_init__`, no field without `init`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dataclasses import replace as replace  # so that the type checker knows the fields
else:

    def replace(record: Any, /, **changes: Any) -> Any:
        """Return the record with some fields changed. Raises TypeError for a field that it does not have."""
        kind = type(record)
        copy = (_COPY.get(kind) or _COPY.setdefault(kind, _copier(kind)))(record)
        try:
            for name, value in changes.items():
                setattr(copy, name, value)
        except AttributeError:
            raise TypeError(f"{kind.__name__} has no field {name}") from None
        copy.__class__ = kind
        return copy


K = TypeVar("K", bound=type)

_COPY: dict[type, Callable[[Any], Any]] = {}


def quickly_made(kind: K) -> K:
    """A decorator of records that are made often, above `dataclass`: give the record such an `__init__`. Raises
    TypeError for a class that is no record, and for fields that are not given by name."""
    scope = {"draft": draft_of(kind), "kind": kind, "thaw": object.__setattr__}
    given = []
    for field in fields(kind):
        if not field.kw_only or field.default_factory is not MISSING:
            raise TypeError(f"{kind.__name__}.{field.name} is not given by name, or made anew")
        given.append(field.name if field.default is MISSING else f"{field.name}=of_{field.name}")
        scope[f"of_{field.name}"] = field.default
    written = [f"self.{name} = {name}" for name in _names(kind)]
    lines = ["thaw(self, '__class__', draft)", *written, "self.__class__ = kind"]
    kind.__init__ = _function(f"__init__(self, *, {', '.join(given)})", lines, scope)  # type: ignore[misc]
    return kind


def draft_of(kind: type) -> type:
    """Return the class of the drafts of a record: `draft.__class__ = kind` makes it one. Raises TypeError for a class
    that is no record."""
    if hasattr(kind, "__post_init__") or not all(field.init for field in fields(kind)):
        raise TypeError(f"{kind.__name__} does more than to take its fields")
    slots = kind.__slots__  # type: ignore[attr-defined] # a record has some, its own ones
    plain = {"__slots__": slots, "__setattr__": object.__setattr__}  # not that of a frozen base
    return type(f"{kind.__name__}Draft", kind.__bases__, plain)


def _copier(kind: type) -> Callable[[Any], Any]:
    """Return what copies a record into a draft."""
    scope = {"draft": draft_of(kind), "new": object.__new__}
    lines = ["copy = new(draft)", *[f"copy.{name} = record.{name}" for name in _names(kind)], "return copy"]
    return _function("copier(record)", lines, scope)


def _names(kind: type) -> list[str]:
    return [field.name for field in fields(kind)]


def _function(head: str, lines: list[str], scope: dict[str, Any]) -> Callable[..., Any]:
    """Return a function that is written out, as `dataclasses` writes its own: a loop takes several times as long."""
    body = "".join(f"    {line}\n" for line in lines)
    exec(f"def {head}:\n{body}", scope)  # noqa: S102 - names from our own classes only
    made: Callable[..., Any] = scope[head.partition("(")[0]]
    return made
