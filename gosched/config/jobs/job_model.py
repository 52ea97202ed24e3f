"""The shape of a job file, as the contract has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from gosched.config.errors import shown, suggestion
from gosched.config.jobs.group_model import GroupFile
from gosched.config.jobs.spark_model import SparkFile
from gosched.config.jobs.time_model import (
    After,
    ArrayFile,
    DeadlineFile,
    MomentFile,
    PositiveDuration,
    PreemptionFile,
    ScheduleFile,
)
from gosched.config.validation import Int32, Millis, Model, Pairs, Word
from gosched.core.limits import MAX_PRIORITY

PRIORITY_CLASSES: Mapping[str, int] = {"low": 250, "normal": 500, "high": 750}

_PERCENT = re.compile(r"(?:[1-9][0-9]?|100)%")


def _priority(value: object) -> int:
    if isinstance(value, str) and value in PRIORITY_CLASSES:
        return PRIORITY_CLASSES[value]
    if isinstance(value, str) and value.isdigit() and len(value) < 10:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        near = suggestion(str(value), PRIORITY_CLASSES)
        raise ValueError(f"expected low, normal, high or a number from 0 to {MAX_PRIORITY}, got {shown(value)}{near}")
    return value


def _causes(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _member_floor(value: object) -> int | str | None:
    """Read `all`, a number of tasks, or a percent, which stays text."""
    if value in ("all", "100%"):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        return value
    raise ValueError(f"expected all, a number of tasks or a percent such as 50%, got {shown(value)}")


class GangFile(Model):
    """How the tasks of a job start and end together."""

    #: How many start together: a number of tasks, or a percent of each task group; None: all.
    min: Annotated[int | str | None, BeforeValidator(_member_floor)] = None
    on_member_failure: Literal["restart_gang", "fail_job", "continue"] = "restart_gang"
    #: How long the job waits for its start; 0: without an end.
    wait_ms: Millis = Field(default=0, alias="wait")
    #: The task group whose success ends the job; None: all.
    ends_with: Word | None = None
    #: How many tasks are wanted at first; None: all, and no task comes and goes.
    initial: Annotated[int, Field(ge=1)] | None = None
    #: How long a member on a silent node may live on before it is replaced; None: 2 minutes where the gang goes on
    #: without it, but for the executors of Spark.
    replace_after_ms: Millis | None = Field(default=None, alias="replace_after")


class RetryFile(Model):
    """How often a job starts again."""

    max: Int32 = 3
    backoff_ms: Millis = Field(default=0, alias="backoff")
    #: The causes that count: by default only what is not the fault of the job.
    when: Annotated[tuple[Literal["node_lost", "preempted", "failed"], ...], BeforeValidator(_causes)] = (
        "node_lost",
        "preempted",
    )


class JobFile(Model):
    """A job with either `tasks` or `spark`: the flat form is turned into `tasks` before."""

    MOVED: ClassVar[frozenset[str]] = frozenset(GroupFile.model_fields)

    name: Word
    queue: Word = "default"
    tenant: Word = "default"
    priority: Annotated[Int32, BeforeValidator(_priority)] = PRIORITY_CLASSES["normal"]
    labels: Pairs = ()
    gang: GangFile = GangFile()
    tasks: dict[str, GroupFile] = Field(default_factory=dict)
    spark: SparkFile | None = None
    retry: RetryFile = RetryFile()
    preemption: PreemptionFile = PreemptionFile()
    begin: MomentFile | None = None
    deadline: DeadlineFile | None = None
    estimate_ms: PositiveDuration | None = Field(default=None, alias="estimate")
    timeout_ms: PositiveDuration | None = Field(default=None, alias="timeout")
    hold: bool = False
    after: After = ()
    array: ArrayFile | None = None
    schedule: ScheduleFile | None = None
    on_disconnect: Literal["keep", "stop"] = "keep"
    stop_grace_ms: Millis = Field(default=10_000, alias="stop_grace")

    @model_validator(mode="after")
    def _agree(self) -> JobFile:
        if self.spark is not None and self.gang.initial is not None:
            self.spark.check_dynamic()
        return self

    def groups(self) -> dict[str, GroupFile]:
        if self.spark is None:
            return self.tasks
        return self.spark.groups(self.gang.min, self.gang.initial)
