"""What the cluster's nodes make of --nodelist, --exclude and --exclusive.

Invariant: a name that no node has is an error, and so are whole nodes of several sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from gosched.api.details import NodeDetail
from gosched.config.node_labels import NODE_LABEL
from gosched.core.matching import blocking_taint, meets
from gosched.core.records.node import Node, NodeState
from gosched.core.resources import MILLI, Resources
from gosched.core.spec.placement_rules import Affinity, LabelOp
from gosched.integrations.slurm.command_line import Given
from gosched.integrations.slurm.hostlist import distinct
from gosched.integrations.slurm.node_lines import names_of
from gosched.integrations.slurm.shape import Shape

#: Asks the cluster for its nodes.
ListNodes: TypeAlias = Callable[[], Sequence[NodeDetail]]

OPTIONS = ("nodelist", "exclude", "exclusive")
_MOST_SHOWN = 8


def named_nodes(given: Given, shape: Shape, details: Sequence[NodeDetail]) -> list[dict[str, Any]]:
    """Return the conditions of --nodelist and --exclude, as a job file has them. Raises ConfigError."""
    named, excluded = (given.read(name, distinct) if name in given else () for name in ("nodelist", "exclude"))
    if both := [name for name in named if name in excluded]:
        raise given.problem("exclude", f"{_shown(both)}: in --nodelist, too")
    found = []
    if named:  # fewer tasks than nodes take the first ones, as in Slurm
        found.append(_term("in", _labels(given, "nodelist", named, details)[: shape.tasks]))
    if excluded:
        found.append(_term("not_in", _labels(given, "exclude", excluded, details)))
    return found


def whole_cpu_millis(given: Given, shape: Shape, placement: Mapping[str, Any], details: Sequence[NodeDetail]) -> int:
    """Return the CPUs of each node that the job may get, which must be equally many. Raises ConfigError."""
    required = _required(placement)
    largest = _largest(shape)
    sizes: dict[int, list[str]] = {}
    names = names_of(details)
    for node in [detail.node for detail in details]:
        if _suits(node, required, largest, shape):
            sizes.setdefault(node.usable.cpu_millis, []).append(names[node.id])
    if not sizes:
        raise given.problem(
            "exclusive",
            "no ready node fits what the job asks for, so nothing says how many CPUs a whole one has: goschedctl "
            "sinfo -N -l shows what there is",
        )
    if len(sizes) > 1:
        shown = [f"{millis / MILLI:g} CPUs ({len(sizes[millis])}: {_shown(sizes[millis])})" for millis in sorted(sizes)]
        raise given.problem(
            "exclusive",
            f"the nodes that the job may get differ in size: {'; '.join(shown[:_MOST_SHOWN])}: say by --constraint or "
            "--nodelist which ones",
        )
    return min(sizes)


def _labels(given: Given, option: str, names: Sequence[str], details: Sequence[NodeDetail]) -> list[str]:
    """Return the labels by which a job names the nodes."""
    shown = names_of(details)
    known = {detail.node.id: detail.node for detail in details}
    known |= {shown[node.id]: node for node in list(known.values())}
    if unknown := [name for name in names if name not in known]:
        raise given.problem(option, f"there is no node {_shown(unknown)}: goschedctl sinfo -N shows their names")
    labels = {name: dict(known[name].labels).get(NODE_LABEL, "") for name in names}
    if bare := [name for name, label in labels.items() if label not in (known[name].id, known[name].name)]:
        raise given.problem(
            option, f"{_shown(bare)}: without the label {NODE_LABEL}, as its agent is of an earlier release: upgrade it"
        )
    return list(dict.fromkeys(labels.values()))


def _term(op: str, values: Sequence[str]) -> dict[str, Any]:
    return {"label": NODE_LABEL, "op": op, "values": list(values)}


def _required(placement: Mapping[str, Any]) -> list[Affinity]:
    """Return what the labels of a node must meet."""
    selected = [
        Affinity(label=key, op=LabelOp.IN, values=(value,)) for key, value in placement.get("node_selector", {}).items()
    ]
    return selected + [
        Affinity(label=term["label"], op=LabelOp[term["op"].upper()], values=tuple(term.get("values", ())))
        for term in placement.get("affinity", ())
    ]


def _suits(node: Node, required: Sequence[Affinity], largest: Resources, shape: Shape) -> bool:
    models = {model for text in shape.gpus if (model := text.rpartition(":")[0])}
    return (
        node.state is NodeState.READY
        and all(meets(term, dict(node.labels)) for term in required)
        and blocking_taint((), node.taints) is None
        and largest.fits_in(node.usable)
        and models <= {node.gpu_model}
    )


def _largest(shape: Shape) -> Resources:
    """Return the most that a task asks for."""
    return Resources(
        cpu_millis=max(ranks for _, ranks in shape.groups) * shape.cpus * MILLI,
        memory_bytes=max(shape.mebibytes) << 20,
        gpu_millis=max(int(text.rpartition(":")[2] or 0) for text in shape.gpus) * MILLI,
        custom=shape.custom,
    )


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more
