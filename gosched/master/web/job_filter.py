"""What an address says of the jobs that a page shows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from gosched.config.errors import shown, suggestion
from gosched.config.moment import moment_ms
from gosched.config.quantity import duration_ms
from gosched.core.access import job_object
from gosched.core.records.job import Job, JobState
from gosched.master.base.access import Sees
from gosched.master.web.query import Query

#: The states in the order in which they are listed.
LISTED = (
    JobState.PENDING,
    JobState.RUNNING,
    JobState.SUSPENDED,
    JobState.FAILED,
    JobState.CANCELLED,
    JobState.SUCCEEDED,
)
#: Sorts by their names in the address; the first is the usual one.
SORTS = ("waiting", "newest", "oldest", "name", "priority")

_STEP_MS = 10_000  # `since` as a duration moves in such steps, so that an order can be used again


class BadFilter(ValueError):
    """A part of an address that says nothing; its text is for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs are shown, and in which order."""

    #: As people see them; empty: all.
    states: tuple[JobState, ...] = ()
    #: This queue, and those below it; empty: all.
    queue: str = ""
    tenant: str = ""
    user: str = ""
    #: Part of the name, in any case, or an id.
    name: str = ""
    #: Pairs that a job must have; an empty value: the key alone.
    labels: tuple[tuple[str, str], ...] = ()
    #: Submitted or ended then or later; 0: all.
    since_ms: int = 0
    #: `since_ms` as it was written.
    since: str = ""
    #: Id of an array or a schedule: its children; empty: all.
    parent: str = ""
    sort: str = SORTS[0]
    #: Names what the caller sees, where that is not all.
    viewer: Hashable = None
    sees: Sees | None = field(default=None, compare=False)

    @property
    def label_text(self) -> str:
        return ",".join([f"{key}={value}" if value else key for key, value in self.labels])

    @property
    def narrows(self) -> bool:
        """Return whether it hides jobs, states aside."""
        parts = (self.labels, self.since_ms, self.queue, self.tenant, self.user, self.name, self.parent)
        return self.sees is not None or any(parts)

    def shows(self, job: Job) -> bool:
        """Return whether it shows the job, states aside."""
        spec = job.spec
        if self.sees is not None and not self.sees(job_object(job)):
            return False
        if self.queue and spec.queue != self.queue and not spec.queue.startswith(f"{self.queue}."):
            return False
        if (self.tenant and spec.tenant != self.tenant) or (self.user and job.user != self.user):
            return False
        if self.name and self.name.lower() not in spec.name.lower() and self.name != job.id:
            return False
        if (self.parent and job.parent != self.parent) or max(job.submitted_at_ms, job.ended_at_ms) < self.since_ms:
            return False
        return not self.labels or _has_labels(dict(spec.labels), self.labels)


def read_filter(query: Query, now_ms: int) -> JobFilter:
    """Read a filter from the query of an address. Raises BadFilter."""
    sort = query.text("sort") or SORTS[0]
    if sort not in SORTS:
        raise BadFilter(f"sort: expected one of {', '.join(SORTS)}, got {shown(sort)}{suggestion(sort, SORTS)}")
    return JobFilter(
        states=_states(query.text("state")),
        queue=query.text("queue"),
        tenant=query.text("tenant"),
        user=query.text("user"),
        name=query.text("name"),
        labels=_labels(query.text("label")),
        since_ms=_since_ms(query.text("since"), now_ms),
        since=query.text("since"),
        parent=query.text("parent"),
        sort=sort,
    )


def _states(text: str) -> tuple[JobState, ...]:
    names = {state.name.lower(): state for state in LISTED}
    found = []
    for word in [word.strip().lower() for word in text.split(",") if word.strip()]:
        if word not in names:
            raise BadFilter(f"state: expected {', '.join(names)}, got {shown(word)}{suggestion(word, names)}")
        found.append(names[word])
    return tuple([state for state in LISTED if state in found])


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [word.strip().partition("=") for word in text.split(",") if word.strip()]
    if any(not key for key, _, _ in pairs):
        raise BadFilter(f"label: expected pairs such as team=nlp, or a key, got {shown(text)}")
    return tuple([(key, value) for key, _, value in pairs])


def _since_ms(text: str, now_ms: int) -> int:
    if not text:
        return 0
    for read in (moment_ms, duration_ms):
        try:
            found = read(text)
        except ValueError:
            continue
        return max(1, found if read is moment_ms else (now_ms - found) // _STEP_MS * _STEP_MS)
    raise BadFilter(f"since: expected 30m, 2h, 7d or a moment such as 2026-12-01T06:00:00Z, got {shown(text)}")


def _has_labels(labels: Mapping[str, str], wanted: Sequence[tuple[str, str]]) -> bool:
    return all(key in labels and (not value or labels[key] == value) for key, value in wanted)
