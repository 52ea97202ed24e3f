"""The sharing tree and the quotas, as they are written: nested queues become records with paths.

Invariant: what is accepted here passes the state machine's own checks, and what those find is said with its place in
the file. What is checked here is the form alone: types, units, keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gosched.config.tree import Path
from gosched.config.validation import Int32, Millis, Model, Word, problem_at
from gosched.config.vector import Vector
from gosched.core.records.queue import Queue, QueueOrder, QueueType
from gosched.core.records.tenant import Quota
from gosched.core.rules.queues import check_queues, check_queues_size
from gosched.core.rules.quotas import check_quota_count, check_quotas, check_quotas_size, is_no_quota
from gosched.core.spec.policies import PreemptionPolicy

DEFAULT_QUEUE = "default"

JobCount = Annotated[Int32, Field(ge=1)]  # 0 stands for no limit in a record, and leaving the key out in a file


class QueueConfig(Model):
    """A queue and those below it, as they are nested in the file."""

    name: Word
    type: Literal["fifo", "fair", "capacity"] = "fifo"
    weight: Int32 = 1
    capacity_pct: Int32 = 0
    max_pct: Int32 = 100
    guaranteed: Vector = ()
    limit: Vector = ()
    #: None: as the cluster orders jobs.
    order: Literal["fifo", "priority", "fair", "deadline"] | None = None
    #: None: any number.
    max_running_jobs: JobCount | None = None
    #: The tenants that may use the queue; empty: all.
    tenants: tuple[Word, ...] = ()
    #: None: usage is not remembered.
    half_life_ms: Millis | None = Field(default=None, alias="half_life")
    #: None: as the parent's.
    preemption: Literal["never", "lower_priority", "observe_only"] | None = None
    children: tuple[QueueConfig, ...] = ()

    @model_validator(mode="after")
    def _has_a_name_and_tenants(self) -> QueueConfig:
        if "." in self.name:
            raise problem_at(("name",), "has a dot: a queue below another one stands among its children")
        check_distinct(self.tenants, ("tenants",), "tenant")
        return self

    def records(self, parent: str = "") -> Iterator[Queue]:
        """Yield the queue, then all queues below it."""
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
    tenant: Word
    limit: Vector = ()
    max_running_jobs: JobCount | None = None

    def record(self) -> Quota:
        return Quota(tenant=self.tenant, limit=self.limit, max_running_jobs=self.max_running_jobs or 0)


def queue_tree(queues: Sequence[QueueConfig]) -> tuple[Queue, ...]:
    """Return parents before their children, with a `default` queue, named in the config or not."""
    records = [record for queue in queues for record in queue.records()]
    if all(record.path != DEFAULT_QUEUE for record in records):
        records.append(Queue(path=DEFAULT_QUEUE))
    return tuple(records)


def check_tree(queues: Sequence[QueueConfig], at: Path) -> None:
    """Judge the tree by the state machine's own check. Raise what a validator raises."""
    records = queue_tree(queues)
    found = check_queues(records) or check_queues_size(records)
    if found:
        place, *rest = found.path or (len(records),)
        places = [*_places(queues, at)]
        inner = (*places[place], *rest) if isinstance(place, int) and place < len(places) else at
        raise problem_at(inner, found.words)


def check_quota_list(quotas: Sequence[QuotaConfig], at: Path) -> None:
    """Judge the quotas by the state machine's own checks. Raise what a validator raises."""
    records = [quota.record() for quota in quotas]
    there = [quota for quota in records if not is_no_quota(quota)]
    found = check_quotas(records) or check_quota_count(len(there)) or check_quotas_size(there)
    if found:
        raise problem_at((*at, *found.path), found.words)


def _places(queues: Sequence[QueueConfig], at: Path) -> Iterator[Path]:
    """Yield where each queue is written, in the order of the records."""
    for place, queue in enumerate(queues):
        yield (*at, place)
        yield from _places(queue.children, (*at, place, "children"))


def check_distinct(names: Sequence[str], at: Path, what: str, *key: str) -> None:
    """Raise what a validator raises, at the second of two equal names."""
    seen: set[str] = set()
    for place, name in enumerate(names):
        if name in seen:
            raise problem_at((*at, place, *key), f'there is a {what} "{name}" already')
        seen.add(name)
