"""How many bytes the replicated state holds, in integers: more than in a snapshot, less than in memory (ADR 0039).

The parts of specs that can be large (task groups, labels, arrays, dependencies) are kept once, however many jobs have
them: equal ones are one record in memory, one in a snapshot, and are charged once to each tenant that uses them, once
for its live jobs and once for those that are kept.

Invariant: the figures follow from the tables alone, so a restored state has the same.
"""

from __future__ import annotations

from gosched.core.digest import record_digest
from gosched.core.records.job import Job
from gosched.core.records.task import Task
from gosched.core.replace import replace
from gosched.core.spec.job_spec import JobSpec
from gosched.core.state.record_bytes import (
    JOB_BYTES,
    TASK_BYTES,
    TASK_IDS,
    changing_bytes,
    content_bytes,
    job_bytes,
    task_bytes,
    text_bytes,
)
from gosched.core.state.spec_parts import P, PartValue, parts_of, with_parts


class Footprint:
    """The bytes of one state, by what holds them."""

    def __init__(self) -> None:
        #: Bytes of the jobs that have not ended, with their tasks, fences and reservations.
        self.live = 0
        #: Bytes of the jobs that have ended, with their tasks.
        self.kept = 0
        #: Bytes of the other tables, by their names.
        self.tables: dict[str, int] = {}
        #: Bytes of the requests that are remembered, by the users who asked; no zeros.
        self.answered: dict[str, int] = {}
        self._parts: dict[PartValue, _Part] = {}
        self._by_id: dict[int, _Part] = {}  # by the identity of the part, which lives as long as it is here
        self._holders: dict[str, _Holder] = {}  # by job
        self._ledgers: dict[tuple[str, bool], _Ledger] = {}  # by tenant, and whether its jobs have ended
        self._records: dict[tuple[str, str], int] = {}  # by table and key

    @property
    def total(self) -> int:
        return self.live + self.kept + sum(self.tables.values())

    def by_kind(self) -> dict[str, int]:
        """Return the total, divided."""
        return {"live_jobs": self.live, "kept_jobs": self.kept, **self.tables}

    def live_of(self, tenant: str) -> int:
        """Return what the tenant's live jobs take."""
        return self._bytes_of(tenant, False)

    def kept_of(self, tenant: str) -> int:
        """Return what the tenant's ended jobs take."""
        return self._bytes_of(tenant, True)

    def tenants_with_kept(self) -> list[str]:
        """Return the tenants that have ended jobs."""
        return [tenant for tenant, has_ended in self._ledgers if has_ended]

    def needed(self, job_id: str, spec: JobSpec) -> int:
        """Return by how much `live` would grow with a new job, while its tasks wait."""
        ledger = self._ledgers.get((spec.tenant, False))
        size = 0
        for value in parts_of(spec):
            part = self._part(value)
            if part is None or ledger is None or part not in ledger.parts:
                size += part.bytes if part is not None else content_bytes(value)
        for group in () if spec.is_parent else spec.groups:
            size += group.count * (TASK_BYTES + TASK_IDS * text_bytes(f"{job_id}/{group.name}/{group.count}"))
        names = (job_id, job_id, job_id, spec.name, spec.queue, spec.tenant, spec.cron, spec.timezone)
        return size + JOB_BYTES + text_bytes("".join(names)) + content_bytes(spec.after)

    def part_digests(self, job_id: str) -> list[int]:
        """Return the digests of the parts of a job's spec, in their order."""
        return [part.digest() for part in self._holders[job_id].parts]

    def shared(self, spec: JobSpec) -> JobSpec:
        """Return an equal spec with those parts that the state has already."""
        return with_parts(spec, self._canonical)

    def put_job(self, before: Job | None, job: Job) -> Job:
        """Return the job with its spec's parts shared, and charge for it in the place of the one before."""
        holder = self._holders.get(job.id)
        if before is not None and holder is not None and before.spec is job.spec:
            if holder.ledger.has_ended is job.state.is_final:
                if _story(before) != _story(job):
                    self.charge(job.id, changing_bytes(job) - changing_bytes(before))
                return job
            size = holder.bytes + changing_bytes(job) - changing_bytes(before)
        else:
            spec = self.shared(job.spec)
            job = job if spec is job.spec else replace(job, spec=spec)
            size = job_bytes(job)
            if before is not None and holder is not None:
                size += holder.bytes - job_bytes(before)
        parts = tuple([self._held(value) for value in parts_of(job.spec)])
        if holder is not None:
            self.drop_job(job.id)
        ledger = self._ledgers.setdefault((job.spec.tenant, job.state.is_final), _Ledger(job))
        self._holders[job.id] = _Holder(ledger, size, parts)
        self._count(ledger, size + sum([part.bytes for part in parts if ledger.add(part)]))
        return job

    def drop_job(self, job_id: str) -> None:
        """Release all that was charged to the job."""
        holder = self._holders.pop(job_id)
        ledger = holder.ledger
        self._count(ledger, -holder.bytes - sum([part.bytes for part in holder.parts if ledger.remove(part)]))
        for part in holder.parts:
            part.users -= 1
            if not part.users:
                del self._parts[part.value], self._by_id[id(part.value)]
        if not ledger.parts and not ledger.bytes:
            del self._ledgers[ledger.tenant, ledger.has_ended]

    def put_task(self, before: Task | None, task: Task) -> None:
        """Charge the task's job for it in the place of the one before."""
        if before is None:
            self.charge(task.job_id, task_bytes(task))
        elif _task_story(before) != _task_story(task):
            self.charge(task.job_id, task_bytes(task) - task_bytes(before))

    def charge(self, job_id: str, size: int) -> None:
        """Charge a job for something of its own; below 0: release it."""
        holder = self._holders.get(job_id)
        if holder is not None:
            holder.bytes += size
            self._count(holder.ledger, size)

    def put_record(self, table: str, key: str, size: int) -> None:
        """Charge for a record of another table; 0: it is gone."""
        change = size - self._records.pop((table, key), 0)
        if size:
            self._records[table, key] = size
        self.add(table, change)

    def add(self, table: str, size: int) -> None:
        """Change what another table takes."""
        self.tables[table] = self.tables.get(table, 0) + size

    def add_answered(self, user: str, size: int) -> None:
        """Change what the remembered requests of a user take."""
        self.add("answered", size)
        held = self.answered.pop(user, 0) + size
        if held:
            self.answered[user] = held

    def _bytes_of(self, tenant: str, has_ended: bool) -> int:
        ledger = self._ledgers.get((tenant, has_ended))
        return ledger.bytes if ledger is not None else 0

    def _count(self, ledger: _Ledger, size: int) -> None:
        ledger.bytes += size
        if ledger.has_ended:
            self.kept += size
        else:
            self.live += size

    def _part(self, value: PartValue) -> _Part | None:
        return self._by_id.get(id(value)) or self._parts.get(value)

    def _canonical(self, value: P) -> P:
        part = self._part(value)
        return value if part is None else part.value  # type: ignore[return-value] # what is equal is of one type

    def _held(self, value: PartValue) -> _Part:
        """Return the part, with one user more."""
        part = self._part(value)
        if part is None:
            part = self._parts[value] = self._by_id[id(value)] = _Part(value)
        part.users += 1
        return part


class _Part:
    __slots__ = ("_digest", "bytes", "users", "value")

    def __init__(self, value: PartValue) -> None:
        self.value = value
        self.bytes = content_bytes(value)
        self.users = 0
        self._digest: int | None = None  # made when it is first asked for

    def digest(self) -> int:
        if self._digest is None:
            self._digest = record_digest("part", "", self.value)
        return self._digest


class _Ledger:
    """What the live or the ended jobs of a tenant take. `parts`: with the number of its jobs that have them."""

    __slots__ = ("bytes", "has_ended", "parts", "tenant")

    def __init__(self, job: Job) -> None:
        self.tenant = job.spec.tenant
        self.has_ended = job.state.is_final
        self.bytes = 0
        self.parts: dict[_Part, int] = {}

    def add(self, part: _Part) -> bool:
        """Return whether it is new here."""
        count = self.parts[part] = self.parts.get(part, 0) + 1
        return count == 1

    def remove(self, part: _Part) -> bool:
        """Return whether that was its last use here."""
        count = self.parts.pop(part) - 1
        if count:
            self.parts[part] = count
        return not count


class _Holder:
    """What a job is charged for: `bytes` of its own, and parts."""

    __slots__ = ("bytes", "ledger", "parts")

    def __init__(self, ledger: _Ledger, size: int, parts: tuple[_Part, ...]) -> None:
        self.ledger = ledger
        self.bytes = size
        self.parts = parts


def _story(job: Job) -> tuple[object, ...]:
    """Return what of a job's size changes while it lives."""
    return job.reason, job.detail, job.waits_for, job.evicted_for


def _task_story(task: Task) -> tuple[object, ...]:
    return task.reason, task.detail, task.gpus, task.cpus
