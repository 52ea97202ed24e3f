"""Amounts as YARN's files write them: percentages, weights, and vectors of resources.

The CapacityScheduler writes `[memory=10240,vcores=12]`, `12.5` and `3w`; the FairScheduler `10240 mb, 12 vcores`,
`memory-mb=50%, vcores=10%` and `50%`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from gosched.config.errors import ConfigError, shown
from gosched.core.resources import AmountMap
from gosched.integrations.yarn.queues.imported import number

_MIB = 1 << 20
_MILLI = 1000
#: YARN's names of resources, and ours.
_NAMES = {
    "memory": "memory",
    "memory-mb": "memory",
    "mb": "memory",
    "vcores": "cpu",
    "vcore": "cpu",
    "cpu": "cpu",
    "yarn.io/gpu": "gpu",
    "gpu": "gpu",
}
_UNITS = {"memory": _MIB, "cpu": _MILLI, "gpu": _MILLI}
_BEFORE = re.compile(r"(?P<name>[\w./-]+)\s*=\s*(?P<amount>[\d.]+)\s*(?P<percent>%?)")
_AFTER = re.compile(r"(?P<amount>[\d.]+)\s*(?P<percent>%?)\s*(?P<name>[A-Za-z][\w./-]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What is written for a queue: one percentage, or amounts and percentages by our names of resources."""

    #: Of all resources; None: they are given one by one.
    percent: Fraction | None = None
    amounts: AmountMap = ()
    percents: Mapping[str, Fraction] = field(default_factory=dict)


def read_amounts(text: str, at: str) -> Amounts:
    """Read a percentage or a vector, in the form of either scheduler. Raises ConfigError."""
    inner = text.strip().removeprefix("[").removesuffix("]").strip()
    amounts: dict[str, int] = {}
    percents: dict[str, Fraction] = {}
    for part in [part.strip() for part in inner.split(",") if part.strip()]:
        found = _BEFORE.fullmatch(part) or _AFTER.fullmatch(part)
        if found is None:
            raise ConfigError(f"{at}: cannot read {shown(text)}: expected a percentage or amounts of resources")
        amount, written = number(found["amount"], at), found["name"]
        if written is None:
            if len(inner.split(",")) > 1 or not (found["percent"] or amount <= 100):
                raise ConfigError(f"{at}: {part} of {shown(text)} names no resource")
            return Amounts(percent=amount)
        name = _NAMES.get(written.lower(), written)
        if found["percent"]:
            percents[name] = amount
        else:
            amounts[name] = int(amount * _UNITS.get(name, 1))
    if percents and not amounts and len(set(percents.values())) == 1 and {"cpu", "memory"} <= set(percents):
        return Amounts(percent=next(iter(percents.values())))
    return Amounts(amounts=tuple(sorted(amounts.items())), percents=percents)
