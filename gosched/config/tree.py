"""YAML text into plain values that remember where they came from.

Invariant: what is read is bounded (size, depth) before it is built, and nothing is resolved but null, true, false
and decimal numbers: no tags, no anchors and aliases, no dates, no `yes` that turns into a boolean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import yaml

from gosched.config.errors import ConfigError, shown_key

Path = tuple[str | int, ...]

MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 20
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")  # 64 bits have up to 19 digits
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,18}")
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the C parser is ten times as fast, and not everywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """`value` is made of dict, list, str, int, Decimal, bool and None; `origins` says where each path was set.

    `hidden` is the start of paths that the user did not write, so that errors do not show it.
    """

    value: Any
    source: str
    origins: Mapping[Path, str] = field(default_factory=dict)
    hidden: Path = ()

    def error(self, path: Path, message: str) -> ConfigError:
        """Return an error with the origin of the path, or of the nearest parent that has one."""
        if self.hidden[: len(path)] == path:
            path = ()
        elif path[: len(self.hidden)] == self.hidden:
            path = path[len(self.hidden) :]
        where = next(
            (self.origins[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.origins), self.source
        )
        key = "" if where.startswith("--") else _shown(path)  # a flag names its key
        return ConfigError(f"{where}: {key}: {message}" if key else f"{where}: {message}")


def _shown(path: Path) -> str:
    """Return the path on one line, however its keys are written."""
    return dotted(tuple([part if isinstance(part, int) else shown_key(part) for part in path]))


def dotted(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def read_documents(text: bytes | str, source: str, most_bytes: int = MAX_FILE_BYTES) -> list[Document]:
    """Return every document of a YAML text but the empty ones. Raise ConfigError."""
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if len(raw) > most_bytes:
        raise ConfigError(f"{source}: {len(raw)} bytes; at most {most_bytes} are read")
    try:
        decoded = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{source}:{line}: not UTF-8 (byte {raw[error.start]:#04x}): save the file as UTF-8"
        ) from error
    try:
        events = iter(yaml.parse(decoded, Loader=_LOADER))
        return [document for document in _documents(events, source) if document.value is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        raise ConfigError(f"{where}: not valid YAML: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        line = decoded.count("\n", 0, error.position) + 1
        raise ConfigError(f"{source}:{line}: not valid YAML: control character {error.character!r}") from error


def _documents(events: Iterator[Any], source: str) -> Iterator[Document]:
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            builder = _Builder(events, source)
            value = builder.build(next(events), ())
            yield Document(value=value, source=source, origins=builder.origins)


class _Builder:
    """A builder of one document from parser events."""

    def __init__(self, events: Iterator[Any], source: str) -> None:
        self.origins: dict[Path, str] = {}
        self._events = events
        self._source = source

    def build(self, event: Any, path: Path) -> Any:
        where = f"{self._source}:{event.start_mark.line + 1}"
        self.origins.setdefault(path, where)
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise ConfigError(f"{where}: anchors and aliases (& and *) are not read: write the value out")
        if event.tag is not None:
            raise ConfigError(f"{where}: tags such as {event.tag} are not read: remove it")
        if len(path) > MAX_DEPTH:
            raise ConfigError(f"{where}: nested more than {MAX_DEPTH} deep")
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path)
        return self._mapping(path)

    def _sequence(self, path: Path) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self.build(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            where = f"{self._source}:{event.start_mark.line + 1}"
            if not isinstance(event, yaml.ScalarEvent):
                raise ConfigError(f"{where}: a key must be plain text")
            key = str(event.value)
            if key in items:
                raise ConfigError(f"{where}: {dotted((*path, key))}: is given twice")
            self.origins[(*path, key)] = where
            items[key] = self.build(next(self._events), (*path, key))
        return items


def _scalar(event: Any) -> Any:
    text = str(event.value)
    if event.style not in (None, ""):  # quoted, or a block: text as it stands
        return text
    if text in ("", "~", "null"):
        return None
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FRACTION.fullmatch(text):
        return Decimal(text)
    return text
