"""All nodes: the picture by topology, and a list with filters in the address bar."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gosched.core.records.node import NodeState
from gosched.master.web.bars import Bar, bar
from gosched.master.web.heatmap import HeatSection, gpu_runs, heat_sections
from gosched.master.web.node_cells import NodeCell, read_cells
from gosched.master.web.page import Asked
from gosched.master.web.query import Query
from gosched.master.web.sources import Sources
from gosched.master.web.usage import node_uses

ROWS = 50
STATES = tuple(state.name for state in NodeState if state)
SHOW = {"faulty": "with faulty GPUs", "lax": "without full isolation", "idle": "without tasks"}
_SORTS: dict[str, Callable[[NodeCell], float]] = {
    "free-gpus": lambda cell: cell.gpus_held - cell.gpus,
    "cpu": lambda cell: -(cell.held.cpu_millis / (cell.capacity.cpu_millis or 1)),
    "tasks": lambda cell: -cell.tasks,
}
SORTS = {"free-gpus": "most free GPUs", "cpu": "most CPUs held", "tasks": "most tasks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node in the list."""

    cell: NodeCell
    gpu_runs: tuple[tuple[str, int, int], ...]
    cpus: Bar
    memory: Bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """What the page of nodes shows."""

    cells: tuple[NodeCell, ...]
    #: Of the cluster, by state.
    counts: dict[str, int]
    total: int
    levels: tuple[str, ...]
    #: The domain that is shown, the widest level first; empty: all.
    domain: tuple[str, ...]
    page: int
    sort: str
    measured: bool

    @property
    def last_page(self) -> int:
        return max(1, -(-len(self.cells) // ROWS))

    def sections(self) -> list[HeatSection]:
        """Return the picture."""
        return heat_sections(self.cells)

    def rows(self) -> list[NodeRow]:
        """Return the list's part that is shown."""
        cells: Sequence[NodeCell] = self.cells
        if self.sort in _SORTS:
            cells = sorted(cells, key=_SORTS[self.sort])
        first = (min(self.page, self.last_page) - 1) * ROWS
        return [_row(cell) for cell in cells[first : first + ROWS]]


async def nodes_page(sources: Sources, asked: Asked) -> Nodes:
    """Build the view."""
    uses = await node_uses(sources, asked.caller)
    cells = await read_cells(sources.state, sources.topology, uses)
    await asyncio.sleep(0)
    counts = dict.fromkeys(STATES, 0)
    for cell in cells:
        counts[cell.state.name] = counts.get(cell.state.name, 0) + 1
    await asyncio.sleep(0)
    domain = tuple([part for part in asked.query.text("domain").split("/") if part])
    return Nodes(
        cells=tuple(_filtered(cells, asked.query, domain)),
        counts=counts,
        total=len(cells),
        levels=sources.topology,
        domain=domain,
        page=asked.query.number("page", 1, least=1, most=1_000_000),
        sort=asked.query.choice("sort", tuple(SORTS)),
        measured=bool(uses),
    )


def _filtered(cells: list[NodeCell], query: Query, domain: tuple[str, ...]) -> list[NodeCell]:
    state, name = query.choice("state", STATES), query.text("q").lower()
    show = query.choice("show", tuple(SHOW))
    return [
        cell
        for cell in cells
        if (not state or cell.state.name == state)
        and (not name or name in cell.name.lower() or name in cell.id.lower())
        and cell.place[: len(domain)] == domain
        and (show != "faulty" or cell.bad_gpus)
        and (show != "lax" or cell.isolation)
        and (show != "idle" or not cell.tasks)
    ]


def _row(cell: NodeCell) -> NodeRow:
    use = cell.use
    return NodeRow(
        cell=cell,
        gpu_runs=tuple(gpu_runs(cell)),
        cpus=bar(cell.capacity.cpu_millis, ("held", cell.held.cpu_millis), ("busy", use.cpu_millis if use else 0)),
        memory=bar(
            cell.capacity.memory_bytes, ("held", cell.held.memory_bytes), ("busy", use.memory_bytes if use else 0)
        ),
    )
