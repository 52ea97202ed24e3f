"""The sharing tree and the quotas, as they are written: nested queues become records with paths.

Rule kept: what is refused here is what the masters would refuse, but with its place in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from gosched.config.tree import Path
from gosched.config.validation import Millis, Model, Name, problem_at
from gosched.config.vector import Vector
from gosched.core.limits import (
    MAX_DURATION_MS,
    MAX_LIVE_JOBS,
    MAX_NAME_LENGTH,
    MAX_QUEUES,
    MAX_TENANTS,
    MAX_TENANTS_PER_QUEUE,
)
from gosched.core.records.queue import Queue, QueueOrder, QueueType
from gosched.core.records.tenant import Quota
from gosched.core.sharing import add_to
from gosched.core.spec.policies import PreemptionPolicy

MAX_WEIGHT = 1_000_000
DEFAULT_QUEUE = "default"

_MINUTE_MS = 60_000


def _half_life(millis: int) -> int:
    if not _MINUTE_MS <= millis <= MAX_DURATION_MS:
        raise ValueError("expected a minute to 366 days")
    return millis


JobCount = Annotated[int, Field(ge=1, le=MAX_LIVE_JOBS)]
HalfLife = Annotated[Millis, AfterValidator(_half_life)]


class QueueConfig(Model):
    """`max_running_jobs` None, `half_life_ms` None, `tenants` empty: no such rule. `preemption` None: the parent's."""

    name: Name
    type: Literal["fifo", "fair", "capacity"] = "fifo"
    weight: int = Field(default=1, ge=1, le=MAX_WEIGHT)
    capacity_pct: int = Field(default=0, ge=0, le=100)
    max_pct: int = Field(default=100, ge=1, le=100)
    guaranteed: Vector = ()
    limit: Vector = ()
    order: Literal["fifo", "priority", "fair", "deadline"] | None = None
    max_running_jobs: JobCount | None = None
    tenants: Annotated[tuple[Name, ...], Field(max_length=MAX_TENANTS_PER_QUEUE)] = ()
    half_life_ms: HalfLife | None = Field(default=None, alias="half_life")
    preemption: Literal["never", "lower_priority", "observe_only"] | None = None
    children: tuple[QueueConfig, ...] = ()

    @model_validator(mode="after")
    def _is_sound(self) -> QueueConfig:
        given = self.model_fields_set
        if "." in self.name:
            raise problem_at(("name",), "has a dot: a queue below another one stands among its children")
        if "weight" in given and self.type == "fifo":
            raise ValueError("weight is for queues of type fair or capacity; this one is fifo")
        if self.type != "capacity" and {"capacity_pct", "max_pct"} & given:
            raise ValueError(f"capacity_pct and max_pct are for queues of type capacity; this one is {self.type}")
        if self.type != "capacity" and self.guaranteed:
            raise ValueError(f"guaranteed is for queues of type capacity; this one is {self.type}")
        if self.max_pct < self.capacity_pct:
            raise ValueError(f"max_pct {self.max_pct} is below capacity_pct {self.capacity_pct}")
        limit = dict(self.limit)
        for resource, amount in self.guaranteed:
            if amount > limit.get(resource, amount):
                raise problem_at(("guaranteed", resource), "is more than the queue's limit of it")
        check_distinct(self.tenants, ("tenants",), "tenant")
        check_siblings(self.children, ("children",))
        self._check_guarantees()
        return self

    def _check_guarantees(self) -> None:
        promised: dict[str, int] = {}
        for child in self.children:
            add_to(promised, dict(child.guaranteed))
        for resource, amount in self.guaranteed:
            if promised.get(resource, 0) > amount:
                raise problem_at(("guaranteed", resource), "is less than what its children are guaranteed together")

    def records(self, parent: str = "") -> Iterator[Queue]:
        """Itself, then all below it."""
        path = f"{parent}.{self.name}" if parent else self.name
        yield Queue(
            path=path,
            type=QueueType[self.type.upper()],
            weight=self.weight,
            capacity_pct=self.capacity_pct,
            max_pct=self.max_pct,
            guaranteed=tuple([pair for pair in self.guaranteed if pair[1]]),
            limit=self.limit,
            order=QueueOrder[(self.order or "unspecified").upper()],
            max_running_jobs=self.max_running_jobs or 0,
            tenants=tuple(sorted(self.tenants)),
            half_life_ms=self.half_life_ms or 0,
            preemption=PreemptionPolicy[(self.preemption or "unspecified").upper()],
        )
        for child in self.children:
            yield from child.records(path)


class QuotaConfig(Model):
    tenant: Name
    limit: Vector = ()
    max_running_jobs: JobCount | None = None

    def record(self) -> Quota:
        return Quota(tenant=self.tenant, limit=self.limit, max_running_jobs=self.max_running_jobs or 0)


def check_siblings(queues: Sequence[QueueConfig], at: Path) -> None:
    """Raises what a validator raises."""
    check_distinct([queue.name for queue in queues], at, "queue", "name")
    promised = sum(queue.capacity_pct for queue in queues)
    if promised > 100:
        raise problem_at(at, f"their capacity_pct add up to {promised}; at most 100 among queues side by side")


def queue_tree(queues: Sequence[QueueConfig]) -> tuple[Queue, ...]:
    """Parents before their children; with a `default` queue, named in the config or not."""
    records = [record for queue in queues for record in queue.records()]
    if all(record.path != DEFAULT_QUEUE for record in records):
        records.append(Queue(path=DEFAULT_QUEUE))
    return tuple(records)


def check_tree(queues: Sequence[QueueConfig], at: Path) -> None:
    """The tree as a whole. Raises what a validator raises."""
    check_siblings(queues, at)
    records = queue_tree(queues)
    if len(records) > MAX_QUEUES:
        raise problem_at(at, f"{len(records)} queues, with the default queue; at most {MAX_QUEUES}")
    longest = max((record.path for record in records), key=len)
    if len(longest) > MAX_NAME_LENGTH:
        raise problem_at(at, f"the path {longest[:60]}... is {len(longest)} characters long; at most {MAX_NAME_LENGTH}")


def check_quotas(quotas: Sequence[QuotaConfig], at: Path) -> None:
    """Raises what a validator raises."""
    check_distinct([quota.tenant for quota in quotas], at, "quota of tenant", "tenant")
    if len(quotas) > MAX_TENANTS:
        raise problem_at(at, f"{len(quotas)} quotas; at most {MAX_TENANTS}")


def check_distinct(names: Sequence[str], at: Path, what: str, *key: str) -> None:
    """Raises what a validator raises, at the second of two equal names."""
    seen: set[str] = set()
    for place, name in enumerate(names):
        if name in seen:
            raise problem_at((*at, place, *key), f'there is a {what} "{name}" already')
        seen.add(name)
