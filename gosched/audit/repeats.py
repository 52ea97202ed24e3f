"""Calls that come again and again: few lines for many of them, so that no user fills the log for all others.

What failed, was refused or changed nothing has a line for the first, and one with the count for those that follow. What
took effect is named in every case: beyond `BULK_FREE` changes of one user within `BULK_S`, in lines for many of one
kind.

Invariant: whatever a user does, at most `2 * (MAX_KINDS_EACH + 1)` lines of calls without effect come of it from one
`WINDOW_S`, and `2 * MAX_KINDS + 1` of all users; and each change that took effect is in a line by its object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gosched.audit.record import AuditRecord, How, Outcome, encoded

WINDOW_S = 5.0
MAX_KINDS = 500
MAX_KINDS_EACH = 50  # of one user
BULK_S = 1.0
BULK_FREE = 20  # changes of one user that have a line each
BULK_BYTES = 1_400  # of the objects in one line: it takes a little more
MAX_USERS = 1_000  # that make changes within BULK_S and are counted

_Kind = tuple[object, ...]
_OTHERS: _Kind = ()


@dataclass(slots=True)
class _Window:
    ends_s: float
    #: The newest that is not in the log yet; None: there is none.
    last: AuditRecord | None
    count: int


class Repeats:
    """What had no effect in the last moment, by who did what and why it had none."""

    def __init__(self) -> None:
        self._windows: dict[_Kind, _Window] = {}
        self._of_user: Counter[str] = Counter()  # kinds that are open

    def take(self, record: AuditRecord, now_s: float) -> AuditRecord | None:
        """Return the record if it is to be written now; None: it was counted."""
        kind = self._kind_of(record)
        window = self._windows.get(kind)
        if window is None:
            counted = _is_of_others(kind)
            self._windows[kind] = _Window(now_s + WINDOW_S, record if counted else None, int(counted))
            self._of_user[record.user] += not counted
            return None if counted else record
        window.last = record
        window.count += 1
        return None

    def due(self, now_s: float, *, all_of_them: bool = False) -> list[AuditRecord]:
        """Return a record for each kind whose window has ended, and that came again."""
        ended = [kind for kind, window in self._windows.items() if all_of_them or window.ends_s <= now_s]
        found = []
        for kind in ended:
            window = self._windows.pop(kind)
            if not _is_of_others(kind):
                self._of_user[str(kind[0])] -= 1
            if window.last is not None:
                found.append(_summary(kind, window.last, window.count))
        self._of_user = +self._of_user
        return found

    @property
    def are_open(self) -> bool:
        return bool(self._windows)

    def _kind_of(self, record: AuditRecord) -> _Kind:
        kind: _Kind = (
            *(record.user, record.authenticated, record.address, record.action, record.code, record.reason),
            record.unchanged,
        )
        if kind in self._windows:
            return kind
        if self._of_user[record.user] >= MAX_KINDS_EACH:
            kind = (record.user, record.authenticated)
        return kind if kind in self._windows or len(self._windows) < MAX_KINDS else _OTHERS


@dataclass(slots=True)
class _Many:
    """Changes of one kind that wait for their line."""

    last: AuditRecord
    objects: dict[str, None]
    size: int
    count: int = 1

    def line(self) -> AuditRecord:
        return replace(self.last, object="; ".join(self.objects), count=self.count)


@dataclass(slots=True)
class _Changes:
    """What a user changes within one BULK_S."""

    ends_s: float
    count: int = 0
    waiting: dict[_Kind, _Many] = field(default_factory=dict)

    def lines(self) -> Iterator[AuditRecord]:
        """Yield what waits, once."""
        for many in self.waiting.values():
            yield many.line()
        self.waiting = {}


class Bulk:
    """What took effect in the last moment, by user."""

    def __init__(self) -> None:
        self._users: dict[str, _Changes] = {}

    def take(self, record: AuditRecord, now_s: float) -> list[AuditRecord]:
        """Return what is to be written now; what is not comes later, together with others."""
        changes = self._users.get(record.user)
        if changes is None or changes.ends_s <= now_s:
            before = [*changes.lines()] if changes is not None else []
            if changes is not None or len(self._users) < MAX_USERS:
                self._users[record.user] = _Changes(now_s + BULK_S, count=1)
            return [*before, record]
        changes.count += 1
        size = len(encoded(record.object))
        if changes.count <= BULK_FREE or size > BULK_BYTES:
            return [record]
        kind: _Kind = (record.authenticated, record.address, record.roles, record.action, record.code, record.reason)
        many = changes.waiting.get(kind)
        if many is None:
            full = [*changes.lines()] if len(changes.waiting) >= MAX_KINDS_EACH else []
            changes.waiting[kind] = _Many(record, {record.object: None}, size)
            return full
        if record.object not in many.objects and many.size + size > BULK_BYTES:
            changes.waiting[kind] = _Many(record, {record.object: None}, size)
            return [many.line()]
        many.size += size if record.object not in many.objects else 0
        many.objects[record.object] = None
        many.last = record
        many.count += 1
        return []

    def due(self, now_s: float, *, all_of_them: bool = False) -> list[AuditRecord]:
        """Return the lines of users whose moment has ended."""
        ended = [user for user, changes in self._users.items() if all_of_them or changes.ends_s <= now_s]
        return [line for user in ended for line in self._users.pop(user).lines()]

    @property
    def are_open(self) -> bool:
        return bool(self._users)


def _is_of_others(kind: _Kind) -> bool:
    """Return whether kinds that are not told apart are counted together under it."""
    return len(kind) <= 2


def _summary(kind: _Kind, last: AuditRecord, count: int) -> AuditRecord:
    if not _is_of_others(kind):
        return replace(last, count=count)
    whose, most = (f" of {last.user!a}", MAX_KINDS_EACH) if kind else ("", MAX_KINDS)
    return AuditRecord(
        time_ms=last.time_ms,
        master=last.master,
        user=last.user if kind else "",
        authenticated=last.authenticated if kind else How.UNKNOWN,
        action="AuditLog/Others",
        outcome=Outcome.REFUSED,
        code="",
        count=count,
        reason=f"over {most} kinds of calls{whose} had no effect within {WINDOW_S:.0f} s: these are not told apart",
    )
