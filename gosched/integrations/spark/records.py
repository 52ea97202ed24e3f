"""What Spark's APIs say and are told, as records. Times are of the wall clock, in ms since 1970; 0: there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkApplication:
    """An application, and its newest attempt."""

    id: str
    name: str
    user: str
    #: The release of Spark that it runs with; empty: one that does not say.
    version: str
    started_ms: int
    #: 0: it runs.
    ended_ms: int
    completed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStage:
    """A stage, and how many of its tasks there are in which state."""

    id: int
    attempt: int
    #: ACTIVE, PENDING, COMPLETE, FAILED or SKIPPED; later releases may add others.
    status: str
    #: What its last step is, and where it was called from.
    name: str
    tasks: int
    done: int
    running: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkExecutor:
    """An executor, or the driver (`id` is then `driver`)."""

    id: str
    #: HOST:PORT of its blocks.
    address: str
    active: bool
    cores: int
    running_tasks: int
    done_tasks: int
    failed_tasks: int
    memory_used_bytes: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSubmission:
    """An application for a standalone cluster, whose driver runs on one of its workers. Spark takes no Python there."""

    #: A jar, at an address that the workers can read: file:/..., hdfs://..., http://...
    app: str
    main_class: str
    args: tuple[str, ...] = ()
    #: Its own settings, `spark.app.name` among them.
    conf: Mapping[str, str]
    #: Variables of the driver's environment.
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkDriver:
    """A driver that a standalone master was given."""

    #: As the master named it: driver-...
    id: str
    #: SUBMITTED, RUNNING, FINISHED, RELAUNCHING, KILLED, FAILED, ERROR or UNKNOWN; later releases may add others.
    state: str
    #: HOST:PORT of its worker; empty: it has none.
    worker: str
    #: Why it ended as it did; empty: Spark does not say.
    message: str
