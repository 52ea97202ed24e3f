"""The keys of a pydantic model, as people write them: their paths, types, bounds and defaults."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gosched.core.amounts import amount_text

#: What may be written where a function reads the value, by the function's name; None: as the inner type says.
WRITTEN = {
    "_address": "`host:port`",
    "_absolute": "an absolute path",
    "_after": "a map of jobs to `success`, `failure` or `any`",
    "_causes": None,
    "_cpu_list": "a CPU list such as `0-31`",
    "_cron": "a cron expression",
    "_depth": "a number, or `all`",
    "_distinct": None,
    "_disjoint": None,
    "_endpoint": "a URL",
    "_gpus": "a number, `MODEL:NUMBER`, or a map",
    "_hugepages": "a map of page sizes to amounts",
    "_image": "an image's name, or an absolute path",
    "_items": None,
    "_label_key": "a label's key",
    "_listed": None,
    "_matrix": "a map of variables to lists of values",
    "_member_floor": "`all`, a number, or a percent",
    "_path": "an absolute path",
    "_place": "`file:///DIRECTORY` or `s3://BUCKET/PREFIX`",
    "_priority": "`low`, `normal`, `high`, or 0 to 1000",
    "_range": "`FIRST-LAST`, or `FIRST-LAST:STEP`",
    "_rlimits": "a map of limits to a number, an amount, `unlimited`, or `[soft, hard]`",
    "_run": "a line, or a list of words",
    "_share": "a share",
    "_signal": "a signal's name or number",
    "_target": "`host:port`",
    "_topology": None,
    "_umask": "octal digits",
    "_user": "a user's name",
    "_words": None,
    "cpu_millis": "CPUs, such as `2`, `0.5` or `500m`",
    "duration_ms": "a duration, such as `90s` or `1h30m`",
    "gpu_millis": "GPUs, such as `2` or `0.5`",
    "label_key": "a label's key",
    "memory_bytes": "an amount, such as `512Mi`",
    "moment_ms": "a moment, such as `2026-12-01T06:00:00Z`",
    "name": "a name",
    "string_map": "a map of texts",
    "text": "text",
    "vector": "a map of resources to amounts",
    "word": "text",
}
_PLAIN = {int: "a number", float: "a number", str: "text", bool: "`true` or `false`"}
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
_NO_BOUND = 1 << 31  # what a field's size allows is no bound that a person meets


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a file."""

    #: Such as `gang.min`, `tasks.*.count` or `queues[].name`.
    path: str
    #: What may be written.
    type: str
    #: As it is written; empty: none. `required` where the key must be there.
    default: str
    #: Empty: none.
    bounds: str


def keys(model: type[BaseModel], prefix: str = "", within: tuple[type[BaseModel], ...] = ()) -> Iterator[Key]:
    """Yield each key of the model, in its order, each followed by the keys within it."""
    for name, field in model.model_fields.items():
        alias = field.alias or name
        if " " in alias:  # stands for names that the cluster makes up: `custom resources`
            continue
        path = f"{prefix}{alias}"
        yield Key(path=path, type=_words(field), default=_default(name, field), bounds=_bounds(name, field))
        mark, inner = _model_in(field.annotation)
        if inner is not None and inner not in within:  # queues nest
            yield from keys(inner, f"{path}{mark}.", (*within, inner))


def _flat(annotation: Any, metadata: Sequence[Any] = ()) -> tuple[Any, list[Any]]:
    """Return the bare type of an annotation without None, and all that is said beside it."""
    found = list(metadata)
    if get_origin(annotation) is Annotated:
        bare, *said = get_args(annotation)
        bare, inner = _flat(bare, said)
        return bare, [*inner, *found]
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [arg for arg in get_args(annotation) if arg is not type(None) and arg != Literal[""]]
        if len(rest) == 1:
            bare, inner = _flat(rest[0])
            return bare, [*inner, *found]
    return annotation, [item for one in found for item in (one.metadata if isinstance(one, FieldInfo) else [one])]


def _readers(metadata: Sequence[Any]) -> list[str]:
    marks = [one for one in metadata if isinstance(one, BeforeValidator | AfterValidator)]
    return [getattr(one.func, "__name__", "") for one in marks]


def _words(field: FieldInfo) -> str:
    bare, metadata = _flat(field.annotation, field.metadata)
    return _type(bare, metadata)


def _type(bare: Any, metadata: Sequence[Any] = ()) -> str:
    for reader in _readers(metadata):
        if WRITTEN.get(reader):
            return str(WRITTEN[reader])
    origin, args = get_origin(bare), get_args(bare)
    if origin is Literal:
        return " \\| ".join(f"`{value}`" for value in args)
    if origin is tuple:
        return f"a list: {_type(*_flat(args[0]))}"
    if origin is dict:
        return "a map by name"
    if isinstance(bare, type) and issubclass(bare, BaseModel):
        return "keys"
    if origin in (Union, types.UnionType):
        return " or ".join(_type(*_flat(arg)) for arg in args if arg is not type(None))
    return _PLAIN[bare]


def _default(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is None or value is PydanticUndefined or value == () or isinstance(value, BaseModel):
        return ""
    return f"`{written(name, field, value)}`" if value != "" else ""


def written(name: str, field: FieldInfo, value: Any) -> str:
    """Return a value as people write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(written(name, field, item) for item in value)}]"
    if not isinstance(value, int):
        return str(value)
    readers = _readers(_flat(field.annotation, field.metadata)[1])
    show = next((_SHOWN[reader] for reader in readers if reader in _SHOWN), str)
    return show(value)


def duration_text(value_ms: int) -> str:
    """Return a duration such as `30s` or `7d`."""
    unit, size = next((unit, size) for unit, size in _UNITS_MS if value_ms % size == 0)
    return f"{value_ms // size}{unit}" if value_ms else "0"


def _bytes_text(value: int) -> str:
    return amount_text("memory", value, bare=True) if value else "0"


def _millis_text(value: int) -> str:
    return amount_text("cpu", value, bare=True)


_SHOWN: Mapping[str, Callable[[int], str]] = {
    "duration_ms": duration_text,
    "memory_bytes": _bytes_text,
    "cpu_millis": _millis_text,
    "gpu_millis": _millis_text,
    "_priority": lambda value: {250: "low", 500: "normal", 750: "high"}.get(value, str(value)),
}


def _bounds(name: str, field: FieldInfo) -> str:
    _, metadata = _flat(field.annotation, field.metadata)
    found = {}
    for one in metadata:
        found |= {key: getattr(one, key) for key in ("ge", "le", "gt", "lt", "max_length") if hasattr(one, key)}
    said = []
    if "ge" in found and found["ge"] > -_NO_BOUND:
        said.append(f"at least {written(name, field, found['ge'])}")
    if "le" in found:
        said.append(f"at most {written(name, field, found['le'])}")
    if "lt" in found and found["lt"] < _NO_BOUND:
        said.append(f"at most {written(name, field, found['lt'] - 1)}")
    if "max_length" in found:
        said.append(f"at most {found['max_length']} entries")
    return ", ".join(said)


def _model_in(annotation: Any) -> tuple[str, type[BaseModel] | None]:
    """Return the model that a key holds, and how its path goes on: `[]` for lists, `.*` for maps by name."""
    bare, _ = _flat(annotation)
    if isinstance(bare, type) and issubclass(bare, BaseModel):
        return "", bare
    for origin, mark in ((tuple, "[]"), (dict, ".*")):
        if get_origin(bare) is origin:
            inner = _model_in(get_args(bare)[-1 if origin is dict else 0])
            return (mark, inner[1]) if inner[1] else ("", None)
    return "", None
