"""What an application of Spark says of itself while it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """A stage that runs, and how many of its tasks there are in which state."""

    id: int
    #: The first is 0.
    attempt: int
    #: Its last step, and where that stands in the application.
    name: str
    tasks: int
    done: int
    running: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkProgress:
    """An application, by its driver's newest word."""

    #: Its id.
    application: str
    #: Address of its UI, which is there while it runs.
    ui: str
    #: Its address on the history server; empty: none is known.
    history: str
    #: Those that run, the first ones by id.
    stages: tuple[StageProgress, ...]
    #: How many stages run or wait that are not among them.
    more_stages: int
    #: How many executors it has work for now; None: their number is fixed.
    executors: int | None = None
