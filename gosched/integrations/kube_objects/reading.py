"""What `kubectl get -o json` and `-o yaml` print, and files of manifests, as plain objects.

Invariant: what is returned are objects with a kind and a name; whatever else a file holds is an error that says where.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gosched.config.errors import ConfigError, shown, shown_key
from gosched.config.tree import read_documents

MAX_BYTES = 256 << 20
MAX_OBJECTS = 200_000
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An object of Kubernetes."""

    kind: str
    #: Empty: it is in no namespace, or that of the caller.
    namespace: str
    name: str
    #: All of it.
    raw: Mapping[str, Any]
    #: The file.
    source: str

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def error(self, message: str) -> ConfigError:
        return ConfigError(f"{self.source}: {self.kind} {self.path}: {message}")


def read_objects(text: bytes, source: str) -> list[Found]:
    """Return the objects of JSON or YAML, those of lists one by one. Raises ConfigError."""
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{source}: {len(text)} bytes; at most {MAX_BYTES} are read: list fewer kinds at once")
    is_json = text.lstrip()[:1] == b"{"
    values = _json(text, source) if is_json else [each.value for each in read_documents(text, source, MAX_BYTES)]
    found: list[Found] = []
    for place, value in enumerate(values, start=1):
        for each in _objects(value, f"{source}: document {place}", source):
            found.append(each)
            if len(found) > MAX_OBJECTS:
                raise ConfigError(f"{source}: more than {MAX_OBJECTS} objects: list fewer at once")
    if not found:
        raise ConfigError(f"{source}: no objects of Kubernetes in it: write there what kubectl get -o json prints")
    return found


def texts(owner: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return a map of texts. Raises ValueError."""
    found = part(owner, key)
    if not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"{key} is no map of texts")
    return {str(name): value for name, value in found.items()}


def part(owner: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an object within another; an empty one where there is none. Raises ValueError."""
    found = owner.get(key)
    if found is not None and not isinstance(found, Mapping):
        raise ValueError(f"{key} is no object")
    return found or {}


def parts(owner: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """Return a list of objects; an empty one where there is none. Raises ValueError."""
    found = owner.get(key)
    if found is not None and not (isinstance(found, list) and all(isinstance(each, Mapping) for each in found)):
        raise ValueError(f"{key} is no list of objects")
    return found or []


def text_of(owner: Mapping[str, Any], key: str) -> str:
    """Return a text; an empty one where there is none. Raises ValueError."""
    found = owner.get(key)
    if found is not None and not isinstance(found, str):
        raise ValueError(f"{key} is no text")
    return found or ""


def whole(owner: Mapping[str, Any], key: str, default: int) -> int:
    """Return a whole number. Raises ValueError."""
    found = owner.get(key)
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int):
        raise ValueError(f"{key} is no whole number")
    return found


def _json(text: bytes, source: str) -> list[Any]:
    """Return the documents of JSON, one after another."""
    decoder = json.JSONDecoder(parse_float=Decimal)
    values, at = [], 0
    try:
        written = text.decode().strip()
        while at < len(written):
            value, at = decoder.raw_decode(written, at)
            values.append(value)
            at = _SPACE.match(written, at).end()  # type: ignore[union-attr]
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: not UTF-8 (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise ConfigError(f"{source}:{error.lineno}: not valid JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:  # nested too deep; a number of too many digits
        raise ConfigError(f"{source}: this JSON cannot be read: {error}") from error
    return values


def _objects(value: Any, where: str, source: str, kind: str = "") -> Iterator[Found]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: expected an object of Kubernetes, got {shown(value)}")
    kind = value.get("kind") or kind
    if not isinstance(kind, str) or not kind:
        raise ConfigError(f"{where}: it has no kind: is it an object of Kubernetes?")
    if kind.endswith("List") and "items" in value:
        items = value["items"] if value["items"] is not None else []
        if not isinstance(items, list):
            raise ConfigError(f"{where}: items of the {shown_key(kind)} is no list")
        for place, item in enumerate(items):
            yield from _objects(item, f"{where}: items[{place}]", source, kind.removesuffix("List"))
        return
    try:
        metadata = part(value, "metadata")
        name, namespace = text_of(metadata, "name") or text_of(metadata, "generateName"), text_of(metadata, "namespace")
    except ValueError as error:
        raise ConfigError(f"{where}: {shown_key(kind)}: {error}") from error
    if not name or "/" in name:
        raise ConfigError(f"{where}: this {shown_key(kind)} has no name" + f" but {shown_key(name)}" * bool(name))
    yield Found(kind=kind, namespace=namespace, name=name, raw=value, source=source)
