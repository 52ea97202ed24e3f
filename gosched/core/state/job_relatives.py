"""Which jobs wait for which, and whose children they are; both in order of sequence, also after a restore."""

from __future__ import annotations

from gosched.core.records.job import Job


class JobRelatives:
    """Links between jobs."""

    def __init__(self) -> None:
        #: Job -> the jobs that wait for its end.
        self.dependents: dict[str, dict[str, None]] = {}
        #: Array or schedule -> its children that have not ended.
        self.children: dict[str, dict[str, None]] = {}

    def put(self, before: Job | None, job: Job) -> None:
        """Link a job in the place of the one before."""
        waits_for = () if job.state.is_final else job.waits_for
        for dependency in before.waits_for if before is not None and before.waits_for != waits_for else ():
            waiting = self.dependents.get(dependency.job, {})
            if not any(wanted.job == dependency.job for wanted in waits_for):
                waiting.pop(job.id, None)
            if not waiting:
                self.dependents.pop(dependency.job, None)
        for dependency in waits_for:
            self.dependents.setdefault(dependency.job, {})[job.id] = None
        if job.parent and not job.state.is_final:
            self.children.setdefault(job.parent, {})[job.id] = None
        elif job.parent and job.parent in self.children:
            self.children[job.parent].pop(job.id, None)
            if not self.children[job.parent]:
                del self.children[job.parent]

    def drop(self, job_id: str) -> None:
        """Forget a job that has ended."""
        self.dependents.pop(job_id, None)
