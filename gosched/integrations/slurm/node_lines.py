"""Nodes as sinfo and scontrol know them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gosched.api.details import NodeDetail
from gosched.core.records.node import NodeState
from gosched.core.resources import MILLI
from gosched.integrations.slurm.columns import Column
from gosched.integrations.slurm.hostlist import compressed

PARTITION = "all"  # queues share all nodes
#: Slurm's states, short and long.
STATES = {
    "idle": "idle",
    "mix": "mixed",
    "alloc": "allocated",
    "drain": "drained",
    "drng": "draining",
    "down": "down",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes that have a line together."""

    state: str
    names: tuple[str, ...]
    #: The first of them: they are equal in what the columns show, but for its amounts.
    one: NodeDetail


def names_of(details: Sequence[NodeDetail]) -> dict[str, str]:
    """Return the name of each node by its id: its own, where no other node has it."""
    counts = Counter(detail.node.name for detail in details)
    nodes = [detail.node for detail in details]
    return {node.id: node.name if counts[node.name] == 1 else node.id for node in nodes}


def state_of(detail: NodeDetail) -> str:
    """Return Slurm's short state."""
    if detail.node.state is NodeState.DEAD:
        return "down"
    if detail.node.state is not NodeState.READY:
        return "drng" if detail.tasks else "drain"
    if not detail.tasks:
        return "idle"
    return "alloc" if detail.used.cpu_millis >= detail.node.usable.cpu_millis else "mix"


def groups(details: Sequence[NodeDetail], wanted: set[str], states: set[str], *, each: bool) -> list[NodeGroup]:
    """Return the lines, in the order of the states. `each`: every node has one of its own."""
    names = names_of(details)
    shown = [
        (state_of(detail), names[detail.node.id], detail)
        for detail in details
        if (not wanted or names[detail.node.id] in wanted) and (not states or state_of(detail) in states)
    ]
    shown.sort(key=lambda line: (list(STATES).index(line[0]), line[1]))
    found: dict[object, list[tuple[str, NodeDetail]]] = {}
    for state, name, detail in shown:
        found.setdefault(name if each else state, []).append((name, detail))
    return [
        NodeGroup(state=state_of(members[0][1]), names=tuple(name for name, _ in members), one=members[0][1])
        for members in found.values()
    ]


def read_states(text: str) -> set[str]:
    """Return short states by either name. Raises ValueError."""
    long = {words: short for short, words in STATES.items()}
    found = {long.get(word.strip().lower(), word.strip().lower()) for word in text.split(",") if word.strip()}
    if "all" in found:
        return set()
    if unknown := sorted(found - STATES.keys()):
        raise ValueError(f"{', '.join(unknown)}: the states are {', '.join(STATES)}")
    return found


def _cpus(group: NodeGroup) -> int:
    return group.one.node.capacity.cpu_millis // MILLI


def _cpu_states(group: NodeGroup) -> str:
    node, used = group.one.node, group.one.used.cpu_millis // MILLI
    whole = node.capacity.cpu_millis // MILLI
    return f"{used}/{whole - used}/0/{whole}" if node.state is NodeState.READY else f"{used}/0/{whole - used}/{whole}"


def _gpus(group: NodeGroup) -> str:
    node = group.one.node
    count = node.capacity.gpu_millis // MILLI
    return ":".join(["gpu", *([node.gpu_model] if node.gpu_model else []), str(count)]) if count else "(null)"


COLUMNS: Mapping[str, Column[NodeGroup]] = {
    "P": Column(title="PARTITION", value=lambda group: f"{PARTITION}*"),
    "R": Column(title="PARTITION", value=lambda group: PARTITION),
    "a": Column(title="AVAIL", value=lambda group: "up"),
    "l": Column(title="TIMELIMIT", value=lambda group: "infinite"),
    "D": Column(title="NODES", value=lambda group: len(group.names)),
    "t": Column(title="STATE", value=lambda group: group.state),
    "T": Column(title="STATE", value=lambda group: STATES[group.state]),
    "N": Column(title="NODELIST", value=lambda group: compressed(group.names)),
    "n": Column(title="HOSTNAMES", value=lambda group: ",".join(group.names)),
    "c": Column(title="CPUS", value=_cpus),
    "C": Column(title="CPUS(A/I/O/T)", value=_cpu_states),
    "m": Column(title="MEMORY", value=lambda group: group.one.node.capacity.memory_bytes >> 20),
    "G": Column(title="GRES", value=_gpus),
    "f": Column(
        title="AVAIL_FEATURES",
        value=lambda group: ",".join(f"{k}={v}" if v else k for k, v in group.one.node.labels) or "(null)",
    ),
    "E": Column(title="REASON", value=lambda group: group.one.node.reason or "none"),
}
DEFAULT = "%9P %.5a %.10l %.6D %.6t %N"
LONG = "%9P %.5a %.10l %.6D %.11T %.4c %.8m %N"
EACH = "%12N %.6D %9P %6t"
EACH_LONG = "%12N %.6D %9P %.11T %.4c %.8m %.20f %E"
#: Columns that nodes of one line may differ in: with one of these each has its own.
OF_ONE = frozenset("ncCmGfE")
