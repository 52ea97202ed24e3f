"""Tokens of pages: where a listing of jobs goes on.

A token holds the position of the last job that was given, the request and the caller that it belongs to, as a hash,
and the revision of the first page. It says nothing of jobs that its caller does not see. It is no secret and is not
signed: whoever writes one may only choose where a listing begins.

Invariant: a listing that goes on by tokens shows no job twice that keeps its position, and none that was submitted
after its first page.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Hashable
from dataclasses import dataclass, replace
from hashlib import blake2b

from gosched.api.job_query import Direction, JobOrder, JobQuery
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.errors import invalid

MAX_TOKEN_LENGTH = 1024
_VERSION = 1
_MAX_INTEGER = 1 << 63
OF_ANOTHER_REQUEST = (
    "page_token is of another request: keep filters and order the same from page to page, or begin with the first page"
)
_FOREIGN = "page_token is not one that this cluster gave: begin with the first page"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The place of a job in a listing."""

    #: What jobs are listed by; 0: the job lacks the moment.
    value: int | str
    #: Of the job; decides where values are equal.
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageToken:
    """Where a listing goes on."""

    #: Of the last job of the page before.
    after: Position
    #: Of the state when the first page was made.
    revision: int
    #: Jobs of this sequence and later ones were submitted after the first page, or are not for its caller.
    horizon: int

    def text(self, query: JobQuery, viewer: Hashable = None) -> str:
        """Return the token for the next page of a query. `viewer`: who sees the same (see `Access.viewer`)."""
        parts = [_VERSION, _hash(query, viewer), self.revision, self.horizon, self.after.value, self.after.sequence]
        return base64.urlsafe_b64encode(json.dumps(parts, separators=(",", ":")).encode()).decode().rstrip("=")


def read_token(query: JobQuery, state: ClusterState, viewer: Hashable = None) -> PageToken | None:
    """Return the token of a query; None: it asks for the first page. Raises ApiError for a token of another query or
    caller, or of a later state than this."""
    text = query.page_token
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) < 20 and query.order in (0, JobOrder.SUBMITTED):
        # Of a master of an earlier release: the sequence of the last job, newest first.
        return PageToken(after=Position(value=int(text), sequence=int(text)), revision=0, horizon=_MAX_INTEGER)
    parts = _parts(text)
    if parts[1] != _hash(query, viewer):
        raise invalid(OF_ANOTHER_REQUEST)
    token = _token(parts, by_name=query.order is JobOrder.NAME)
    if token.revision > state.revision:
        raise invalid(
            f"page_token is of revision {token.revision}, and this master is at {state.revision}: begin with the first"
            " page"
        )
    return token


def _token(parts: list[object], *, by_name: bool) -> PageToken:
    match parts:
        case [_, _, int(revision), int(horizon), str() | int() as value, int(sequence)] if isinstance(
            value, str
        ) == by_name and not isinstance(value, bool):
            numbers = (revision, horizon, sequence, 0 if isinstance(value, str) else value)
            if all(0 <= number <= _MAX_INTEGER for number in numbers) and len(str(value)) <= MAX_NAME_LENGTH:
                after = Position(value=value, sequence=sequence)
                return PageToken(after=after, revision=revision, horizon=horizon)
    raise invalid(_FOREIGN)


def _parts(text: str) -> list[object]:
    try:
        if len(text) > MAX_TOKEN_LENGTH:
            raise invalid(_FOREIGN)
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        parts = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise invalid(_FOREIGN) from None
    if not isinstance(parts, list) or len(parts) != 6 or parts[0] != _VERSION or isinstance(parts[0], bool):
        raise invalid(_FOREIGN)
    return parts


def _hash(query: JobQuery, viewer: Hashable) -> str:
    """Return a hash of what a query chooses, for whom, and how it is ordered. Moments are left out: `2h` ago is another
    one for each page."""
    order = query.order or JobOrder.SUBMITTED
    states = tuple(sorted(set(query.states)))
    direction = Direction.DESCENDING if query.descends else Direction.ASCENDING
    chosen = replace(query, order=order, direction=direction, states=states, since_ms=0, ended_since_ms=0)
    chosen = replace(chosen, page_size=0, page_token="", rows=False)
    text = repr(chosen if viewer is None else (chosen, viewer))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()
