"""From which revision to which the history of a master is complete, and what of it is still to be fetched.

Invariant: from `first` to `last` no event is missing. What lies before `first` may have holes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(slots=True, kw_only=True)
class Span:
    """The revisions that the history has."""

    #: From this revision on everything is there.
    first: int = 1
    #: Up to this one; below `first`: nothing is there yet.
    last: int = 0
    #: What came after this revision, and before `first`, is missing here and may be fetched; -1: nothing is missing.
    missing_after: int = -1
    #: What `first` was before something was missing, and is again once that is fetched.
    first_before: int = 1

    def lose(self, after: int, upto: int) -> None:
        """Note that what came after one revision, up to another, is missing."""
        if upto <= after:
            return
        if self.missing_after < 0:
            self.missing_after, self.first_before = after, self.first
        self.missing_after = min(self.missing_after, after)
        self.first = max(self.first, upto + 1)

    def fetched(self, first: int) -> None:
        """Note that all was fetched that another master has, which is complete from `first` on."""
        if first <= self.missing_after + 1:
            self.first = max(self.first_before, first) if self.missing_after < self.first_before else self.first_before
        else:
            self.first = min(self.first, first)
        self.missing_after = -1

    def pruned(self, revision: int) -> None:
        """Note that all events up to this revision were dropped."""
        self.first = max(self.first, revision + 1)
        self.first_before = max(self.first_before, revision + 1)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Span:
        """Raises ValueError for a text that this release does not know."""
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(str(error)) from None
