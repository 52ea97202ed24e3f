"""The shape of a job file, as the contract has it. `LATER` names the keys that this version refuses by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gosched.config.errors import shown, suggestion
from gosched.config.placement_model import PlacementFile
from gosched.config.quantity import gpu_millis
from gosched.config.time_model import (
    After,
    ArrayFile,
    DeadlineFile,
    Duration,
    PositiveDuration,
    PreemptionFile,
    ScheduleFile,
)
from gosched.config.validation import CpuMillis, MemoryBytes, Millis, Model, Name, Pairs, env_name, problem_at
from gosched.config.vector import with_custom
from gosched.core.job import StringMap
from gosched.core.limits import (
    MAX_AMOUNT,
    MAX_BACKOFF_MS,
    MAX_DURATION_MS,
    MAX_GPUS,
    MAX_PRIORITY,
    MAX_TASKS_PER_JOB,
)
from gosched.core.resources import GPU, AmountMap

PRIORITY_CLASSES: Mapping[str, int] = {"low": 250, "normal": 500, "high": 750}

_PERCENT = re.compile(r"(?:[1-9][0-9]?|100)%")


def _priority(value: object) -> int:
    if isinstance(value, str) and value in PRIORITY_CLASSES:
        return PRIORITY_CLASSES[value]
    if isinstance(value, str) and value.isdigit() and len(value) < 10:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_PRIORITY:
        near = suggestion(str(value), PRIORITY_CLASSES)
        raise ValueError(f"expected low, normal, high or a number from 0 to {MAX_PRIORITY}, got {shown(value)}{near}")
    return value


def _command(value: object) -> tuple[str, ...]:
    """Text is a line for the shell; a list is executed as it stands."""
    if isinstance(value, str) and value.strip():
        return ("/bin/sh", "-c", _clean(value))
    if isinstance(value, list | tuple) and value:
        words = tuple(_clean(str(word)) for word in value if not isinstance(word, dict | list | bool | None))
        if len(words) == len(value) and words[0]:
            return words
    raise ValueError(
        f"expected a line for the shell, or a list of words such as [python3, train.py], got {shown(value)}"
    )


def _clean(text: str) -> str:
    if "\0" in text:
        raise ValueError("has a NUL character")
    return text


def _env(pairs: StringMap) -> StringMap:
    for key, _ in pairs:
        env_name(key)
    return pairs


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"expected an absolute path on the node, got {shown(value)}")
    return _clean(value)


def _runtime(value: object) -> object:
    if value in ("rootfs", "docker", "spark"):
        raise ValueError(f"{value} is not supported by this version yet: use process")
    return value


def _causes(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _member_floor(value: object) -> int | str | None:
    """`all`, a number of tasks, or a percent, which stays text."""
    if value in ("all", "100%"):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        return value
    raise ValueError(f"expected all, a number of tasks or a percent such as 50%, got {shown(value)}")


def _on_disconnect(value: object) -> object:
    if value == "stop":
        raise ValueError("stop is not supported by this version yet: use keep")
    return value


def _task_gpus(value: object) -> int:
    """A share of one GPU, or whole ones: in thousandths."""
    millis = gpu_millis(value)
    if millis > GPU and millis % GPU:
        raise ValueError(f"{value} GPUs: a task has a share of one GPU, such as 0.5, or whole ones, such as 2")
    if millis > MAX_GPUS * GPU:
        raise ValueError(f"expected at most {MAX_GPUS} GPUs for a task, got {value}")
    return millis


def _share(value: object) -> int:
    millis = gpu_millis(value)
    if not 0 < millis < GPU:
        raise ValueError(f"expected a share of one GPU, 0.001 to 0.999, got {shown(value)}")
    return millis


class Gpus(Model):
    """For each task. `memory` is of each GPU; of one that is shared, the task's share of it."""

    count: Annotated[int, BeforeValidator(_task_gpus)] = GPU  # in thousandths
    model: Name | None = None
    memory: Annotated[MemoryBytes, Field(le=MAX_AMOUNT)] = 0
    share: Annotated[int, BeforeValidator(_share)] | None = None  # in thousandths

    @model_validator(mode="after")
    def _agree(self) -> Gpus:
        if self.share is not None and self.count != GPU:
            raise ValueError("share is of one GPU: leave count out, or make it 1")
        if self.memory and not self.count:
            raise ValueError("memory is what each GPU must have, and count is 0")
        return self

    @property
    def millis(self) -> int:
        return self.count if self.share is None else self.share


def _gpus(value: Any) -> Any:
    """`0.5`, `2`, `h100:8` or the mapping."""
    if isinstance(value, dict):
        return value
    model, colon, count = value.partition(":") if isinstance(value, str) else ("", "", value)
    written = {"count": count, "model": model} if colon else {"count": value}
    _task_gpus(written["count"])  # so that an error names the key that people wrote
    return written


class ResourcesFile(Model):
    """For each task. CPUs that are not asked for are one CPU."""

    cpu: Annotated[CpuMillis, Field(le=MAX_AMOUNT)] = 1000
    memory: Annotated[MemoryBytes, Field(le=MAX_AMOUNT)] = 0
    storage: Annotated[MemoryBytes, Field(le=MAX_AMOUNT)] = 0
    gpu: Annotated[Gpus, BeforeValidator(_gpus)] = Gpus(count=0)
    custom: AmountMap = Field(default=(), alias="custom resources")

    @model_validator(mode="before")
    @classmethod
    def _own_names(cls, value: Any) -> Any:
        return with_custom(value, ("cpu", "memory", "storage", "gpu"))


class DistributedFile(Model):
    LATER: ClassVar[frozenset[str]] = frozenset({"launcher"})

    framework: Literal["torch", "mpi", "none"] = "none"


class GroupFile(Model):
    """Equal tasks. Its keys may also stand at the top of the job, for a job of one group."""

    LATER: ClassVar[frozenset[str]] = frozenset({"image", "volumes"})

    run: Annotated[tuple[str, ...], BeforeValidator(_command)]
    count: int = Field(default=1, ge=1, le=MAX_TASKS_PER_JOB)
    runtime: Annotated[Literal["process"], BeforeValidator(_runtime)] = "process"
    resources: ResourcesFile = ResourcesFile()
    placement: PlacementFile = PlacementFile()
    distributed: DistributedFile = DistributedFile()
    env: Annotated[Pairs, AfterValidator(_env)] = ()
    working_dir: Annotated[str, AfterValidator(_absolute)] | None = None


class GangFile(Model):
    """`min` None: all. A percent is of each task group. `wait_ms` 0: for ever."""

    min: Annotated[int | str | None, BeforeValidator(_member_floor)] = None
    on_member_failure: Literal["restart_gang", "fail_job", "continue"] = "restart_gang"
    wait_ms: Duration = Field(default=0, alias="wait")


class RetryFile(Model):
    """`when` says what counts: by default only what the job is not to blame for."""

    max: int = Field(default=3, ge=0, le=1000)
    backoff_ms: Annotated[Millis, Field(le=MAX_BACKOFF_MS)] = Field(default=0, alias="backoff")
    when: Annotated[tuple[Literal["node_lost", "preempted", "failed"], ...], BeforeValidator(_causes)] = (
        "node_lost",
        "preempted",
    )


class JobFile(Model):
    """`tasks` always stands here: the flat form is turned into it before."""

    LATER: ClassVar[frozenset[str]] = frozenset({"spark"})
    MOVED: ClassVar[frozenset[str]] = frozenset(GroupFile.model_fields)

    name: Name
    queue: Name = "default"
    tenant: Name = "default"
    priority: Annotated[int, BeforeValidator(_priority)] = PRIORITY_CLASSES["normal"]
    labels: Pairs = ()
    gang: GangFile = GangFile()
    tasks: dict[Name, GroupFile]
    retry: RetryFile = RetryFile()
    preemption: PreemptionFile = PreemptionFile()
    deadline: DeadlineFile | None = None
    estimate_ms: PositiveDuration | None = Field(default=None, alias="estimate")
    timeout_ms: PositiveDuration | None = Field(default=None, alias="timeout")
    hold: bool = False
    after: After = ()
    array: ArrayFile | None = None
    schedule: ScheduleFile | None = None
    on_disconnect: Annotated[Literal["keep"], BeforeValidator(_on_disconnect)] = "keep"
    stop_grace_ms: Annotated[Millis, Field(le=MAX_DURATION_MS)] = Field(default=10_000, alias="stop_grace")

    @model_validator(mode="after")
    def _estimate_fits(self) -> JobFile:
        if self.estimate_ms is not None and self.timeout_ms is not None and self.estimate_ms > self.timeout_ms:
            raise problem_at(("estimate",), "is longer than timeout, when the job is ended: make it shorter")
        return self
