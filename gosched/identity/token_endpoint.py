"""What an issuer's token endpoint, and those beside it, answer to a form.

Invariant: of an answer only short texts and whole amounts are taken; what an issuer says of an error is one printable
line.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gosched.config.errors import shown
from gosched.identity.discovery import BadDocument, read_object
from gosched.identity.fetching import fetch
from gosched.wire.http_exchange import Reply, Unreachable

_MAX_TEXT = 16 * 1024  # of a token


class LoginFailed(Exception):
    """One line that says why nobody is logged in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Tokens of the issuer's; a text is empty where it gave none."""

    access_token: str
    id_token: str
    refresh_token: str
    #: Of the access token; None: it does not say.
    lasts_s: int | None


def asked(url: str, form: Mapping[str, str], trust: ssl.SSLContext, *, authorization: str = "") -> dict[str, Any]:
    """Return the answer to a form. Blocks. Raises LoginFailed where there is none that can be read."""
    try:
        return read_answer(fetch(url, trust, form=form, authorization=authorization))
    except (Unreachable, BadDocument) as error:
        raise LoginFailed(f"the issuer cannot be asked: {error}") from error


def read_answer(reply: Reply) -> dict[str, Any]:
    """Return the object, with an `error` unless the status is 200. Raises Unreachable where another try may do better,
    and BadDocument."""
    if reply.status >= 500:
        raise Unreachable(f"the issuer answered with status {reply.status}")
    if reply.status != 200 and not reply.body.lstrip().startswith(b"{"):
        return {"error": f"status {reply.status}"}
    answer = read_object(reply.body, "the issuer's answer")
    return answer if reply.status == 200 or answer.get("error") else {**answer, "error": f"status {reply.status}"}


def error_of(answer: Mapping[str, Any]) -> str:
    """Return what an answer says of an error; empty: it is none."""
    if not answer.get("error"):
        return ""
    words = [shown(answer[key]).strip("'") for key in ("error", "error_description") if answer.get(key)]
    return ": ".join(words)


def grant_of(answer: Mapping[str, Any]) -> Grant:
    return Grant(
        access_token=text_of(answer, "access_token"),
        id_token=text_of(answer, "id_token"),
        refresh_token=text_of(answer, "refresh_token"),
        lasts_s=amount_of(answer, "expires_in"),
    )


def text_of(answer: Mapping[str, Any], key: str) -> str:
    value = answer.get(key)
    return value if isinstance(value, str) and len(value) <= _MAX_TEXT else ""


def amount_of(answer: Mapping[str, Any], key: str) -> int | None:
    value = answer.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
