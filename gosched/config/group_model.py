"""The shape of a task group in a job file: what its tasks run, where, and what of a node they get."""

from __future__ import annotations

import shlex
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gosched.config.errors import shown
from gosched.config.isolation_model import ContainerFile
from gosched.config.placement_model import PlacementFile
from gosched.config.quantity import gpu_millis
from gosched.config.validation import CpuMillis, MemoryBytes, Model, Name, Pairs, env_name, problem_at
from gosched.config.vector import with_custom
from gosched.core.limits import MAX_AMOUNT, MAX_GPUS, MAX_TASKS_PER_JOB
from gosched.core.primitives import StringMap
from gosched.core.resources import MILLI, AmountMap, Resources
from gosched.core.sharing import BUILT_IN
from gosched.core.spec.task_group import Runtime


def _run(value: object) -> str | tuple[str, ...]:
    """Text stays text: what it means depends on the runtime. A list is executed as it stands."""
    if isinstance(value, str) and value.strip():
        return _clean(value)
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


Env = Annotated[Pairs, AfterValidator(_env)]
NodePath = Annotated[str, AfterValidator(_absolute)]


def _task_gpus(value: object) -> int:
    """A share of one GPU, or whole ones: in thousandths."""
    millis = gpu_millis(value)
    if millis > MILLI and millis % MILLI:
        raise ValueError(f"{value} GPUs: a task has a share of one GPU, such as 0.5, or whole ones, such as 2")
    if millis > MAX_GPUS * MILLI:
        raise ValueError(f"expected at most {MAX_GPUS} GPUs for a task, got {value}")
    return millis


def _share(value: object) -> int:
    millis = gpu_millis(value)
    if not 0 < millis < MILLI:
        raise ValueError(f"expected a share of one GPU, 0.001 to 0.999, got {shown(value)}")
    return millis


class Gpus(Model):
    """For each task. `memory` is of each GPU; of one that is shared, the task's share of it."""

    count: Annotated[int, BeforeValidator(_task_gpus)] = MILLI  # in thousandths
    model: Name | None = None
    memory: Annotated[MemoryBytes, Field(le=MAX_AMOUNT)] = 0
    share: Annotated[int, BeforeValidator(_share)] | None = None  # in thousandths

    @model_validator(mode="after")
    def _agree(self) -> Gpus:
        if self.share is not None and self.count != MILLI:
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
        return with_custom(value, BUILT_IN)

    def record(self) -> Resources:
        return Resources(
            cpu_millis=self.cpu,
            memory_bytes=self.memory,
            storage_bytes=self.storage,
            gpu_millis=self.gpu.millis,
            custom=self.custom,
        )


class DistributedFile(Model):
    """`launcher`: what the command is. A task's environment has what both kinds read, so it decides nothing but what
    is refused: torchrun is of torch alone."""

    framework: Literal["torch", "mpi", "none"] = "none"
    launcher: Literal["torchrun", "none"] = "none"

    @model_validator(mode="after")
    def _launches_its_framework(self) -> DistributedFile:
        if self.launcher == "torchrun" and self.framework != "torch":
            raise problem_at(("launcher",), "torchrun starts torch: add framework: torch, or leave launcher out")
        return self


class GroupFile(ContainerFile):
    """Equal tasks. Its keys may also stand at the top of the job, for a job of one group."""

    run: Annotated[str | tuple[str, ...], BeforeValidator(_run)]
    count: int = Field(default=1, ge=1, le=MAX_TASKS_PER_JOB)
    resources: ResourcesFile = ResourcesFile()
    placement: PlacementFile = PlacementFile()
    distributed: DistributedFile = DistributedFile()
    env: Env = ()
    working_dir: NodePath | None = None

    @model_validator(mode="after")
    def _agree(self) -> GroupFile:
        self.check_limits(self.resources.memory)
        try:
            words = self.command()
        except ValueError as error:
            raise problem_at(("run",), f"cannot be split into words ({error}): write a list") from error
        if not words[0]:
            raise problem_at(("run",), "the first word is empty: expected words after spark-submit")
        return self

    def command(self) -> tuple[str, ...]:
        """Text is a line for the shell; of the runtime spark, the words after spark-submit."""
        if not isinstance(self.run, str):
            return self.run
        if self.runs_in is Runtime.SPARK:
            return tuple(shlex.split(self.run))
        return ("/bin/sh", "-c", self.run)
