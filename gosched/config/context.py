"""Which cluster a client talks to: flags, then the environment, then the user's config file.

Invariant: nothing slow is imported unless there is such a file, since every command line starts here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from gosched.config.errors import ConfigError, suggestion

DEFAULT_ENDPOINTS = "localhost:9090"
DEFAULT = "the default"  # what names them then
TLS_KEYS = ("tls_cert", "tls_key", "tls_ca")
TOKEN = "GOSCHED_TOKEN"
OIDC_KEYS = ("oidc_issuer", "oidc_client_id")
KEYS = ("endpoints", *TLS_KEYS, "token_file", *OIDC_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientContext:
    """The masters of one cluster, and what they are shown."""

    #: Separated by commas.
    endpoints: str
    #: A secret that is sent with each call; empty: none.
    token: str = field(default="", repr=False)
    #: Certificate, key and CA, paths of PEM files; the first two are empty where a token or a login stands for them.
    #: None: without TLS.
    tls: tuple[str, str, str] | None = None
    #: What named the endpoints, such as GOSCHED_ENDPOINTS or `context prod`.
    source: str = DEFAULT
    #: Of a context in the config file; empty: none applies.
    name: str = ""
    #: Who knows this user, for `goschedctl login`, and what goschedctl is called there; empty: not set.
    oidc_issuer: str = ""
    oidc_client_id: str = ""


def load_client_context(endpoints: str | None, context: str | None = None) -> ClientContext:
    """Return the cluster that these flags name, or else GOSCHED_ENDPOINTS, GOSCHED_CONTEXT, or the current context of
    the config file. Raise ConfigError.

    A context that is named goes before GOSCHED_ENDPOINTS and GOSCHED_TLS_...; --endpoints goes before all. What the
    file calls its current context is left out where something else names the masters.
    """
    values, source, name = _of_context(endpoints, context)
    for key in () if context else KEYS:
        if value := os.environ.get(f"GOSCHED_{key.upper()}"):
            values[key] = value
            source = "GOSCHED_ENDPOINTS" if key == "endpoints" else source
    if endpoints:
        values["endpoints"], source = endpoints, "--endpoints"
    given = [key for key in TLS_KEYS if values.get(key)]
    token = _token(values.get("token_file", ""))
    has_login = bool(token or values.get("oidc_issuer"))
    if given and len(given) < len(TLS_KEYS) and not (has_login and given == ["tls_ca"]):
        missing = next(key for key in TLS_KEYS if key not in given)
        raise ConfigError(f"TLS needs a certificate, a key and a CA: set {missing} (GOSCHED_{missing.upper()}) too")
    cert, key, ca = (values.get(part, "") for part in TLS_KEYS)
    return ClientContext(
        endpoints=values.get("endpoints") or DEFAULT_ENDPOINTS,
        token=token,
        tls=(cert, key, ca) if given else None,
        source=source if values.get("endpoints") else DEFAULT,
        name=name,
        oidc_issuer=values.get("oidc_issuer", ""),
        oidc_client_id=values.get("oidc_client_id", ""),
    )


def _token(file: str) -> str:
    """Return the token of the environment, else of a file. Raise ConfigError."""
    if token := os.environ.get(TOKEN, "").strip():
        return token
    if not file:
        return ""
    from gosched.config.private import exposed

    try:
        found = Path(file).expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"token_file: cannot read {file}: {getattr(error, 'strerror', '') or error}") from error
    if problem := exposed(file):
        raise ConfigError(f"token_file: {problem}")
    if not found:
        raise ConfigError(f"token_file: {file} is empty: write the secret that `goschedctl token create` printed")
    return found


def folder() -> Path:
    """Return where the files of this user's client are."""
    return Path.home() / ".config" / "gosched"


def _of_context(endpoints: str | None, context: str | None) -> tuple[dict[str, str], str, str]:
    """Return the keys of the context that applies, what it is called in messages, and its name in the config file;
    empty: none applies."""
    name = context or os.environ.get("GOSCHED_CONTEXT") or ""
    if "/" in name:  # the path of a file with the keys of one context
        return _one_context(Path(name)), f"context file {name}", ""
    file, single = folder() / "config.yaml", folder() / "context.yaml"
    if name or (file.is_file() and not endpoints and not os.environ.get("GOSCHED_ENDPOINTS")):
        from gosched.config.contexts import read_contexts

        contexts = read_contexts(file)
        if name and name not in contexts.named:
            known = f"there are: {', '.join(sorted(contexts.named))}" if contexts.named else f"{file} has none"
            raise ConfigError(f'there is no context "{name}"{suggestion(name, contexts.named)}; {known}')
        if chosen := name or contexts.current:
            return dict(contexts.named[chosen]), f"context {chosen}", chosen
    return (_one_context(single), f"context file {single}", "") if single.is_file() else ({}, DEFAULT, "")


def _one_context(path: Path) -> dict[str, str]:
    from gosched.config.contexts import keys_of
    from gosched.config.files import read_file
    from gosched.config.tree import read_documents

    documents = read_documents(read_file(str(path), what="context file"), str(path))
    return keys_of(documents[0], ()) if documents else {}
