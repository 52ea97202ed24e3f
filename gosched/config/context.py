"""Which masters a client talks to: flags, then the environment, then the context file.

Invariant: nothing slow is imported unless there is a context file, since every command line starts here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gosched.config.errors import ConfigError

DEFAULT_ENDPOINTS = "localhost:9090"
_TLS = ("tls_cert", "tls_key", "tls_ca")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientContext:
    """`tls` is (cert, key, ca), paths of PEM files, or None."""

    endpoints: str
    tls: tuple[str, str, str] | None = None


def load_client_context(endpoints: str | None) -> ClientContext:
    """Read the context file: GOSCHED_CONTEXT, or ~/.config/gosched/context.yaml where it exists. Raise ConfigError."""
    named = os.environ.get("GOSCHED_CONTEXT")
    path = Path(named) if named else Path.home() / ".config" / "gosched" / "context.yaml"
    values = _from_file(path) if named or path.is_file() else {}
    for key in ("endpoints", *_TLS):
        if os.environ.get(f"GOSCHED_{key.upper()}"):
            values[key] = os.environ[f"GOSCHED_{key.upper()}"]
    given = [key for key in _TLS if values.get(key)]
    if given and len(given) < len(_TLS):
        missing = next(key for key in _TLS if key not in given)
        raise ConfigError(f"TLS needs a certificate, a key and a CA: set {missing} (GOSCHED_{missing.upper()}) too")
    cert, key, ca = (values.get(name, "") for name in _TLS)
    return ClientContext(
        endpoints=endpoints or values.get("endpoints") or DEFAULT_ENDPOINTS, tls=(cert, key, ca) if cert else None
    )


def _from_file(path: Path) -> dict[str, str]:
    from gosched.config.load import read_file
    from gosched.config.tree import read_documents
    from gosched.config.validation import Model, validate

    class ContextFile(Model):
        endpoints: str = DEFAULT_ENDPOINTS
        tls_cert: str = ""
        tls_key: str = ""
        tls_ca: str = ""

    documents = read_documents(read_file(str(path), what="context file"), str(path))
    return dict(validate(ContextFile, documents[0]).model_dump()) if documents else {}
