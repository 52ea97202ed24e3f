"""Where tasks may run and should rather run: the `placement` of a job file, as it is written and as records."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, model_validator

from gosched.config.validation import Int32, Model, Pairs, Text, Word
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


def _listed(value: object) -> object:
    """Let one item stand for a list of one."""
    return value if isinstance(value, list) else [value]


class TopologyFile(Model):
    level: Word
    mode: Literal["required", "preferred"] = "required"

    def record(self) -> TopologyRule:
        return TopologyRule(level=self.level, mode=Mode[self.mode.upper()])


class SpreadFile(Model):
    level: Word
    max_skew: Int32 = 1
    mode: Literal["required", "preferred"] = "required"

    def record(self) -> SpreadRule:
        return SpreadRule(level=self.level, max_skew=self.max_skew, mode=Mode[self.mode.upper()])


class AffinityFile(Model):
    """A condition on a label of nodes."""

    label: Word
    op: Literal["in", "not_in", "exists", "not_exists", "gt", "lt"]
    values: Annotated[tuple[Text, ...], BeforeValidator(_listed)] = ()
    #: None: the condition is required.
    weight: Int32 | None = None

    @model_validator(mode="after")
    def _has_a_weight(self) -> AffinityFile:
        if self.weight == 0:
            raise ValueError("a weight of 0 changes nothing: leave it out to require the label, or give another one")
        return self

    def record(self) -> Affinity:
        return Affinity(label=self.label, op=LabelOp[self.op.upper()], values=self.values, weight=self.weight or 0)


class AntiAffinityFile(Model):
    job: Word = SELF
    level: Word = NODE_LEVEL

    def record(self) -> AntiAffinity:
        return AntiAffinity(job=self.job, level=self.level)


class TolerationFile(Model):
    """A taint that tasks tolerate."""

    key: Text = ""
    #: None: equal where there is a value, else exists.
    op: Literal["exists", "equal"] | None = None
    value: Text = ""
    #: None: every effect.
    effect: Literal["no_schedule", "prefer_no_schedule", "no_execute"] | None = None

    def record(self) -> Toleration:
        op = self.op or ("equal" if self.value else "exists")
        effect = TaintEffect[(self.effect or "unspecified").upper()]
        return Toleration(key=self.key, op=TolerationOp[op.upper()], value=self.value, effect=effect)


Items = BeforeValidator(_listed)


class PlacementFile(Model):
    strategy: Literal["binpack", "spread", "fragmentation", "expected_waste"] | None = None
    node_selector: Pairs = ()
    topology: Annotated[tuple[TopologyFile, ...], Items] = ()
    spread: Annotated[tuple[SpreadFile, ...], Items] = ()
    affinity: Annotated[tuple[AffinityFile, ...], Items] = ()
    anti_affinity: Annotated[tuple[AntiAffinityFile, ...], Items] = ()
    tolerations: Annotated[tuple[TolerationFile, ...], Items] = ()
