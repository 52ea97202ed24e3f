"""Kubernetes quantities, and what the requests of a pod add up to. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from gosched.core.limits import MAX_AMOUNT
from gosched.core.resources import MILLI, ZERO, Resources

GPU = "nvidia.com/gpu"
PODS = "pods"  # Kubernetes bounds the number of pods on a node: here a resource, of which each pod takes one

_QUANTITY = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)([A-Za-z]{0,2}|[eE][+-]?[0-9]{1,2})")
_UNITS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{unit: Decimal(1000**power) for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{unit: Decimal(1024**power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}

Amounts = dict[str, int]  # by Kubernetes' name: thousandths of CPUs, otherwise whole units


def amounts(written: object) -> Amounts:
    """Return a ResourceList as integers, rounded up. Raises ValueError."""
    if written is None:
        return {}
    if not isinstance(written, Mapping):
        raise ValueError("resources are no map of names to quantities")
    return {str(name): _amount(str(name), value) for name, value in written.items()}


def pod_requests(spec: Mapping[str, Any]) -> Resources:
    """Return what a pod holds on its node: the sum of its containers, or what one init container needs beside the
    sidecars before it, whichever is more; what the pod itself asks for goes before both; and the overhead. Raises
    ValueError."""
    sidecars: Amounts = {}
    starting: Amounts = {}  # the most that is needed before the containers start
    for container in _list(spec, "initContainers"):
        wanted = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum(sidecars, wanted)
            starting = _most(starting, sidecars)
        else:
            starting = _most(starting, _sum(sidecars, wanted))
    running = sidecars
    for container in _list(spec, "containers"):
        running = _sum(running, _requests(container))
    needed = _most(running, starting) | _requests(spec)
    return resources(_sum(needed, amounts(spec.get("overhead"))) | {PODS: 1})


def resources(found: Amounts) -> Resources:
    """Return amounts as gosched counts them. What has no field is a resource of the cluster's own; `/` is no letter of
    their names."""
    known = {"cpu", "memory", "ephemeral-storage", GPU}
    custom = {name.replace("/", "_"): amount for name, amount in found.items() if name not in known and amount > 0}
    return Resources(
        cpu_millis=max(0, found.get("cpu", 0)),
        memory_bytes=max(0, found.get("memory", 0)),
        storage_bytes=max(0, found.get("ephemeral-storage", 0)),
        gpu_millis=max(0, found.get(GPU, 0)) * MILLI,
        custom=tuple(sorted(custom.items())),
    )


def minus(total: Resources, taken: Resources) -> Resources:
    """Return what is left, at least nothing."""
    taken_of = dict(taken.custom)
    custom = [(name, left) for name, amount in total.custom if (left := amount - taken_of.get(name, 0)) > 0]
    return Resources(
        cpu_millis=max(0, total.cpu_millis - taken.cpu_millis),
        memory_bytes=max(0, total.memory_bytes - taken.memory_bytes),
        storage_bytes=max(0, total.storage_bytes - taken.storage_bytes),
        gpu_millis=max(0, total.gpu_millis - taken.gpu_millis),
        custom=tuple(custom),
    )


def at_least(one: Resources, other: Resources) -> Resources:
    """Return the larger amount of each resource."""
    return other + minus(one, other)


def total(parts: list[Resources]) -> Resources:
    added = ZERO
    for part in parts:
        added = added + part
    return added


def _amount(name: str, value: object) -> int:
    found = _QUANTITY.fullmatch(str(value)) if isinstance(value, str | int | float | Decimal) else None
    unit = found.group(2) if found else ""
    scale = Decimal(f"1{unit}") if unit[1:].lstrip("+-").isdigit() else _UNITS.get(unit)
    if found is None or scale is None:
        raise ValueError(f"{name} is {str(value)[:40]!a}, which is no quantity such as 500m, 2 or 4Gi")
    amount = math.ceil(Decimal(found.group(1)) * scale * (MILLI if name == "cpu" else 1))
    return min(amount, MAX_AMOUNT)


def _requests(owner: Mapping[str, Any]) -> Amounts:
    """Return the requests; the API server has put the limits where only these were given."""
    wanted = owner.get("resources") or {}
    if not isinstance(wanted, Mapping):
        raise ValueError("resources are no map")
    return amounts(wanted.get("requests"))


def _list(spec: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = spec.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise ValueError(f"spec.{key} is no list of objects")
    return found


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _most(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
