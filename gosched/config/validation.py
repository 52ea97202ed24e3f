"""From plain values to pydantic models, with errors in one line for people.

Invariant: a key that no model knows is an error that names the nearest known key; nothing is silently ignored.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from gosched.config.errors import ConfigError, shown, suggestion
from gosched.config.quantity import cpu_millis, duration_ms, memory_bytes
from gosched.config.tree import Document, Path
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.primitives import StringMap

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_MAX_MISTAKES = 100  # of one document that are explained
_LABEL_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?")


class Model(BaseModel):
    """Frozen; unknown keys are errors. `MOVED` are keys that may stand here but are read elsewhere. Its validator is
    built when it is first used: a program that reads a job pays for the parts of a job file that are in it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    MOVED: ClassVar[frozenset[str]] = frozenset()


M = TypeVar("M", bound=Model)


def validate(model: type[M], document: Document) -> M:
    """Return the model. Raise ConfigError for the first mistake, by its place in the file, with the others; unknown
    keys first."""
    if not isinstance(document.value, dict):
        raise document.error((), f"expected keys and values, got {shown(document.value)}")
    try:
        return model.model_validate(document.value)
    except ValidationError as error:
        found = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        first, *others = [document.error(*_explained(model, mistake)) for mistake in found[:_MAX_MISTAKES]]
        first.others = tuple(others)
        raise first from None


def name(value: object, *, longest: int = 63) -> str:
    """Check a name that users choose and that is safe in ids, file names and metrics."""
    if not isinstance(value, str):
        raise ValueError(f'expected a name, got {shown(value)}; quote it if it is one: "{shown(value)}"')
    if any(not c.isprintable() for c in value):
        raise ValueError(f"has control characters: {shown(value)}; use letters, digits, '-', '_' and '.'")
    if len(value) > longest:
        raise ValueError(f"{len(value)} characters long; at most {longest}")
    if not _NAME.fullmatch(value):
        raise ValueError(
            f"expected letters, digits, '-', '_' and '.', a letter or digit at both ends, got {shown(value)}"
        )
    return value


def word(value: object) -> str:
    """Return text that stands for something by its name; what names may look like is checked with the record."""
    if not isinstance(value, str):
        raise ValueError(f'expected a name, got {shown(value)}; quote it if it is one: "{shown(value)}"')
    if not value:
        raise ValueError("expected a name, got ''")
    return value


def label_key(value: object) -> str:
    """Check a key such as `zone` or `topology.kubernetes.io/zone`."""
    if not isinstance(value, str) or len(value) > MAX_NAME_LENGTH or not _LABEL_KEY.fullmatch(value):
        raise ValueError(f"expected the key of a label such as zone or rack, got {shown(value)}")
    return value


def problem_at(path: Path, message: str) -> ValidationError:
    """Return the error of a validator that knows where inside its value the mistake is."""
    problem = PydanticCustomError("placed_error", "{text}", {"text": message})
    return ValidationError.from_exception_data("", [InitErrorDetails(type=problem, loc=path, input=None)])


def string_map(value: object) -> StringMap:
    """Read a mapping, or `a=b,c=d`, as sorted pairs of text."""
    if isinstance(value, str):
        value = dict(_pair(item) for item in value.split(",") if item.strip())
    if not isinstance(value, dict):
        raise ValueError(f"expected keys and values such as {{zone: a}}, got {shown(value)}")
    return tuple(sorted((_entry(key, key), _entry(key, item)) for key, item in value.items()))


def _pair(item: str) -> tuple[str, str]:
    key, equals, words = item.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"expected key=value, got {shown(item)}")
    return key.strip(), words.strip()


def _entry(key: str, value: object) -> str:
    try:
        return text(value)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def text(value: object) -> str:
    """Read text; numbers and booleans keep the text they were written with."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, dict | list):
        raise ValueError(f"expected text, got {shown(value)}")
    words = str(value)
    if "\0" in words:
        raise ValueError("has a NUL character")
    return words


Millis = Annotated[int, BeforeValidator(duration_ms)]
MemoryBytes = Annotated[int, BeforeValidator(memory_bytes)]
CpuMillis = Annotated[int, BeforeValidator(cpu_millis)]
Name = Annotated[str, BeforeValidator(name)]
Word = Annotated[str, BeforeValidator(word)]
Int32 = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]
Int64 = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
LabelKey = Annotated[str, BeforeValidator(label_key)]
Pairs = Annotated[StringMap, BeforeValidator(string_map)]
Text = Annotated[str, BeforeValidator(text)]


def _explained(model: type[Model], error: ErrorDetails) -> tuple[Path, str]:
    path, kind, value = tuple(error["loc"]), error["type"], error.get("input")
    context: dict[str, Any] = error.get("ctx", {})
    match kind:
        case "extra_forbidden":
            return path, _unknown_key(_model_at(model, path[:-1]), str(path[-1]))
        case "missing":
            return path[:-1], f'needs "{path[-1]}"'
        case "value_error" | "assertion_error":
            return path, str(context["error"])
        case "placed_error":
            return path, error["msg"]
        case "too_long":
            return path, f"{context['actual_length']} entries; at most {context['max_length']}"
        case "literal_error":
            known = re.findall(r"'([^']*)'", context["expected"])
            return path, f"expected {_alternatives(known)}, got {shown(value)}{suggestion(str(value), known)}"
        case "greater_than_equal":
            return path, f"expected at least {context['ge']}, got {shown(value)}"
        case "less_than_equal":
            return path, f"expected at most {context['le']}, got {shown(value)}"
        case "less_than":
            return path, f"expected at most {context['lt'] - 1}, got {shown(value)}"
        case "int_type" | "int_parsing" | "int_parsing_size" | "int_from_float":
            return path, f"expected a whole number, got {shown(value)}"
        case "bool_type" | "bool_parsing":
            return path, f"expected true or false, got {shown(value)}"
        case "string_type":
            return path, f'expected text, got {shown(value)}; quote it: "{shown(value)}"'
        case "model_type" | "dict_type" | "model_attributes_type":
            return path, f"expected keys and values, got {shown(value)}"
        case "list_type" | "tuple_type":
            return path, f"expected a list, got {shown(value)}"
        case _:
            return path, f"{error['msg']}, got {shown(value)}"


def _unknown_key(model: type[Model], key: str) -> str:
    known = [*(field.alias or name for name, field in model.model_fields.items()), *sorted(model.MOVED)]
    return "unknown key" + (suggestion(key, known) or f"; known here: {', '.join(known)}")


def _alternatives(known: list[str]) -> str:
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} or {known[-1]}"


def _model_at(model: type[Model], path: Path) -> type[Model]:
    for part in path:
        for field_name, field in model.model_fields.items():
            if part == (field.alias or field_name):
                model = _model_in(field.annotation) or model
    return model


def _model_in(annotation: Any) -> type[Model] | None:
    """Return the model within `Model | None`, `tuple[Model, ...]`, `dict[str, Model]`."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _model_in(arg))), None)


__all__ = [
    "ConfigError",
    "CpuMillis",
    "Int32",
    "Int64",
    "LabelKey",
    "MemoryBytes",
    "Millis",
    "Model",
    "Name",
    "Pairs",
    "Text",
    "Word",
    "label_key",
    "name",
    "problem_at",
    "string_map",
    "text",
    "validate",
    "word",
]
