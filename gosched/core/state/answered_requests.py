"""The requests that were answered, by their keys, the oldest first: millions of them in little memory.

Each is kept as one text, which takes half of what a record takes, and which the collector of garbage does not visit.

Invariant: a record comes out as it was put in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, MutableMapping
from typing import ClassVar

from gosched.core.outcome import Answered, Code

_BETWEEN = "\0"  # is in no user and in no subject


class AnsweredRequests(MutableMapping[str, Answered]):
    """A dict of them. One that is put again keeps its place."""

    __slots__ = ("_order", "_texts")

    RECORD: ClassVar[type] = Answered

    def __init__(self, answered: Iterable[Answered] = ()) -> None:
        self._texts: dict[str, str] = {}
        self._order = deque[str]()  # a dict whose first keys are gone finds its first one slowly
        for one in answered:
            self[one.key] = one

    def copy(self) -> AnsweredRequests:
        """Return a copy that shares the texts."""
        made = AnsweredRequests()
        made._texts, made._order = self._texts.copy(), self._order.copy()
        return made

    def oldest(self) -> Answered | None:
        """Return the one that was put first; None: there is none."""
        return self[self._order[0]] if self._order else None

    def __getitem__(self, key: str) -> Answered:
        return _unpacked(key, self._texts[key])

    def __setitem__(self, key: str, answered: Answered) -> None:
        if key not in self._texts:
            self._order.append(key)
        self._texts[key] = _packed(answered)

    def __delitem__(self, key: str) -> None:
        del self._texts[key]
        if self._order[0] == key:
            self._order.popleft()
        else:
            self._order.remove(key)

    def __contains__(self, key: object) -> bool:
        return key in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def _packed(answered: Answered) -> str:
    parts = (answered.user, answered.until_ms, answered.code.value, int(answered.unchanged), answered.subject)
    return _BETWEEN.join([*map(str, parts), answered.detail])


def _unpacked(key: str, text: str) -> Answered:
    user, until_ms, code, unchanged, subject, detail = text.split(_BETWEEN, 5)
    return Answered(
        key=key,
        user=user,
        until_ms=int(until_ms),
        code=Code(int(code)),
        unchanged=unchanged == "1",
        subject=subject,
        detail=detail,
    )
