"""The schedule: nodes over the next hours, with what runs, what is reserved, fences, windows, and what is estimated.

Many nodes are drawn by domain of the topology, as areas; a domain that is opened shows its nodes, with a bar for each
job.

Invariant: what is an estimate never looks like what is reserved or limited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from gosched.core.records.job import Job
from gosched.core.records.node import NodeState
from gosched.core.records.window import Window
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.turns import sliced
from gosched.master.web.holdings import NodeHoldings, read_holdings
from gosched.master.web.node_cells import NOWHERE
from gosched.master.web.page import Asked, Shows
from gosched.master.web.release_area import add_up, paths
from gosched.master.web.schedule_bars import Band, JobBar, bands, job_bars, promise_bars, row_height
from gosched.master.web.sources import Sources
from gosched.master.web.text import moment, percent, plural
from gosched.master.web.timeline import SPANS, Axis, axis

NODE_ROWS = 64  # nodes that are drawn one by one
MOST_DOMAINS = 400
PAST = 1 / 12  # of the span, before now
MAX_LISTED = 200
HELD = ("unknown", "limit", "estimate")


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaRow:
    """Many nodes as one picture."""

    name: str
    #: As the filter of the page takes it; empty: it cannot be opened.
    domain: str
    nodes: int
    unit: str
    #: (kind, outline).
    paths: tuple[tuple[str, str], ...]
    #: Thousandths of the capacity that take no work.
    closed: int
    windows: tuple[Band, ...]
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node."""

    id: str
    name: str
    state: NodeState
    height: float
    bars: tuple[JobBar, ...]
    promises: tuple[JobBar, ...]
    windows: tuple[Band, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A promise in words."""

    kind: str
    job_id: str
    name: str
    nodes: int
    tasks: int
    #: 0: now.
    start_ms: int
    #: 0: not known, or open.
    end_ms: int
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What the page of the schedule shows."""

    axis: Axis
    span: str
    levels: tuple[str, ...]
    domain: tuple[str, ...]
    #: In the domain, in the order of the topology, each with its place.
    nodes: tuple[tuple[tuple[str, ...], NodeHoldings], ...]
    windows: tuple[Window, ...]
    listed: tuple[Listed, ...]
    page: int

    @property
    def depth(self) -> int:
        """Return how many levels a row's domain has; 0: each row is a node."""
        if len(self.nodes) <= NODE_ROWS:
            return 0
        for depth in range(len(self.levels), len(self.domain), -1):
            if len({place[:depth] for place, _ in self.nodes}) <= MOST_DOMAINS:
                return depth
        return 0

    @property
    def last_page(self) -> int:
        return 1 if self.depth else max(1, -(-len(self.nodes) // NODE_ROWS))

    def totals(self) -> list[AreaRow]:
        """Return the pictures of all that is chosen: its GPUs and its CPUs."""
        held = [node for _, node in self.nodes]
        rows = [_area("GPUs", "", held, self.axis, self.windows, gpus=True)] if _has_gpus(held) else []
        return [*rows, _area("CPUs", "", held, self.axis, self.windows, gpus=False)] if held else []

    def areas(self) -> list[AreaRow]:
        """Return a picture for each domain."""
        rows, depth = [], self.depth
        for place, inside in groupby(self.nodes, key=lambda entry: entry[0][:depth]):
            held = [node for _, node in inside]
            rows.append(_area("/".join(place), "/".join(place), held, self.axis, self.windows, gpus=_has_gpus(held)))
        return rows

    def rows(self) -> list[NodeRow]:
        """Return the nodes of the page that is shown."""
        first = (min(self.page, self.last_page) - 1) * NODE_ROWS
        return [_node_row(held, self.axis, self.windows) for _, held in self.nodes[first : first + NODE_ROWS]]


async def schedule_page(sources: Sources, asked: Asked) -> Schedule:
    """Build the view."""
    state, now_ms = sources.state, sources.now_ms()
    span = asked.query.choice("span", tuple(SPANS), "6h")
    domain = tuple([part for part in asked.query.text("domain").split("/") if part])
    places = []
    async for node in sliced(list(state.nodes.values())):
        labels = dict(node.labels)
        place = tuple([labels.get(level, NOWHERE) for level in sources.topology])
        if place[: len(domain)] == domain:
            places.append((place, node))
    places.sort(key=lambda entry: (entry[0], entry[1].name, entry[1].id))
    held = await read_holdings(state, [node for _, node in places], now_ms, asked.shows)
    return Schedule(
        axis=axis(now_ms, span, past=PAST),
        span=span,
        levels=sources.topology,
        domain=domain,
        nodes=tuple([(place, node) for (place, _), node in zip(places, held, strict=True)]),
        windows=tuple(state.windows.values()),
        listed=tuple(list_promises(state, asked.shows)[:MAX_LISTED]),
        page=asked.query.number("page", 1, least=1, most=100_000),
    )


def list_promises(state: ClusterState, shows: Shows = lambda job: True) -> list[Listed]:
    """Return what is promised to jobs that `shows` shows, what begins first before the others."""
    found = [_window(window) for window in state.windows.values()]
    for fence in state.fences.values():
        job = state.jobs[fence.job_id]
        if not shows(job):
            continue
        left = state.fenced.awaited.get(job.id, 0)
        nodes = len({placement.node_id for placement in fence.tasks})
        note = f"when {plural(left, 'task')} of its victims have ended" + (
            f", by {moment(fence.by_ms)}" if fence.by_ms else ""
        )
        found.append(_listed("fence", job, nodes, len(fence.tasks), 0, 0, note))
    for reservation in state.reservations.values():
        if (waiting := state.jobs.get(reservation.job_id)) is not None and shows(waiting):
            tasks = sum(share.count for share in reservation.shares)
            nodes = len({share.node_id for share in reservation.shares})
            note = "to keep its deadline" if reservation.for_deadline else reservation.why
            found.append(
                _listed("reserved start", waiting, nodes, tasks, reservation.start_ms, reservation.end_ms, note)
            )
    return sorted(found, key=lambda listed: (listed.start_ms, listed.name))


def _listed(kind: str, job: Job, nodes: int, tasks: int, start_ms: int, end_ms: int, note: str) -> Listed:
    return Listed(
        kind=kind,
        job_id=job.id,
        name=job.spec.name,
        nodes=nodes,
        tasks=tasks,
        start_ms=start_ms,
        end_ms=end_ms,
        note=note,
    )


def _window(window: Window) -> Listed:
    users = ", ".join((*window.queues, *window.tenants))
    note = ": ".join([text for text in (f"for {users}" if users else "maintenance", window.reason) if text])
    return Listed(
        kind="window",
        job_id="",
        name=window.name,
        nodes=len(window.nodes),
        tasks=0,
        start_ms=window.start_ms,
        end_ms=window.end_ms,
        note=note,
    )


def _has_gpus(nodes: Sequence[NodeHoldings]) -> bool:
    return any(held.node.capacity.gpu_millis for held in nodes)


def _area(
    name: str, domain: str, nodes: Sequence[NodeHoldings], axis: Axis, windows: Sequence[Window], *, gpus: bool
) -> AreaRow:
    layers = add_up(nodes, axis, gpus=gpus)
    levels = [layers.levels(kind) for kind in HELD]
    now, later = sum(max(level) for level in levels), sum(level[-1] for level in levels)
    unit = "GPUs" if gpus else "CPUs"
    ids = {held.node.id for held in nodes}
    concerned = [window for window in windows if not ids.isdisjoint(window.nodes)]
    return AreaRow(
        name=name,
        domain=domain,
        nodes=len(nodes),
        unit=unit,
        paths=paths(layers),
        closed=1000 * layers.closed // layers.capacity if layers.capacity else 0,
        windows=tuple([band for window in concerned for band in bands([window], window.nodes[0], axis)]),
        summary=f"{percent(now, layers.capacity)} of the {unit} held now, {percent(later, layers.capacity)} at the end",
    )


def _node_row(held: NodeHoldings, axis: Axis, windows: Sequence[Window]) -> NodeRow:
    return NodeRow(
        id=held.node.id,
        name=held.node.name,
        state=held.node.state,
        height=row_height(held),
        bars=tuple(job_bars(held, axis)),
        promises=tuple(promise_bars(held, axis)),
        windows=tuple(bands([*windows], held.node.id, axis)),
    )
