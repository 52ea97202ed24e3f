"""Masters, and the members of the replicated log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """Where a master's front listens, as it said itself."""

    id: str
    grpc_address: str
    http_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of the replicated log."""

    id: str
    #: host:port of its Raft listener.
    address: str
    #: It is counted and may lead; a learner only gets the log.
    voter: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The members of the replicated log, at some place of it."""

    #: Counts the changes; the first entry that names the members has 1.
    version: int
    #: By their ids, in order.
    members: tuple[Member, ...]
