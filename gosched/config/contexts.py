"""The user's config file: the clusters that a client knows by name, and which of them is the current one.

    current_context: prod
    contexts:
      prod: {endpoints: "m1:9090,m2:9090", tls_cert: /home/a/alice.pem, tls_key: ..., tls_ca: ...}

Invariant: the file is replaced whole, and only its owner may read it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gosched.config.context import KEYS
from gosched.config.errors import ConfigError, shown, suggestion
from gosched.config.files import read_file
from gosched.config.private import tighten

if TYPE_CHECKING:
    from gosched.config.tree import Document
    from gosched.config.tree import Path as Keys

_TOP = ("current_context", "contexts")


@dataclass(frozen=True, slots=True)
class Contexts:
    """What the file holds."""

    #: A name of `named`; empty: none is.
    current: str = ""
    #: The keys of each context, by its name.
    named: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def read_contexts(file: Path) -> Contexts:
    """Return what the file holds; nothing where there is none. Raise ConfigError."""
    if not file.is_file():
        return Contexts()
    with contextlib.suppress(OSError):  # reading it says why it cannot be read
        tighten(file)
    from gosched.config.tree import read_documents  # brings PyYAML along

    documents = read_documents(read_file(str(file), what="config file"), str(file))
    if not documents:
        return Contexts()
    document, top = documents[0], documents[0].value
    if not isinstance(top, dict):
        raise document.error((), f"expected current_context and contexts, got {shown(top)}")
    for key in top:
        if key not in _TOP:
            raise document.error((key,), f"unknown key{suggestion(key, _TOP)}")
    contexts = top.get("contexts") or {}
    if not isinstance(contexts, dict):
        raise document.error(("contexts",), f"expected contexts by their names, got {shown(contexts)}")
    current = top.get("current_context") or ""
    if current and current not in contexts:
        raise document.error(
            ("current_context",), f"there is no context {shown(current)}{suggestion(str(current), contexts)}"
        )
    return Contexts(str(current), {name: keys_of(document, ("contexts", name)) for name in contexts})


def keys_of(document: Document, path: Keys) -> dict[str, str]:
    """Return the keys of the context at a path. Raise ConfigError."""
    value = document.value
    for part in path:
        value = value[part]
    if not isinstance(value, dict):
        raise document.error(path, f"expected the keys of a context ({', '.join(KEYS)}), got {shown(value)}")
    for key, item in value.items():
        if key not in KEYS:
            raise document.error((*path, key), f"unknown key{suggestion(key, KEYS)}")
        if not isinstance(item, str) and item is not None:
            raise document.error((*path, key), f"expected text, got {shown(item)}")
    return {key: item for key, item in value.items() if item}


def write_contexts(file: Path, contexts: Contexts) -> None:
    """Replace the file. Comments in it are lost. Raise ConfigError."""
    import yaml

    held = {
        "current_context": contexts.current,
        "contexts": {name: dict(keys) for name, keys in contexts.named.items()},
    }
    text = yaml.safe_dump(held, sort_keys=False, allow_unicode=True)
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as target:
            target.write(text)
        fresh.replace(file)
    except OSError as error:
        raise ConfigError(f"{file}: cannot write the config file: {error.strerror}") from error
