"""Jobs by their names. A name is its tenant's own: of the jobs of one tenant that share it the newest is found.

Who names a job from outside of its tenant writes `TENANT/NAME`; neither part may hold a slash. A line about one job
calls another one by its name alone only where whoever sees the one sees the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gosched.core.records.job import Job

MAX_NAMED = 5  # jobs, in a line that asks which one is meant


class JobNames:
    """Which jobs have a name. `jobs`: all jobs, by id."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = jobs
        #: Name -> id of the newest job that has it; where jobs of several tenants have it, by tenant.
        self.newest: dict[str, str | dict[str, str]] = {}
        self._older: dict[tuple[str, str], dict[str, None]] = {}  # by tenant and name, then by id in order of sequence

    def id_of(self, tenant: str, name: str) -> str:
        """Return the id of the newest job of the name in a tenant; empty: there is none."""
        found = self.newest.get(name, "")
        if isinstance(found, dict):
            return found.get(tenant, "")
        return found if found and self._jobs[found].spec.tenant == tenant else ""

    def ids_of(self, name: str) -> list[str]:
        """Return the ids of the newest job of each tenant that has jobs of the name."""
        found = self.newest.get(name)
        if found is None:
            return []
        return [*found.values()] if isinstance(found, dict) else [found]

    def namesakes(self, tenant: str, name: str) -> Iterator[str]:
        """Yield the ids of all jobs of the name in a tenant, the newest first."""
        if newest := self.id_of(tenant, name):
            yield newest
            yield from reversed(self._older.get((tenant, name), {}))

    def put(self, job: Job) -> None:
        """Add one of the jobs."""
        tenant, name = job.spec.tenant, job.spec.name
        before = self.id_of(tenant, name)
        if before and self._jobs[before].sequence > job.sequence:
            return
        if before:
            self._older.setdefault((tenant, name), {})[before] = None
        found = self.newest.get(name)
        if isinstance(found, dict):
            found[tenant] = job.id
        elif found is None or found == before:
            self.newest[name] = job.id
        else:
            self.newest[name] = {self._jobs[found].spec.tenant: found, tenant: job.id}

    def drop(self, job: Job) -> None:
        """Forget a job that is no more among the jobs; the one before it is its tenant's newest then."""
        tenant, name = job.spec.tenant, job.spec.name
        older = self._older.get((tenant, name), {})
        found = self.newest.get(name)
        if job.id not in (found, found.get(tenant) if isinstance(found, dict) else found):
            older.pop(job.id, None)
        else:
            self._replace(tenant, name, older.popitem()[0] if older else "")
        if not older:
            self._older.pop((tenant, name), None)

    def _replace(self, tenant: str, name: str, newest: str) -> None:
        """Put another job in the place of a tenant's newest one; empty: there is none any more."""
        found = self.newest[name]
        if isinstance(found, dict) and newest:
            found[tenant] = newest
        elif isinstance(found, dict):
            del found[tenant]
            if len(found) == 1:
                (self.newest[name],) = found.values()
        elif newest:
            self.newest[name] = newest
        else:
            del self.newest[name]


def meant(jobs: Iterable[Job]) -> list[Job]:
    """Return which of the jobs that a name may mean it means: those that live, else the newest."""
    found = sorted(jobs, key=lambda job: job.sequence)
    return [job for job in found if not job.state.is_final] or found[-1:]


def which_one(name: str, jobs: Sequence[Job]) -> str:
    """Return the refusal of a name that means several jobs."""
    full = sorted(full_name(job) for job in jobs)
    more = f" or {len(full) - MAX_NAMED} more" if len(full) > MAX_NAMED else ""
    return f"{len(jobs)} live jobs are named {name}: say which one, {' or '.join(full[:MAX_NAMED])}{more}"


def full_name(job: Job) -> str:
    """Return the name by which users of other tenants reach a job."""
    return f"{job.spec.tenant}/{job.spec.name}"


def name_beside(name: str, job_id: str, its: tuple[str, str], to: tuple[str, str]) -> str:
    """Return what a line about a job calls another one. `its`, `to`: tenant and queue of the other one, and of the one
    that the line is about; the id lets readers of the line lose the name that may not see its job."""
    return name if its == to else f"{its[0]}/{name} ({job_id})"
