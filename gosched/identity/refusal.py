"""Why a token is not taken: a line for the audit log, and one for the caller that gives nothing away."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

_NOT_VALID = "the token is not valid: log in again with goschedctl login"
_NOT_NOW = "tokens cannot be checked now: try again later"


class Check(Enum):
    """What a token did not pass."""

    FORMAT = "format"
    ALGORITHM = "algorithm"
    TYPE = "type"
    ISSUER = "issuer"
    AUDIENCE = "audience"
    TIME = "time"
    KEY = "key"
    SIGNATURE = "signature"
    NAME = "name"
    #: It was made for another login.
    NONCE = "nonce"
    #: No keys: the issuer did not answer since this master began, or for too long.
    ISSUER_DOWN = "issuer_down"


@dataclass(frozen=True, slots=True)
class Refusal:
    check: Check
    #: One printable line, bounded, without the token: for the audit log alone.
    detail: str

    @property
    def is_passing(self) -> bool:
        """Return whether the same token may be taken later."""
        return self.check is Check.ISSUER_DOWN

    @property
    def for_caller(self) -> str:
        """Return what the caller is told. It is the same for whatever is wrong with a token."""
        return _NOT_NOW if self.is_passing else _NOT_VALID
