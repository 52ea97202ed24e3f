"""Queues of a CapacityScheduler as ours.

Guarantees and ceilings mean the same in both: percentages of the parent's. What a queue may take beyond its guarantee
YARN gives to the queue that holds the least of its own, which is a division in the proportion of the guarantees: so
they are the weights here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gosched.config.errors import ConfigError
from gosched.core.records.queue import Queue, QueueOrder, QueueType
from gosched.integrations.notes import Note
from gosched.integrations.yarn.queues.amounts import Amounts, read_amounts
from gosched.integrations.yarn.queues.capacity_notes import PREFIX, UNKNOWN, advice_for
from gosched.integrations.yarn.queues.imported import Imported, number, whole_weights
from gosched.integrations.yarn.queues.naming import Names

_MAX_DEPTH = 32
_MAX_QUEUES = 10_000
_UNBOUNDED = 2**31 - 1
_ORDERS = {"fifo": QueueOrder.PRIORITY, "fair": QueueOrder.FAIR}


@dataclass(slots=True, kw_only=True)
class _Tree:
    """The properties, and what has been read of them."""

    properties: Mapping[str, str]
    source: str
    names: Names
    notes: list[Note]
    used: set[str]
    #: Their paths in the file, from `root` on.
    keys: set[str]
    queues: list[Queue]

    def get(self, key: str, default: str = "") -> str:
        name = PREFIX + key
        self.used.add(name)
        return self.properties.get(name, default)

    def note(self, key: str, advice: str) -> None:
        name = PREFIX + key
        self.notes.append(Note(name=name, value=self.properties.get(name, ""), advice=advice))

    def at(self, key: str) -> str:
        return f"{self.source}: {PREFIX}{key}"


def capacity_queues(properties: Mapping[str, str], source: str) -> Imported:
    """Return the queues of a capacity-scheduler.xml. Raises ConfigError."""
    tree = _Tree(
        properties=properties, source=source, names=Names(source), notes=[], used=set(), keys={"root"}, queues=[]
    )
    if not tree.get("root.queues").strip():
        raise ConfigError(f"{source}: no {PREFIX}root.queues in it: is this a capacity-scheduler.xml?")
    if tree.get("root.capacity", "100").strip() not in ("100", "100.0"):
        tree.note("root.capacity", "left out: all queues together have the whole cluster")
    _children(tree, "root", "", 1)
    for name, value in properties.items():
        if name not in tree.used:
            key = name.removeprefix(PREFIX)
            tree.notes.append(
                Note(name=name, value=value, advice=advice_for(key, value, tree.keys) if key != name else UNKNOWN)
            )
    return Imported(queues=tuple(tree.queues), notes=tuple([note for note in tree.notes if note.advice]))


def _children(tree: _Tree, parent: str, path: str, depth: int) -> None:
    children = [word.strip() for word in tree.get(f"{parent}.queues").split(",") if word.strip()]
    if depth > _MAX_DEPTH or len(tree.queues) + len(children) > _MAX_QUEUES:
        raise ConfigError(f"{tree.source}: more than {_MAX_DEPTH} levels or {_MAX_QUEUES} queues")
    keys = [f"{parent}.{child}" for child in children]
    capacities = [tree.get(f"{key}.capacity", "0").strip() for key in keys]
    shares = _shares(tree, keys, capacities)
    weights = whole_weights([share.percent or Fraction(0) for share in shares])
    for key, child, share, weight in zip(keys, children, shares, weights, strict=True):
        own = tree.names.path(path, child)
        tree.keys.add(key)
        tree.queues.append(_queue(tree, key, own, share, weight))
        _children(tree, key, own, depth + 1)


def _shares(tree: _Tree, keys: Sequence[str], capacities: Sequence[str]) -> list[Amounts]:
    """Return what siblings are guaranteed: weights are percentages of their sum."""
    weights = [
        number(text[:-1], tree.at(f"{key}.capacity")) if text.endswith("w") else None
        for key, text in zip(keys, capacities, strict=True)
    ]
    together = sum([weight for weight in weights if weight is not None], Fraction(0))
    return [
        read_amounts(text, tree.at(f"{key}.capacity"))
        if weight is None
        else Amounts(percent=100 * weight / together if together else Fraction(0))
        for key, text, weight in zip(keys, capacities, weights, strict=True)
    ]


def _queue(tree: _Tree, key: str, path: str, share: Amounts, weight: int) -> Queue:
    capacity = share.percent or Fraction(0)
    capacity_pct = min(math.floor(capacity), 100)
    if capacity != capacity_pct:
        written = f"{float(capacity):g}"
        tree.note(f"{key}.capacity", f"{written} % of its parent's are guaranteed as {capacity_pct} %: whole ones only")
    if share.percents:
        tree.note(f"{key}.capacity", "left out: write amounts (guaranteed), or one percentage of all resources")
    most = tree.get(f"{key}.maximum-capacity", "100").strip()
    ceiling = (
        Amounts(percent=Fraction(100))
        if most in ("-1", "-1.0")
        else read_amounts(most, tree.at(f"{key}.maximum-capacity"))
    )
    max_pct = 100 if ceiling.percent is None else max(1, capacity_pct, min(100, math.ceil(ceiling.percent)))
    if ceiling.percent is not None and ceiling.percent != max_pct:
        tree.note(f"{key}.maximum-capacity", f"its ceiling is {max_pct} %: whole ones from 1 to 100 only")
    if ceiling.percents:
        tree.note(f"{key}.maximum-capacity", "left out: write amounts (limit), or one percentage of all resources")
    return Queue(
        path=path,
        type=QueueType.CAPACITY,
        weight=weight,
        capacity_pct=capacity_pct,
        max_pct=max_pct,
        guaranteed=share.amounts,
        limit=ceiling.amounts,
        order=_order(tree, key),
        max_running_jobs=_parallel(tree, key),
    )


def _order(tree: _Tree, key: str) -> QueueOrder:
    """Return the order of a queue's jobs: YARN's fifo takes priorities first, and is the default of leaves."""
    name = f"{key}.ordering-policy"
    written = tree.get(name).strip()
    if tree.properties.get(f"{PREFIX}{key}.queues", "").strip():
        if written not in ("", "utilization"):
            tree.note(name, "left out: siblings are served by the share that they hold; priorities are of jobs")
        return QueueOrder.UNSPECIFIED
    if written == "fair":
        tree.note(name, "order: fair, which is among tenants; YARN's is among applications")
    elif written not in ("", "fifo"):
        tree.note(name, "order: priority; the policies here are fifo, priority, fair and deadline")
    return _ORDERS.get(written, QueueOrder.PRIORITY)


def _parallel(tree: _Tree, key: str) -> int:
    name = f"{key}.max-parallel-apps"
    most = int(number(tree.get(name, str(_UNBOUNDED)), tree.at(name)))
    if most == 0:
        tree.note(name, "left out: a queue cannot hold back all jobs; name a tenant of none in its tenants")
    return 0 if most >= _UNBOUNDED else most
