"""The queue tree: guarantee, limit, fair share, what is held and what is wanted, by resource; and the tenants.

Invariant: all bars of one resource have the same scale, the whole cluster, so that queues can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gosched.api.status import QueueStatus, QuotaStatus, Status
from gosched.core.records.queue import QueueType
from gosched.core.sharing import guarantees
from gosched.master.web.bars import Bar, bar
from gosched.master.web.overview import leader_status
from gosched.master.web.page import Asked
from gosched.master.web.sources import Sources
from gosched.master.web.text import resource_order

DRAWN = ("gpu", "cpu", "memory")
MAX_TENANTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One resource of a queue."""

    name: str
    held: int
    wanted: int
    guaranteed: int
    #: None: there is none by the newest cycle, or no leader that would tell.
    fair_share: int | None
    #: None: it has no limit.
    limit: int | None
    drawing: Bar


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue."""

    path: str
    name: str
    #: How deep it is in the tree; 0: at the top.
    depth: int
    type: str
    weight: int
    pending: int
    running: int
    #: 0: any number.
    max_running: int
    #: By resource; of each one that the cluster has.
    uses: Mapping[str, Use]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """What the page of queues shows."""

    rows: tuple[QueueRow, ...]
    #: Resources of the cluster, and those with a column of bars.
    resources: tuple[str, ...]
    drawn: tuple[str, ...]
    #: The leader told the fair shares.
    shares_known: bool
    tenants: tuple[QuotaStatus, ...]
    more_tenants: int


async def queues_page(sources: Sources, asked: Asked) -> Queues:
    """Build the view."""
    status = await leader_status(sources, asked.caller)
    state = sources.state
    guaranteed = guarantees(state.queues, state.total)
    resources = tuple(resource_order(state.total))
    everywhere = asked.sees is None
    tenants = [
        one for one in sources.status.quotas() if everywhere or sources.access.is_in(asked.caller, one.quota.tenant)
    ]
    return Queues(
        rows=tuple(
            [
                _row(queue, resources, state.total, guaranteed.get(queue.path, {}))
                for queue in sorted(status.queues, key=lambda queue: queue.path.split("."))
            ]
        ),
        resources=resources,
        drawn=tuple([name for name in resources if name in DRAWN]),
        shares_known=_shares_known(status),
        tenants=tuple(tenants[:MAX_TENANTS]),
        more_tenants=max(0, len(tenants) - MAX_TENANTS),
    )


def _shares_known(status: Status) -> bool:
    return any(queue.fair_share for queue in status.queues)


def _row(
    queue: QueueStatus, resources: tuple[str, ...], total: Mapping[str, int], guaranteed: Mapping[str, int]
) -> QueueRow:
    return QueueRow(
        path=queue.path,
        name=queue.path.rpartition(".")[2],
        depth=queue.path.count("."),
        type=queue.type,
        weight=queue.rules.weight if queue.rules.type is not QueueType.FIFO else 0,
        pending=queue.pending,
        running=queue.running,
        max_running=queue.rules.max_running_jobs,
        uses={name: _use(queue, name, total[name], guaranteed.get(name, 0)) for name in resources},
    )


def _use(queue: QueueStatus, name: str, total: int, guaranteed: int) -> Use:
    held, wanted = dict(queue.used).get(name, 0), dict(queue.demand).get(name, 0)
    share, limit = dict(queue.fair_share).get(name), dict(queue.ceiling).get(name)
    marks = [("guarantee", guaranteed)] if guaranteed else []
    marks += [("share", share)] if share else []
    marks += [("limit", limit)] if limit is not None and limit < total else []
    return Use(
        name=name,
        held=held,
        wanted=wanted,
        guaranteed=guaranteed,
        fair_share=share,
        limit=limit,
        drawing=bar(total, ("wanted", held + wanted), ("held", held), marks=tuple(marks)),
    )
