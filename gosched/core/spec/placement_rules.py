"""Rules that say where the tasks of a group may run: topology, spread, affinity, taints and tolerations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Strategy(IntEnum):
    """Which nodes are preferred for the tasks of a group."""

    UNSPECIFIED = 0
    #: The fullest ones.
    BINPACK = 1
    #: The emptiest ones.
    SPREAD = 2
    #: Those whose idle GPUs stay most useful for tasks like those of the live jobs.
    FRAGMENTATION = 3
    #: Those where the idle GPU that is expected to stay idle grows least.
    EXPECTED_WASTE = 4


class Mode(IntEnum):
    """Whether a rule must hold, or only should."""

    UNSPECIFIED = 0
    REQUIRED = 1
    PREFERRED = 2


class LabelOp(IntEnum):
    """How the label of a node is compared. GT and LT compare whole numbers; any other label fails them."""

    UNSPECIFIED = 0
    IN = 1
    NOT_IN = 2
    EXISTS = 3
    NOT_EXISTS = 4
    GT = 5
    LT = 6


class TaintEffect(IntEnum):
    """What a taint does to tasks that do not tolerate it."""

    UNSPECIFIED = 0
    #: None is placed on the node.
    NO_SCHEDULE = 1
    #: None is placed there if another node will do.
    PREFER_NO_SCHEDULE = 2
    #: None is placed there, and those that run there are stopped.
    NO_EXECUTE = 3


class TolerationOp(IntEnum):
    """How a toleration is compared with a taint: the key is there, or its value is equal."""

    UNSPECIFIED = 0
    EXISTS = 1
    EQUAL = 2


SELF = "self"  # in anti-affinity: the job itself
NODE_LEVEL, NUMA_LEVEL, LINK_LEVEL = "node", "numa", "gpu_link"  # below the levels that the config names


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRule:
    """A rule that the gang is placed in one domain of a level."""

    #: A label key of the config's topology, or a fixed level below it: NODE_LEVEL, NUMA_LEVEL, LINK_LEVEL.
    level: str
    #: REQUIRED: the gang waits until one domain can take it.
    mode: Mode = Mode.REQUIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadRule:
    """A rule that the tasks of the group are spread evenly over the domains of a level."""

    #: As in TopologyRule.
    level: str
    #: By how many tasks two domains may differ; above 0.
    max_skew: int = 1
    #: REQUIRED: the gang waits until it can be spread so.
    mode: Mode = Mode.REQUIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """A condition on a node's label."""

    #: Key of the label.
    label: str
    #: How the label is compared.
    op: LabelOp
    #: What it is compared with; empty for EXISTS and NOT_EXISTS.
    values: tuple[str, ...] = ()
    #: 0: the condition is required. Otherwise nodes that meet it are preferred (above 0) or avoided (below 0).
    weight: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AntiAffinity:
    """A rule that keeps tasks apart. Nodes outside of all domains take no task that keeps apart from its own job."""

    #: SELF: no domain holds two tasks of this job. Otherwise a job's name, or TENANT/NAME: no domain holds a task of
    #: each.
    job: str = SELF
    #: As in TopologyRule.
    level: str = NODE_LEVEL

    def full_name(self, tenant: str) -> str:
        """Return TENANT/NAME of the other job; `tenant`: of the job that has the rule."""
        return self.job if "/" in self.job else f"{tenant}/{self.job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A taint, or many, that do not keep a task off a node."""

    #: Key of the taint; empty with EXISTS: every taint.
    key: str = ""
    #: EQUAL: only a taint of this value.
    op: TolerationOp = TolerationOp.EXISTS
    #: Compared by EQUAL; otherwise empty.
    value: str = ""
    #: UNSPECIFIED: every effect.
    effect: TaintEffect = TaintEffect.UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A mark on a node that keeps tasks off it."""

    #: May hold "/".
    key: str
    #: May be empty.
    value: str = ""
    #: What becomes of tasks that do not tolerate it.
    effect: TaintEffect = TaintEffect.NO_SCHEDULE
