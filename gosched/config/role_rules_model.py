"""The keys of `tls` that say what certificates from elsewhere are: which names are whose, and what users are called."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from gosched.config.errors import shown
from gosched.config.validation import Model

NameKind = Literal["uri", "dns", "email", "cn"]
UserField = Literal["cn", "uri", "email", "dns"]
MAX_RULES = 100
MAX_PATTERN_LENGTH = 500
_KINDS: dict[str, NameKind] = {"uri:": "uri", "dns:": "dns", "email:": "email", "cn:": "cn"}
_OWN = ("gosched://", ".gosched.internal")


def pattern_of(match: str) -> tuple[NameKind, str, str]:
    """Return the kind of name that a pattern is of, and what is before and after its `*`. Raises ValueError."""
    kind = next((kind for prefix, kind in _KINDS.items() if match.startswith(prefix)), None)
    pattern = match[len(kind) + 1 :] if kind else match
    if kind is None:
        if "://" not in match:
            raise ValueError(
                f"expected a URI such as spiffe://corp/gosched/agent/*, or dns:, email:, cn: or uri: before a pattern,"
                f" got {shown(match)}"
            )
        kind = "uri"
    before, star, after = pattern.partition("*")
    if not star or "*" in after:
        raise ValueError(f"needs one *, which stands for the name, got {shown(match)}")
    if not pattern.isprintable() or " " in pattern or len(match) > MAX_PATTERN_LENGTH:
        raise ValueError(f"has spaces or control characters, or more than {MAX_PATTERN_LENGTH}: {shown(match)}")
    if kind == "dns":
        before, after = before.lower(), after.lower()
        if after and not after.startswith((".", "-")) and not after[0].isalnum():
            raise ValueError(f"is no host name: {shown(match)}")
    if kind == "uri" and "://" not in before:
        raise ValueError(f"the * of a URI stands after its host: {shown(match)}")
    if before.startswith(_OWN[0]) or after.endswith(_OWN[1]):
        raise ValueError(f"gosched's own names need no rule, and have no other meaning: {shown(match)}")
    return kind, before, after


def _checked(match: str) -> str:
    pattern_of(match)
    return match


class RoleRuleConfig(Model):
    """Certificates with a name that matches are of this role; the one `*` of `match` is the holder's own name."""

    match: Annotated[str, Field(max_length=MAX_PATTERN_LENGTH), AfterValidator(_checked)]
    role: Literal["master", "agent", "client"]
