"""What a job file says about time and force: preemption, begin, deadline, dependencies, array and schedule; as written
and as records."""

from __future__ import annotations

import re
from signal import Signals
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from gosched.config.cron import check_schedule, zone
from gosched.config.errors import shown, suggestion
from gosched.config.moment import moment_ms
from gosched.config.validation import Int32, Millis, Model, Text, problem_at, text
from gosched.core.spec.array import Array, Axis
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.policies import Preemption, PreemptionPolicy

DEFAULT_GRACE_MS = 30_000  # to write a checkpoint

_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})(?::([0-9]{1,9}))?", re.ASCII)

PositiveDuration = Annotated[Millis, Field(ge=1)]  # 0 stands for none in a record, and leaving the key out in a file


def _signal(value: object) -> int:
    """Read `SIGUSR1`, `USR1` or a number."""
    known = {known.name: int(known) for known in Signals}
    number: object = value
    if isinstance(value, str):
        word = value.strip().upper()
        number = int(word) if word.isascii() and word.isdigit() and len(word) < 4 else known.get(word)
        number = known.get(f"SIG{word}") if number is None else number
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        near = suggestion(str(value).upper(), known)
        raise ValueError(f"expected a signal such as SIGUSR1, or its number, got {shown(value)}{near}")
    return number


class PreemptionFile(Model):
    policy: Literal["never", "lower_priority"] = "lower_priority"
    preemptible: bool = True
    grace_ms: Annotated[Millis | None, Field(alias="grace")] = None
    checkpoint_signal: Annotated[Int32, BeforeValidator(_signal)] | None = None
    min_runtime_ms: Millis = Field(default=0, alias="min_runtime")
    cheap: bool = False

    def record(self) -> Preemption:
        default_ms = 0 if self.checkpoint_signal is None else DEFAULT_GRACE_MS
        return Preemption(
            policy=PreemptionPolicy[self.policy.upper()],
            preemptible=self.preemptible,
            grace_ms=default_ms if self.grace_ms is None else self.grace_ms,
            checkpoint_signal=self.checkpoint_signal or 0,
            min_runtime_ms=self.min_runtime_ms,
            cheap=self.cheap,
        )


class MomentFile(Model):
    """A moment, or a time after the submission, such as the begin of a job."""

    at_ms: Annotated[int, BeforeValidator(moment_ms), Field(ge=1)] | None = Field(default=None, alias="at")
    in_ms: PositiveDuration | None = Field(default=None, alias="in")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.at_ms is None) == (self.in_ms is None):
            raise ValueError('needs either "at", a time, or "in", a duration')
        return self


class DeadlineFile(MomentFile):
    """The deadline of a job, and what becomes of one that cannot be met."""

    on_miss: Literal["continue", "refuse"] = "continue"


def _after(value: object) -> tuple[Dependency, ...]:
    """Read `{etl: success, other: any}`, by names or ids."""
    if not isinstance(value, dict):
        raise ValueError(f"expected jobs and how they end, such as {{etl-daily: success}}, got {shown(value)}")
    return tuple([_dependency(job, value[job]) for job in sorted(value)])


def _dependency(job: str, condition: object) -> Dependency:
    known = [known.name.lower() for known in Condition if known]
    if condition not in known:
        near = suggestion(str(condition), known)
        raise problem_at((job,), f"expected success, failure or any, got {shown(condition)}{near}")
    return Dependency(job=job, condition=Condition[str(condition).upper()])


After = Annotated[tuple[Dependency, ...], BeforeValidator(_after)]


def _range(value: object) -> tuple[int, int, int]:
    """Read the first index, the last, and the step."""
    found = _RANGE.fullmatch(value.strip()) if isinstance(value, str) else None
    if not found:
        raise ValueError(f'expected a range such as "0-999", or "0-999:10" for every tenth, got {shown(value)}')
    first, last, step = int(found[1]), int(found[2]), int(found[3] or 1)
    if not step:
        raise ValueError(f"{shown(value)} is empty: write the lower number first, and a step of 1 at least")
    return first, last, step


def _matrix(value: object) -> tuple[Axis, ...]:
    """Read the axes, in the order in which they are written."""
    if not isinstance(value, dict) or not value:
        raise ValueError(f"expected variables and their values, such as {{LR: [0.1, 0.2]}}, got {shown(value)}")
    return tuple([_axis(key, values) for key, values in value.items()])


def _axis(key: str, values: object) -> Axis:
    if not isinstance(values, list):
        raise problem_at((key,), f"expected a list of values, got {shown(values)}")
    return Axis(name=key, values=tuple([_axis_value(key, place, item) for place, item in enumerate(values)]))


def _axis_value(key: str, place: int, item: object) -> str:
    try:
        return text(item)
    except ValueError as error:
        raise problem_at((key, place), str(error)) from error


class ArrayFile(Model):
    """The elements of an array job."""

    range: Annotated[tuple[int, int, int], BeforeValidator(_range)] | None = None
    matrix: Annotated[tuple[Axis, ...], BeforeValidator(_matrix)] | None = None
    #: How many elements live at once; None: as many as may be.
    parallelism: Annotated[Int32, Field(ge=1)] | None = None
    #: How many elements may fail; None: any number.
    max_failures: Annotated[Int32, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _is_one(self) -> ArrayFile:
        if (self.range is None) == (self.matrix is None):
            raise ValueError('needs either "range", such as 0-999, or "matrix"')
        return self

    def record(self) -> Array:
        first, last, step = self.range or (0, 0, 0)
        return Array(
            first=first,
            last=last,
            step=step,
            matrix=self.matrix or (),
            parallelism=self.parallelism or 0,
            max_failures=-1 if self.max_failures is None else self.max_failures,
        )


class ScheduleFile(Model):
    cron: Text
    timezone: Text = "UTC"
    overlap: Literal["allow", "forbid", "replace"] = "allow"

    @model_validator(mode="after")
    def _comes(self) -> ScheduleFile:
        try:
            zone(self.timezone)
        except ValueError as error:
            raise problem_at(("timezone",), str(error)) from error
        try:
            check_schedule(self.cron, self.timezone)
        except ValueError as error:
            raise problem_at(("cron",), str(error)) from error
        return self
