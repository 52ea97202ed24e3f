"""Rules that say where the tasks of a group may run: topology, spread, affinity, taints and tolerations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Strategy(IntEnum):
    UNSPECIFIED = 0
    BINPACK = 1
    SPREAD = 2
    FRAGMENTATION = 3
    EXPECTED_WASTE = 4


class Mode(IntEnum):
    UNSPECIFIED = 0
    REQUIRED = 1
    PREFERRED = 2


class LabelOp(IntEnum):
    """GT and LT compare whole numbers; a label that is none fails them."""

    UNSPECIFIED = 0
    IN = 1
    NOT_IN = 2
    EXISTS = 3
    NOT_EXISTS = 4
    GT = 5
    LT = 6


class TaintEffect(IntEnum):
    UNSPECIFIED = 0
    NO_SCHEDULE = 1
    PREFER_NO_SCHEDULE = 2
    NO_EXECUTE = 3


class TolerationOp(IntEnum):
    UNSPECIFIED = 0
    EXISTS = 1
    EQUAL = 2


SELF = "self"  # in anti-affinity: the job itself
NODE_LEVEL, NUMA_LEVEL, LINK_LEVEL = "node", "numa", "gpu_link"  # below the levels that the config names


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRule:
    """The gang stands in one domain of the level: a label key of the config's topology, or a fixed level below it."""

    level: str
    mode: Mode = Mode.REQUIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadRule:
    """Domains of the level differ by at most `max_skew` (> 0) tasks of the group."""

    level: str
    max_skew: int = 1
    mode: Mode = Mode.REQUIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """A condition on a node's label. `weight` 0: required; else it counts for nodes that meet it (below 0: against)."""

    label: str
    op: LabelOp
    values: tuple[str, ...] = ()
    weight: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AntiAffinity:
    """No domain of the level holds two tasks of the job (SELF), or a task of this one and one of the named job. Nodes
    outside of all domains take no task that keeps apart from its own job."""

    job: str = SELF
    level: str = NODE_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """An empty `key` with EXISTS tolerates every taint; effect UNSPECIFIED stands for all effects."""

    key: str = ""
    op: TolerationOp = TolerationOp.EXISTS
    value: str = ""
    effect: TaintEffect = TaintEffect.UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    value: str = ""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE
