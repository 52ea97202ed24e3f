"""A file of nodes: our own YAML, or openb's CSV.

- {count: 16, name: gpu, cpu: 96, memory: 1Ti, gpu: h100:8, labels: {rack: r1}}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gosched.config import ConfigError
from gosched.config.errors import shown
from gosched.config.jobs.group_model import ResourcesFile
from gosched.config.tree import Document, read_documents
from gosched.config.validation import Model, Name, Pairs, validate
from gosched.core.commands.nodes import RegisterNode
from gosched.core.limits import MAX_NODES
from gosched.core.resources import MILLI, Resources
from gosched.sim.cluster.traces.openb import is_node_list, read_node_list


class NodeKind(Model):
    """Equal nodes; with a count they are NAME-0, NAME-1, ..."""

    name: Name
    count: int = 1
    labels: Pairs = ()


def read_nodes(text: str, source: str) -> tuple[RegisterNode, ...]:
    """Return the nodes of a file, at least one. Raises ConfigError."""
    nodes = read_node_list(text, source) if is_node_list(text) else _from_yaml(text, source)
    if not 0 < len(nodes) <= MAX_NODES:
        raise ConfigError(f"{source}: {len(nodes)} nodes; expected 1 to {MAX_NODES}")
    seen: set[str] = set()
    for node in nodes:
        if node.node_id in seen:
            raise ConfigError(f"{source}: two nodes have the name {node.node_id}")
        seen.add(node.node_id)
    return tuple(nodes)


def entries(text: str, source: str) -> Iterator[Document]:
    """Yield each entry of the list that a YAML file holds, as a mapping. Raises ConfigError."""
    documents = read_documents(text, source)
    if len(documents) != 1 or not isinstance(documents[0].value, list):
        raise ConfigError(f"{source}: expected one YAML list")
    document = documents[0]
    origins: list[dict[tuple[str | int, ...], str]] = [{} for _ in document.value]
    for path, origin in document.origins.items():
        if path and isinstance(path[0], int):
            origins[path[0]][path[1:]] = origin
    for value, own in zip(document.value, origins, strict=True):
        entry = Document(value=value, source=source, origins=own)
        if not isinstance(value, dict):
            raise entry.error((), f"expected keys and values, got {shown(value)}")
        yield entry


def _from_yaml(text: str, source: str) -> list[RegisterNode]:
    found: list[RegisterNode] = []
    for entry in entries(text, source):
        own = {key: value for key, value in entry.value.items() if key in NodeKind.model_fields}
        kind = validate(NodeKind, replace(entry, value=own))
        if not 0 < kind.count <= MAX_NODES:
            raise entry.error(("count",), f"expected 1 to {MAX_NODES}, got {kind.count}")
        rest = {key: value for key, value in entry.value.items() if key not in own}
        if "cpu" not in rest:
            raise entry.error((), 'needs "cpu"')
        found += _nodes(kind, validate(ResourcesFile, replace(entry, value=rest)), entry)
    return found


def _nodes(kind: NodeKind, has: ResourcesFile, entry: Document) -> list[RegisterNode]:
    if has.gpu.share is not None or has.gpu.millis % MILLI:
        raise entry.error(("gpu",), "a node has whole GPUs")
    capacity = Resources(
        cpu_millis=has.cpu,
        memory_bytes=has.memory,
        storage_bytes=has.storage,
        gpu_millis=has.gpu.millis,
        custom=has.custom,
    )
    names = [kind.name] if "count" not in entry.value else [f"{kind.name}-{i}" for i in range(kind.count)]
    return [
        RegisterNode(
            node_id=name,
            name=name,
            address="simulated:1",
            incarnation="1",
            capacity=capacity,
            gpu_model=has.gpu.model or "",
            labels=kind.labels,
        )
        for name in names
    ]
