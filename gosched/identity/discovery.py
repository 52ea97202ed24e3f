"""An issuer's discovery document (OpenID Connect Discovery 1.0): where its keys and its endpoints are.

Invariant: the document names the issuer that was asked for, letter by letter, and every URL of it is https, or http on
this machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gosched.config.errors import ConfigError, shown
from gosched.config.json_text import read_json
from gosched.config.oidc_model import is_safe_url

_MAX_NAMES = 256


class BadDocument(Exception):
    """One line that says what is wrong with what an issuer answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    issuer: str
    jwks_uri: str
    #: Empty where the issuer has no such endpoint.
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    device_authorization_endpoint: str = ""
    revocation_endpoint: str = ""
    #: None: it does not say which scopes it has.
    scopes: frozenset[str] | None = None
    #: How a client may show its secret at the token endpoint; None: it does not say.
    secret_methods: frozenset[str] | None = None
    #: It names itself in `iss` of each answer to a browser (RFC 9207).
    names_itself: bool = False


def discovery_url(issuer: str) -> str:
    return f"{issuer.rstrip('/')}/.well-known/openid-configuration"


def read_discovery(raw: bytes, issuer: str) -> Discovery:
    """Return what the document says. Raises BadDocument."""
    found = read_object(raw, "the discovery document")
    if found.get("issuer") != issuer:
        raise BadDocument(f"the discovery document is of the issuer {shown(found.get('issuer'))}, not {shown(issuer)}")
    return Discovery(
        issuer=issuer,
        jwks_uri=_url(found, "jwks_uri") or _missing("jwks_uri"),
        authorization_endpoint=_url(found, "authorization_endpoint"),
        token_endpoint=_url(found, "token_endpoint"),
        device_authorization_endpoint=_url(found, "device_authorization_endpoint"),
        revocation_endpoint=_url(found, "revocation_endpoint"),
        scopes=_names(found, "scopes_supported"),
        secret_methods=_names(found, "token_endpoint_auth_methods_supported"),
        names_itself=found.get("authorization_response_iss_parameter_supported") is True,
    )


def read_object(raw: bytes, what: str) -> dict[str, Any]:
    """Return a JSON object without keys that are given twice. Raises BadDocument."""
    try:
        found = read_json(raw, what)
    except ConfigError as error:
        raise BadDocument(str(error)) from error
    if not isinstance(found, dict):
        raise BadDocument(f"{what}: expected a JSON object, got {shown(found)}")
    return found


def _url(found: dict[str, Any], key: str) -> str:
    value = found.get(key, "")
    if value and not (isinstance(value, str) and is_safe_url(value)):
        raise BadDocument(f"the discovery document: {key}: expected an https URL, got {shown(value)}")
    return str(value or "")


def _names(found: dict[str, Any], key: str) -> frozenset[str] | None:
    value = found.get(key)
    return frozenset(map(str, value[:_MAX_NAMES])) if isinstance(value, list) else None


def _missing(key: str) -> str:
    raise BadDocument(f"the discovery document has no {key}")
