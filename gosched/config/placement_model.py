"""Where tasks may stand and would rather stand: the `placement` of a job file, as it is written and as records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from gosched.config.errors import shown
from gosched.config.validation import LabelKey, Model, Name, Pairs, Text
from gosched.core.limits import MAX_RULES, MAX_TASKS_PER_JOB, MAX_VALUES
from gosched.core.matching import whole_number
from gosched.core.spec.placement_rules import (
    NODE_LEVEL,
    SELF,
    Affinity,
    AntiAffinity,
    LabelOp,
    Mode,
    SpreadRule,
    TaintEffect,
    Toleration,
    TolerationOp,
    TopologyRule,
)

MAX_AFFINITY_WEIGHT = 1000

# How many values each operator takes: at least, at most.
_VALUES: Mapping[str, tuple[int, int]] = {
    "in": (1, MAX_VALUES),
    "not_in": (1, MAX_VALUES),
    "exists": (0, 0),
    "not_exists": (0, 0),
    "gt": (1, 1),
    "lt": (1, 1),
}


def _listed(value: object) -> object:
    """One item may stand for a list of one."""
    return value if isinstance(value, list) else [value]


class TopologyFile(Model):
    level: LabelKey
    mode: Literal["required", "preferred"] = "required"

    def record(self) -> TopologyRule:
        return TopologyRule(level=self.level, mode=Mode[self.mode.upper()])


class SpreadFile(Model):
    level: LabelKey
    max_skew: int = Field(default=1, ge=1, le=MAX_TASKS_PER_JOB)
    mode: Literal["required", "preferred"] = "required"

    def record(self) -> SpreadRule:
        return SpreadRule(level=self.level, max_skew=self.max_skew, mode=Mode[self.mode.upper()])


class AffinityFile(Model):
    """`weight` None: required."""

    label: LabelKey
    op: Literal["in", "not_in", "exists", "not_exists", "gt", "lt"]
    values: Annotated[tuple[Text, ...], BeforeValidator(_listed)] = ()
    weight: Annotated[int, Field(ge=-MAX_AFFINITY_WEIGHT, le=MAX_AFFINITY_WEIGHT)] | None = None

    @model_validator(mode="after")
    def _fits_its_op(self) -> AffinityFile:
        least, most = _VALUES[self.op]
        if not least <= len(self.values) <= most:
            wanted = {0: "no values", 1: "one value"}.get(most, f"1 to {most} values")
            raise ValueError(f"{self.op} takes {wanted}; this one has {len(self.values)}")
        if self.op in ("gt", "lt") and whole_number(self.values[0]) is None:
            raise ValueError(f"{self.op} compares whole numbers, got {shown(self.values[0])}")
        if self.weight == 0:
            raise ValueError("a weight of 0 changes nothing: leave it out to require the label, or give another one")
        return self

    def record(self) -> Affinity:
        return Affinity(label=self.label, op=LabelOp[self.op.upper()], values=self.values, weight=self.weight or 0)


class AntiAffinityFile(Model):
    job: Name = SELF
    level: LabelKey = NODE_LEVEL

    def record(self) -> AntiAffinity:
        return AntiAffinity(job=self.job, level=self.level)


class TolerationFile(Model):
    """Without `op`: equal if there is a value, else exists. Without `effect`: every effect."""

    key: LabelKey | Literal[""] = ""
    op: Literal["exists", "equal"] | None = None
    value: Text = ""
    effect: Literal["no_schedule", "prefer_no_schedule", "no_execute"] | None = None

    @model_validator(mode="after")
    def _fits_its_op(self) -> TolerationFile:
        if self.op == "exists" and self.value:
            raise ValueError("exists takes no value: leave it out, or write op: equal")
        if not self.key and (self.op == "equal" or self.value):
            raise ValueError("equal needs the key of the taint")
        return self

    def record(self) -> Toleration:
        op = self.op or ("equal" if self.value else "exists")
        effect = TaintEffect[(self.effect or "unspecified").upper()]
        return Toleration(key=self.key, op=TolerationOp[op.upper()], value=self.value, effect=effect)


Items = BeforeValidator(_listed)
Bounded = Field(max_length=MAX_RULES)


class PlacementFile(Model):
    strategy: Literal["binpack", "spread", "fragmentation", "expected_waste"] | None = None
    node_selector: Pairs = ()
    topology: Annotated[tuple[TopologyFile, ...], Items, Bounded] = ()
    spread: Annotated[tuple[SpreadFile, ...], Items, Bounded] = ()
    affinity: Annotated[tuple[AffinityFile, ...], Items, Bounded] = ()
    anti_affinity: Annotated[tuple[AntiAffinityFile, ...], Items, Bounded] = ()
    tolerations: Annotated[tuple[TolerationFile, ...], Items, Bounded] = ()
