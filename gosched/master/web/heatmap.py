"""The picture of all nodes by topology: a box for each domain of the narrowest level, a cell for each node.

A cell has a row of its GPUs (held or free), a thin line of how many GPUs' worth is really used, and a line of its CPUs
(held, and on it really used). What many nodes have in common is one path of their box, so that a node costs a link, a
rectangle and a title.

Invariant: a cell shows nothing outside of its own rectangle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from gosched.core.records.node import NodeState
from gosched.core.resources import MILLI
from gosched.master.web.node_cells import NodeCell
from gosched.master.web.text import quantity

GPU, GAP = 4, 5  # pixels of a GPU with the space behind it, and between cells
WIDTH, HEIGHT = 32, 12  # of a cell
COLUMNS = 4
GPU_ROW, GPU_USE_ROW, CPU_ROW = 2.5, 6.5, 10  # middles of the lines of a cell


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """A node as a link."""

    id: str
    x: int
    y: int
    width: int
    title: str
    #: Class by its state; empty: it is ready.
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatBox:
    """The nodes of one domain."""

    #: Of all levels, the widest first.
    place: tuple[str, ...]
    width: int
    height: int
    cells: tuple[HeatCell, ...]
    #: Of lines through the middles of rows, by class; those of GPUs are dashed by the style sheet.
    paths: tuple[tuple[str, str], ...]
    nodes: int
    ready: int
    gpus: int
    gpus_held: float
    cpus_held_share: float

    @property
    def name(self) -> str:
        return self.place[-1] if self.place else ""

    @property
    def key(self) -> str:
        """Return the place as the filter of the page takes it."""
        return "/".join(self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatSection:
    """The boxes of one domain of the level above."""

    #: Of the levels above the narrowest.
    place: tuple[str, ...]
    boxes: tuple[HeatBox, ...]


def heat_sections(cells: Sequence[NodeCell]) -> list[HeatSection]:
    """Return the picture of nodes that are in the order of the topology."""
    boxes = [_box(place, [*inside]) for place, inside in groupby(cells, key=lambda cell: cell.place)]
    return [
        HeatSection(place=place, boxes=tuple(inside)) for place, inside in groupby(boxes, key=lambda b: b.place[:-1])
    ]


def _box(place: tuple[str, ...], cells: list[NodeCell]) -> HeatBox:
    paths: dict[str, list[str]] = {}
    links = []
    columns = min(COLUMNS, len(cells)) if place else max(1, min(4 * COLUMNS, len(cells)))
    wide = max([WIDTH, *[cell.gpus * GPU for cell in cells]])
    for at, cell in enumerate(cells):
        x, y = at % columns * (wide + GAP), at // columns * (HEIGHT + GAP)
        links.append(HeatCell(id=cell.id, x=x, y=y, width=wide, title=cell_title(cell), kind=_kind(cell.state)))
        for kind, line in _lines(cell, wide):
            paths.setdefault(kind, []).append(f"M{x + line[0]:g} {y + line[1]:g}h{line[2]:g}")
    cpus = sum(cell.capacity.cpu_millis for cell in cells)
    return HeatBox(
        place=place,
        width=columns * (wide + GAP) - GAP,
        height=-(-len(cells) // columns) * (HEIGHT + GAP) - GAP,
        cells=tuple(links),
        paths=tuple([(kind, "".join(lines)) for kind, lines in paths.items()]),
        nodes=len(cells),
        ready=sum(cell.state is NodeState.READY for cell in cells),
        gpus=sum(cell.gpus for cell in cells),
        gpus_held=sum(cell.gpus_held for cell in cells),
        cpus_held_share=sum(cell.held.cpu_millis for cell in cells) / cpus if cpus else 0.0,
    )


def _lines(cell: NodeCell, wide: int) -> list[tuple[str, tuple[float, float, float]]]:
    """Return lines of a cell: class, and start, middle and length."""
    lines: list[tuple[str, tuple[float, float, float]]] = []
    if cell.state is not NodeState.DEAD:
        lines += [(kind, (start * GPU, GPU_ROW, length * GPU)) for kind, start, length in gpu_runs(cell)]
        if cell.gpus and cell.gpus_used:
            lines.append(("gpu-used", (0, GPU_USE_ROW, round(min(cell.gpus_used, cell.gpus) * GPU, 1))))
        cpus = cell.capacity.cpu_millis
        if cpus:
            kind, row = ("cpu", CPU_ROW) if cell.gpus else ("only-cpu", HEIGHT / 2)
            held = min(1.0, cell.held.cpu_millis / cpus)
            lines += [(f"{kind}-free", (0, row, wide)), (f"{kind}-held", (0, row, round(wide * held, 1)))]
            if cell.use:
                lines.append((f"{kind}-used", (0, row, round(wide * min(1.0, cell.use.cpu_millis / cpus), 1))))
    return [line for line in lines if line[1][2] > 0]


def gpu_runs(cell: NodeCell) -> list[tuple[str, int, int]]:
    """Return neighbouring GPUs that are alike: class, the first one, and how many."""
    held = dict(cell.gpu_held)

    def kind(gpu: int) -> str:
        if gpu in cell.bad_gpus:
            return "gpu-bad"
        return "gpu-held" if held.get(gpu, 0) >= MILLI else "gpu-shared" if held.get(gpu) else "gpu-free"

    runs = []
    for name, inside in groupby(range(cell.gpus), key=kind):
        gpus = [*inside]
        runs.append((name, gpus[0], len(gpus)))
    return runs


def cell_title(cell: NodeCell) -> str:
    """Return what is said of a node when it is pointed at."""
    parts = [f"{cell.name}: {cell.state.name}"]
    if cell.gpus:
        used = "" if cell.gpus_used is None else f", {cell.gpus_used:.1f} used"
        parts.append(f"{cell.gpus_held:g} of {cell.gpus} GPUs held{used}")
    used = "" if cell.use is None else f", {quantity(cell.use.cpu_millis, 'cpu')} used"
    parts.append(
        f"{quantity(cell.held.cpu_millis, 'cpu')} of {quantity(cell.capacity.cpu_millis, 'cpu')} CPUs held{used}"
    )
    return "; ".join(parts)


def _kind(state: NodeState) -> str:
    return "" if state is NodeState.READY else state.name.lower()
