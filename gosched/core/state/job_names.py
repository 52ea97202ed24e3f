"""Jobs by their names. Of the jobs that share a name the newest is found."""

from __future__ import annotations

from gosched.core.records.job import Job


class JobNames:
    """Which jobs have a name."""

    def __init__(self) -> None:
        #: Name -> id of the newest job that has it.
        self.newest: dict[str, str] = {}
        self._older: dict[str, dict[str, None]] = {}  # by name, then by id in order of sequence

    def id_of(self, name: str) -> str:
        """Return the id of the newest job of the name; empty: there is none."""
        return self.newest.get(name, "")

    def put(self, job: Job, newest: Job | None) -> None:
        """Add a job. `newest`: the one that `id_of` gave for its name."""
        if newest is None or newest.sequence < job.sequence:
            self.newest[job.spec.name] = job.id
            if newest is not None:
                self._older.setdefault(job.spec.name, {})[newest.id] = None

    def drop(self, job: Job) -> None:
        """Forget a job; the one before it is the newest then."""
        name = job.spec.name
        older = self._older.get(name, {})
        if self.newest.get(name) != job.id:
            older.pop(job.id, None)
        elif older:
            self.newest[name], _ = older.popitem()
        else:
            del self.newest[name]
        if name in self._older and not older:
            del self._older[name]
