"""Which ranks of a step run in which tasks: pure bookkeeping of the ranks that a job has place for.

Invariant: steps that do not overlap never hold more ranks of a task than it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gosched.integrations.slurm.variables import Node


class DoesNotFit(Exception):
    """A step that could never start, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """What srun asks for. 0 and empty: it was not said."""

    ranks: int = 0
    nodes: int = 0
    per_node: int = 0
    #: CPUs of each rank.
    cpus: int = 0
    #: Names of the nodes; others are not taken.
    names: tuple[str, ...] = ()
    #: The first node that may be taken, from 0.
    first: int = 0
    #: It shares places with other steps.
    overlaps: bool = False

    def message(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, message: dict[str, Any]) -> StepRequest:
        return cls(**{**message, "names": tuple(message["names"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one rank of a step runs; its number is its place in the list."""

    #: Index of the gosched task.
    task: int
    #: Position in the step's nodes.
    node: int
    #: Among the ranks of the step on that node.
    local: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A step with its ranks placed."""

    places: tuple[Place, ...]
    #: Names of the step's nodes, and the ranks on each.
    nodes: tuple[str, ...]
    per_node: tuple[int, ...]
    #: What it holds of each gosched task; empty: it shares.
    held: tuple[tuple[int, int], ...]


class Room:
    """The ranks that are free in each task. `ranks`: that it has CPUs for. `cpus`: of each rank of the job."""

    def __init__(self, nodes: Sequence[Node], ranks: Sequence[int], cpus: int) -> None:
        self._nodes = nodes
        self._all = list(ranks)
        self._free = list(ranks)
        self._cpus = cpus

    def place(self, request: StepRequest) -> Layout | None:
        """Place a step, and book what it takes; None: it has to wait. Raises DoesNotFit."""
        weight = max(1, -(-request.cpus // self._cpus))
        candidates = self._candidates(request)
        wanted = request.ranks or self._default(request, candidates, weight)
        everything = self._split(request, candidates, wanted, self._all, weight)
        if everything is None:
            room = sum(self._fits(node, self._all, weight) for node in candidates[: request.nodes or None])
            raise DoesNotFit(f"{wanted} tasks do not fit: the nodes that the step may use have place for {room}")
        counts = everything if request.overlaps else self._split(request, candidates, wanted, self._free, weight)
        if counts is None:
            return None
        return self._laid_out(candidates, counts, weight, overlaps=request.overlaps)

    def give_back(self, layout: Layout) -> None:
        for task, taken in layout.held:
            self._free[task] += taken

    def _candidates(self, request: StepRequest) -> list[Node]:
        known = {node.name: node for node in self._nodes}
        if unknown := [name for name in request.names if name not in known]:
            raise DoesNotFit(f"{', '.join(unknown)}: no node of this job; it has {', '.join(known)}")
        found = [node for node in self._nodes if not request.names or node.name in request.names][request.first :]
        if len(found) < max(1, request.nodes):
            raise DoesNotFit(f"{request.nodes or 1} nodes are asked for, of {len(found)} that the step may use")
        return found

    def _default(self, request: StepRequest, candidates: Sequence[Node], weight: int) -> int:
        """Return how many ranks a step has that does not say it."""
        nodes = candidates[: request.nodes or None]
        if request.per_node:
            return request.per_node * len(nodes)
        if weight == 1:  # there may be CPUs for more, which no rank was asked for
            return sum(node.ranks for node in nodes)
        return sum(self._fits(node, self._all, weight) for node in nodes)

    def _split(
        self, request: StepRequest, candidates: Sequence[Node], wanted: int, room: Sequence[int], weight: int
    ) -> list[int] | None:
        """Return the ranks of each candidate, in turns as Slurm counts them; None: there is no room."""
        most = [min(self._fits(node, room, weight), request.per_node or wanted) for node in candidates]
        if request.nodes:  # the first nodes that have room, and no others
            kept = [place for place, fits in enumerate(most) if fits][: request.nodes]
            most = [fits if place in kept else 0 for place, fits in enumerate(most)]
        if sum(most) < wanted:
            return None
        counts = [0] * len(candidates)
        while wanted:
            for place, fits in enumerate(most):
                if wanted and counts[place] < fits:
                    counts[place] += 1
                    wanted -= 1
        return counts

    def _fits(self, node: Node, room: Sequence[int], weight: int) -> int:
        """Return how many ranks fit on a node. One that is wider than a task spans several of them."""
        whole = sum(room[task] // weight for task in node.tasks)
        return whole or sum(room[task] for task in node.tasks) // weight

    def _laid_out(self, candidates: Sequence[Node], counts: Sequence[int], weight: int, *, overlaps: bool) -> Layout:
        used = [(node, count) for node, count in zip(candidates, counts, strict=True) if count]
        room = list(self._all if overlaps else self._free)
        before = list(room)
        places: list[Place] = []
        for position, (node, count) in enumerate(used):
            places += [Place(task=_take(node, room, weight), node=position, local=local) for local in range(count)]
        held = tuple((task, was - now) for task, (was, now) in enumerate(zip(before, room, strict=True)) if was > now)
        if not overlaps:
            self._free = room
        return Layout(
            places=tuple(places),
            nodes=tuple(node.name for node, _ in used),
            per_node=tuple(count for _, count in used),
            held=() if overlaps else held,
        )


def _take(node: Node, room: list[int], weight: int) -> int:
    """Take the room of one rank, and return the task that it runs in."""
    first = next((task for task in node.tasks if room[task] >= weight), -1)
    if first >= 0:
        room[first] -= weight
        return first
    first, left = -1, weight
    for task in node.tasks:
        taken = min(left, room[task])
        if taken and first < 0:
            first = task
        room[task] -= taken
        left -= taken
    return first
