"""Says why a gang waits, in one code and one line that is true at the view's revision."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import numpy as np

from gosched.core.job import JobSpec
from gosched.scheduling.feasibility import RESOURCE_NAMES, eligible, refused, slots
from gosched.scheduling.room import Room
from gosched.scheduling.view import (
    CPU,
    GPU,
    Ask,
    IntArray,
    NodeColumns,
    PendingGang,
    amounts,
    asks_of,
    summed,
)


class Reason(StrEnum):
    NO_NODE = "NO_NODE"
    NODE_SELECTOR = "NODE_SELECTOR"
    GPU_MODEL = "GPU_MODEL"
    NODE_TOO_SMALL = "NODE_TOO_SMALL"
    INSUFFICIENT = "INSUFFICIENT"
    FRAGMENTED = "FRAGMENTED"
    BACKOFF = "BACKOFF"
    QUEUED = "QUEUED"
    TOO_LARGE = "TOO_LARGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    code: Reason
    message: str


def why_not(gang: PendingGang, room: Room) -> Explanation:
    """Of a gang that `place` did not place."""
    nodes = room.nodes
    for ask in gang.asks:
        if found := _no_node_could(nodes, ask):
            return found
    if found := _short(gang.total, room.total, "are free"):
        return found
    for ask in gang.asks:
        if found := _short(_times(ask), summed(room.free[room.eligible(ask)]), "are free"):
            return found
        if (fit := int(room.slots(ask).sum())) < ask.count:
            message = f"room for {fit} of {ask.count} tasks{_of(gang.asks, ask)}; {_counts(nodes, room.free, ask)}"
            return Explanation(code=Reason.FRAGMENTED, message=message)
    return Explanation(code=Reason.FRAGMENTED, message="its task groups fit one by one, but not together")


def warnings(nodes: NodeColumns, spec: JobSpec) -> list[str]:
    """What the ready nodes could not hold even if they were empty; nodes may join, so it is no error."""
    asks = asks_of(spec)
    found: list[Explanation | None] = [_no_node_could(nodes, ask) for ask in asks]
    if not any(found):
        found = [
            _short(_times(ask), summed(nodes.capacity[eligible(nodes, ask)]), "are in the cluster") for ask in asks
        ]
    if not any(found):
        found = [_short(amounts(spec.demand), summed(nodes.capacity[nodes.ready]), "are in the cluster")]
    if not any(found):
        found = [_too_few_slots(nodes, asks, ask) for ask in asks]
    return list(dict.fromkeys(e.message for e in found if e))


def backoff(gang: PendingGang) -> Explanation:
    until = datetime.fromtimestamp(gang.not_before_ms // 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Explanation(code=Reason.BACKOFF, message=f"waits until {until} before it is tried again")


def queued(before: int) -> Explanation:
    jobs = "1 job was" if before == 1 else f"{before} jobs were"
    return Explanation(code=Reason.QUEUED, message=f"{jobs} looked at before it; its turn comes in a later cycle")


def too_large(max_bytes: int) -> Explanation:
    message = f"has too many tasks for one log entry of {max_bytes // 1024} KiB; split it into several jobs"
    return Explanation(code=Reason.TOO_LARGE, message=message)


def _no_node_could(nodes: NodeColumns, ask: Ask) -> Explanation | None:
    """What stands against the task on every ready node, however empty."""
    if not nodes.ready.any():
        message = f"no node is ready ({len(nodes)} registered)" if len(nodes) else "no node has joined yet"
        return Explanation(code=Reason.NO_NODE, message=message)
    labels = f"the labels {', '.join(f'{key}={value}' for key, value in ask.selector)}"
    mask = nodes.ready & nodes.having_labels(ask.selector)
    if not mask.any():
        return Explanation(code=Reason.NODE_SELECTOR, message=f"no ready node has {labels}")
    mask &= nodes.having_model(ask.gpu_model)
    if not mask.any():
        both = f"{ask.gpu_model} and {labels}" if ask.selector else ask.gpu_model
        return Explanation(code=Reason.GPU_MODEL, message=f"no ready node has GPUs of model {both}")
    capacity = nodes.capacity[mask]
    for resource, (each, largest) in enumerate(zip(ask.each, capacity.max(axis=0).tolist(), strict=True)):
        if each > largest:
            message = f"asks for {_amount(resource, each)} on one node; the largest has {_number(resource, largest)}"
            return Explanation(code=Reason.NODE_TOO_SMALL, message=message)
    if not (capacity >= np.array(ask.each)).all(axis=1).any():
        wanted = ", ".join(_amount(r, each) for r, each in enumerate(ask.each) if each)
        return Explanation(code=Reason.NODE_TOO_SMALL, message=f"no node has all of {wanted}")
    return None


def _short(wanted: tuple[int, ...], there: IntArray, where: str) -> Explanation | None:
    for resource, (want, have) in enumerate(zip(wanted, there.tolist(), strict=True)):
        if want > have:
            verb = where if _number(resource, have) != "1" else where.replace("are", "is")
            message = f"needs {_amount(resource, int(want))} in all; {_number(resource, have)} {verb}"
            return Explanation(code=Reason.INSUFFICIENT, message=message)
    return None


def _too_few_slots(nodes: NodeColumns, asks: tuple[Ask, ...], ask: Ask) -> Explanation | None:
    fit = int(slots(nodes.capacity, eligible(nodes, ask), ask).sum())
    if fit >= ask.count:
        return None
    message = f"the empty cluster has room for {fit} of {ask.count} tasks{_of(asks, ask)}"
    return Explanation(code=Reason.FRAGMENTED, message=message)


def _counts(nodes: NodeColumns, free: IntArray, ask: Ask) -> str:
    """Such as "3 nodes are short of CPU, 1 is not ready"."""
    found = refused(nodes, free, ask)
    parts = [(count, f"short of {RESOURCE_NAMES[resource]}") for resource, count in found.resources]
    parts += [(found.selector, "without the labels"), (found.gpu_model, "of another GPU model")]
    parts += [(found.not_ready, "not ready")]
    said = [f"{count} {'is' if count == 1 else 'are'} {what}" for count, what in parts if count]
    return f"of {len(nodes)} nodes {', '.join(said) or 'all have room for some'}"


def _of(asks: tuple[Ask, ...], ask: Ask) -> str:
    return f" of group {ask.group}" if len(asks) > 1 else ""


def _times(ask: Ask) -> tuple[int, ...]:
    return tuple(each * ask.count for each in ask.each)


def _amount(resource: int, amount: int) -> str:
    number = _number(resource, amount)
    if resource == CPU:
        return f"{number} {'CPU' if number == '1' else 'CPUs'}"
    if resource == GPU:
        return f"{number} {'GPU' if number == '1' else 'GPUs'}"
    return f"{number} of {RESOURCE_NAMES[resource]}"


def _number(resource: int, amount: int) -> str:
    if resource in (CPU, GPU):
        return _decimal(amount, 1000)
    for unit, size in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if amount >= size:
            return _decimal(amount * 1000 // size, 1000) + unit
    return f"{amount}B"


def _decimal(amount: int, one: int) -> str:
    """Thousandths as a decimal number without needless zeros."""
    whole, rest = divmod(amount, one)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)
