"""Calls that fail again and again: one record for the first, and one with the count for those that follow.

Invariant: whatever callers do, at most `2 * MAX_KINDS + 1` records of failed calls come from one `WINDOW_S`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gosched.audit.record import AuditRecord, How, Outcome

WINDOW_S = 5.0
MAX_KINDS = 500

_Kind = tuple[str, ...]
_OTHERS: _Kind = ()


@dataclass(slots=True)
class _Window:
    ends_s: float
    #: The newest that is not in the log yet; None: there is none.
    last: AuditRecord | None
    count: int


class Repeats:
    """What failed in the last moment, by who did what and why it failed."""

    def __init__(self) -> None:
        self._windows: dict[_Kind, _Window] = {}

    def take(self, record: AuditRecord, now_s: float) -> AuditRecord | None:
        """Return the record if it is to be written now; None: it was counted."""
        kind: _Kind = (record.user, record.authenticated, record.address, record.action, record.code, record.reason)
        if kind not in self._windows and len(self._windows) >= MAX_KINDS:
            kind = _OTHERS
        window = self._windows.get(kind)
        if window is None:
            counted = kind is _OTHERS
            self._windows[kind] = _Window(now_s + WINDOW_S, record if counted else None, int(counted))
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
            if window.last is not None:
                found.append(_summary(kind, window.last, window.count))
        return found

    @property
    def are_open(self) -> bool:
        return bool(self._windows)


def _summary(kind: _Kind, last: AuditRecord, count: int) -> AuditRecord:
    if kind is not _OTHERS:
        return replace(last, count=count)
    return AuditRecord(
        time_ms=last.time_ms,
        master=last.master,
        authenticated=How.UNKNOWN,
        action="AuditLog/Others",
        outcome=Outcome.REFUSED,
        code="",
        count=count,
        reason=f"more than {MAX_KINDS} kinds of calls failed within {WINDOW_S:.0f} s: these are not told apart",
    )
