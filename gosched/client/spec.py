"""Jobs as people write them in Python: with the keys and the units of a job file.

Invariant: what a job may say is decided by the reader of job files alone, so a mistake has the same words in Python and
in YAML. It is imported with the first job that is not a JobSpec already: it takes long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

from gosched.client.arguments import given_as
from gosched.client.errors import Misused
from gosched.core.spec.job_spec import JobSpec

_FILE_ENDS = (".yaml", ".yml", ".json")
_MAX_DEPTH = 20

Keys: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Tasks:
    """A group of equal tasks. None is the job file's default; mappings hold the keys of the job file."""

    #: A line for /bin/sh, or a list of words.
    run: str | Sequence[str] | None = None
    #: How many tasks; 1.
    count: int | None = None
    #: Of each task: {"cpu": 2, "memory": "4Gi", "gpu": "h100:8"}.
    resources: Keys | None = None
    #: Added to each task's environment.
    env: Mapping[str, str | int] | None = None
    #: Secrets of the tenant: [{"name": "hf-token", "env": "HF_TOKEN"}, {"name": "db", "file": "db/password"}].
    secrets: Sequence[Keys] | None = None
    working_dir: str | Path | None = None
    image: str | None = None
    #: process | rootfs | docker | spark; by default what `image` asks for.
    runtime: str | None = None
    #: Topology, strategy, node_selector, affinity, tolerations.
    placement: Keys | None = None
    #: {"framework": "torch", "launcher": "torchrun"}.
    distributed: Keys | None = None
    volumes: Sequence[Keys | str] | None = None
    user: str | int | None = None
    umask: str | None = None
    rlimits: Keys | None = None
    limits: Keys | None = None
    network: str | None = None
    read_only: bool | None = None
    pull: str | None = None
    registry: str | None = None

    def given(self) -> dict[str, object]:
        """Return what is not None, the name first."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {key: values[key] for key in sorted(values, key=lambda key: key != "name") if values[key] is not None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.given().items())})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Job(Tasks):
    """A job as people write it: `Job(name="x", run=["python", "t.py"], resources={"cpu": 2}, count=4)`.

    It has the keys of a job file, those of its only task group included; `tasks` names several groups instead.
    Durations are text such as "30m", or a timedelta.
    """

    name: str
    #: Path of a leaf: research.llm.
    queue: str | None = None
    tenant: str | None = None
    #: low | normal | high, or 0 to 1000.
    priority: str | int | None = None
    labels: Mapping[str, str] | None = None
    gang: Keys | None = None
    tasks: Mapping[str, Tasks | Keys] | None = None
    spark: Keys | None = None
    retry: Keys | None = None
    preemption: Keys | None = None
    #: When it begins at the earliest: {"at": ...} or {"in": "6h"}.
    begin: Keys | None = None
    deadline: Keys | None = None
    #: How long it runs, as far as is known.
    estimate: str | timedelta | None = None
    #: An attempt is ended after it.
    timeout: str | timedelta | None = None
    hold: bool | None = None
    #: Jobs that must end first: {"etl": "success"}.
    after: Keys | None = None
    #: {"range": "0-99", "parallelism": 10}, or {"matrix": ...}.
    array: Keys | None = None
    schedule: Keys | None = None
    on_disconnect: str | None = None
    stop_grace: str | timedelta | None = None


JobLike: TypeAlias = Job | JobSpec | Mapping[str, object] | str | Path


def spec_of(job: JobLike) -> JobSpec:
    """Return the spec of one job: a Job, the keys of a job file, YAML text, or the path of a file. Raises Misused."""
    specs = specs_of(job)
    if len(specs) != 1:
        raise Misused(f"{len(specs)} jobs in it: give them to submit_all()")
    return specs[0]


def specs_of(jobs: JobLike | Sequence[JobLike]) -> list[JobSpec]:
    """Return the specs of one or several jobs; those that wait for others of their file come after them. Raises
    Misused."""
    match jobs:
        case JobSpec():
            return [jobs]
        case Job() | Mapping():
            return [_from_keys(jobs)]
        case str() | Path():
            return _from_text(jobs)
        case Sequence():
            return [spec for job in jobs for spec in specs_of(job)]
    raise Misused(f"expected a Job, a mapping, YAML text or a path, got {given_as(jobs)}")


def _from_keys(job: Job | Mapping[str, object]) -> JobSpec:
    from gosched.config.errors import ConfigError  # slow, see the module's invariant
    from gosched.config.jobs.jobfile import job_of
    from gosched.config.tree import Document

    keys = _plain(job, 0)
    try:
        return job_of(Document(value=keys, source=f"job {keys.get('name', '')!a}"))
    except ConfigError as error:
        raise Misused(str(error)) from error


def _from_text(job: str | Path) -> list[JobSpec]:
    from gosched.config.errors import ConfigError  # slow, see the module's invariant
    from gosched.config.jobs.jobfile import parse_job_file

    path = Path(job) if isinstance(job, Path) or _is_path(job) else None
    try:
        return parse_job_file(str(job) if path is None else path.read_bytes(), "job" if path is None else str(path))
    except OSError as error:
        raise Misused(f"cannot read the job file {path}: {error.strerror or error}") from error
    except (ConfigError, ValueError) as error:
        raise Misused(str(error)) from error


def _is_path(text: str) -> bool:
    return "\n" not in text and text.endswith(_FILE_ENDS)


def _plain(value: object, depth: int) -> Any:
    """Return the value as the reader of job files takes it: of dict, list, str, int, Decimal, bool and None."""
    if depth > _MAX_DEPTH:
        raise Misused(f"a job is at most {_MAX_DEPTH} levels deep")
    match value:
        case None | bool() | str() | int() | Decimal():
            return value
        case float():
            return Decimal(str(value))
        case timedelta():
            return f"{value // timedelta(milliseconds=1)}ms"
        case datetime():
            return value.isoformat()
        case Path():
            return str(value)
        case Tasks():
            return {name: _plain(item, depth + 1) for name, item in value.given().items()}
        case Mapping():
            return {_key(name): _plain(item, depth + 1) for name, item in value.items()}
        case bytes() | bytearray():
            pass
        case Sequence():
            return [_plain(item, depth + 1) for item in value]
    raise Misused(f"a job is made of mappings, lists, text and numbers, not of {given_as(value)}")


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise Misused(f"the keys of a job are text, got {given_as(name)}")
    return name
