"""Tokens with which agents join, as the API answers them."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.records.join import JoinToken


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJoinToken:
    """A token to join with that was made."""

    token: JoinToken
    #: For one agent: it cannot be had again.
    secret: str
    #: host:port where agents join.
    address: str
    revision: int
