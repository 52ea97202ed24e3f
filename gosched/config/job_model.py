"""The shape of a job file, as the contract has it. `LATER` names the keys that this version refuses by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from gosched.config.errors import shown, suggestion
from gosched.config.quantity import gpu_count
from gosched.config.validation import CpuMillis, MemoryBytes, Millis, Model, Name, Pairs
from gosched.core.job import StringMap
from gosched.core.limits import MAX_AMOUNT, MAX_BACKOFF_MS, MAX_DURATION_MS, MAX_PRIORITY, MAX_TASKS_PER_JOB

PRIORITY_CLASSES: Mapping[str, int] = {"low": 250, "normal": 500, "high": 750}


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
        if (
            not key
            or not (key[0].isalpha() or key[0] == "_")
            or not key.replace("_", "a").isalnum()
            or not key.isascii()
        ):
            raise ValueError(f"{shown(key)} cannot be the name of an environment variable")
        if key.startswith("GOSCHED_"):
            raise ValueError(f"{key}: names that begin with GOSCHED_ are set by gosched")
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


def _member_floor(value: object) -> object:
    """The whole gang, written as `all`, its number of tasks, or 100%."""
    if value in ("all", "100%"):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str) and value.removesuffix("%").isdigit():
        raise ValueError("less than all is not supported by this version yet")
    raise ValueError(f"expected all, got {shown(value)}")


class Gpus(Model):
    LATER: ClassVar[frozenset[str]] = frozenset({"memory", "share"})

    count: Annotated[int, BeforeValidator(gpu_count)] = 1
    model: Name | None = None


def _on_disconnect(value: object) -> object:
    if value == "stop":
        raise ValueError("stop is not supported by this version yet: use keep")
    return value


def _gpus(value: Any) -> Any:
    """`2`, `h100:8` or the mapping."""
    if isinstance(value, str) and ":" in value:
        model, _, count = value.partition(":")
        return {"model": model, "count": count}
    return value if isinstance(value, dict) else {"count": value}


class ResourcesFile(Model):
    """For each task. CPUs that are not asked for are one CPU."""

    cpu: Annotated[CpuMillis, Field(le=MAX_AMOUNT)] = 1000
    memory: Annotated[MemoryBytes, Field(le=MAX_AMOUNT)] = 0
    storage: Annotated[MemoryBytes, Field(le=MAX_AMOUNT)] = 0
    gpu: Annotated[Gpus, BeforeValidator(_gpus)] = Gpus(count=0)


class PlacementFile(Model):
    LATER: ClassVar[frozenset[str]] = frozenset({"topology", "affinity", "anti_affinity", "tolerations"})

    strategy: Literal["binpack", "spread"] | None = None
    node_selector: Pairs = ()


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
    LATER: ClassVar[frozenset[str]] = frozenset({"wait"})

    min: Annotated[int | None, BeforeValidator(_member_floor)] = None
    on_member_failure: Literal["restart_gang", "fail_job"] = "restart_gang"


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

    LATER: ClassVar[frozenset[str]] = frozenset(
        {"spark", "array", "after", "deadline", "timeout", "estimate", "hold", "preemption"}
    )
    MOVED: ClassVar[frozenset[str]] = frozenset(GroupFile.model_fields)

    name: Name
    queue: Name = "default"
    tenant: Name = "default"
    priority: Annotated[int, BeforeValidator(_priority)] = PRIORITY_CLASSES["normal"]
    labels: Pairs = ()
    gang: GangFile = GangFile()
    tasks: dict[Name, GroupFile]
    retry: RetryFile = RetryFile()
    on_disconnect: Annotated[Literal["keep"], BeforeValidator(_on_disconnect)] = "keep"
    stop_grace_ms: Annotated[Millis, Field(le=MAX_DURATION_MS)] = Field(default=10_000, alias="stop_grace")
