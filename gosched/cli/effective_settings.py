"""`goschedctl config view --effective`: every setting of a master or an agent, and where its value comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from gosched.cli.output import Column, print_listing
from gosched.config.load import AGENT_KEYS, MASTER_KEYS, load_agent_settings, load_master_settings
from gosched.config.settings import Settings
from gosched.config.validation import Model
from gosched.config.written import duration, memory

_SECRET = frozenset({"tracing.headers"})  # where tokens are
_COLUMNS: list[Column] = [
    ("KEY", lambda row: row["key"]),
    ("SOURCE", lambda row: row["source"]),
    ("VALUE", lambda row: _text(row["value"])),
]


def view_settings(file: str | None, *, agent: bool, words: Sequence[str], output: str) -> None:
    """Print the settings that a daemon would have, started here with this file and these words on its command line.
    Raises ConfigError."""
    flags = _flags(words, AGENT_KEYS if agent else MASTER_KEYS)
    settings = load_agent_settings(file, flags) if agent else load_master_settings(file, flags)
    rows = [
        {"id": key, "key": key, "value": value, "source": _source(key, settings)} for key, value in _flat(settings, "")
    ]
    print_listing(lambda: rows, _COLUMNS, output=output, noun="setting")


def _flags(words: Sequence[str], known: Mapping[str, Any]) -> dict[str, object]:
    """Return the flags of a daemon's command line by their names."""
    flags: dict[str, object] = {}
    rest = list(words)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        name = {"raft_bind_addr": "bind_addr"}.get(name, name)
        if not flag.startswith("--") or name not in known:
            raise click.UsageError(f"{flag} is no flag that has a setting; see --help of the program")
        if name == "insecure":
            flags[name] = True
        elif equals or rest:
            flags[name] = value if equals else rest.pop(0)
        else:
            raise click.UsageError(f"{flag} needs a value")
    if flags.get("peers"):
        flags["raft_enabled"] = True
    return flags


def _flat(model: Model, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield each key as files write it, and its value; models in lists are yielded whole."""
    for name, field in type(model).model_fields.items():
        value, key = getattr(model, name), f"{prefix}{field.alias or name}"
        if isinstance(value, Model):
            yield from _flat(value, f"{key}.")
        elif key in _SECRET and value:
            yield key, "(not shown)"
        elif isinstance(value, int) and not isinstance(value, bool) and name.endswith("_ms"):
            yield key, duration(value)
        elif isinstance(value, int) and not isinstance(value, bool) and name.endswith("_bytes"):
            yield key, memory(value)
        else:
            yield key, _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Model):
        return value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _source(key: str, settings: Settings) -> str:
    """Return where a key was set; a part of what was set whole comes from there, too."""
    path = key
    while path:
        if origin := settings.origin(path):
            return origin
        path = path.rpartition(".")[0]
    return "default"


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        import json

        return json.dumps(value, ensure_ascii=False) if value else None
    return None if value is None else str(value)
