"""Nodes as pages draw them: state, place in the topology, what is held of each, what is really used.

Invariant: reading thousands of nodes lets others have their turn; each node by itself is of one revision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from gosched.core.records.node import Node, NodeState
from gosched.core.resources import MILLI, ZERO, Resources
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.turns import sliced
from gosched.master.web.usage import NodeUse, NodeUses

NOWHERE = "–"  # a node without the label of a level


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCell:
    """A node, as far as it is drawn."""

    id: str
    name: str
    state: NodeState
    reason: str
    #: Its domain of each level of the topology, the widest first.
    place: tuple[str, ...]
    gpus: int
    gpu_model: str
    #: Thousandths that are held of each GPU, by its number; none of a free one.
    gpu_held: tuple[tuple[int, int], ...]
    bad_gpus: tuple[int, ...]
    capacity: Resources
    held: Resources
    tasks: int
    #: What its agent cannot enforce; empty: nothing.
    isolation: str
    #: None: not known.
    use: NodeUse | None

    @property
    def gpus_held(self) -> float:
        return sum(millis for _, millis in self.gpu_held) / MILLI

    @property
    def gpus_used(self) -> float | None:
        """Return how many GPUs' worth of work its GPUs do; None: not known."""
        return self.use.gpu_millis / MILLI if self.use and self.use.gpu_busy else None


async def read_cells(
    state: ClusterState, levels: Sequence[str], uses: NodeUses | None, nodes: Sequence[Node] | None = None
) -> list[NodeCell]:
    """Return the nodes in the order of the topology, then of their names."""
    chosen = [*state.nodes.values()] if nodes is None else nodes
    cells = [read_cell(state, node, levels, uses) async for node in sliced(chosen)]
    await asyncio.sleep(0)
    return sorted(cells, key=lambda cell: (cell.place, cell.name, cell.id))


def read_cell(state: ClusterState, node: Node, levels: Sequence[str], uses: NodeUses | None) -> NodeCell:
    labels = dict(node.labels)
    return NodeCell(
        id=node.id,
        name=node.name,
        state=node.state,
        reason=node.reason,
        place=tuple([labels.get(level, NOWHERE) for level in levels]),
        gpus=node.capacity.gpu_millis // MILLI,
        gpu_model=node.gpu_model,
        gpu_held=tuple(sorted(state.node_gpus_held(node.id).items())),
        bad_gpus=node.hardware.bad_gpus,
        capacity=node.capacity,
        held=state.usage.get(node.id, ZERO),
        tasks=len(state.node_allocations.get(node.id, ())),
        isolation=node.isolation,
        use=uses.get(node.id) if uses else None,
    )
