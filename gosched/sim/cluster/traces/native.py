"""Our own traces: a YAML list of jobs, each as a job file has it, with its moment and its duration.

    - {at: 10s, duration: 5m, checkpoint: 20s, job: {name: train, count: 8, resources: {gpu: 1}}}

A job needs no `run` here. `duration: never` is a service.
"""

from __future__ import annotations

from gosched.config import job_from_flags
from gosched.config.errors import suggestion
from gosched.config.quantity import duration_ms
from gosched.config.tree import Document
from gosched.core.spec.job_spec import JobSpec
from gosched.sim.cluster.trace import Trace, TraceJob, in_order
from gosched.sim.cluster.traces.nodes import entries

NEVER = "never"

_KEYS = ("at", "duration", "checkpoint", "job")
_RUNNABLE = ("run", "tasks", "spark")


def read(text: str, source: str) -> Trace:
    """Read a trace of ours. Raises ConfigError."""
    return Trace(jobs=in_order([_job(entry) for entry in entries(text, source)]))


def _job(entry: Document) -> TraceJob:
    for key in entry.value:
        if key not in _KEYS:
            raise entry.error((key,), f"unknown key{suggestion(key, _KEYS) or '; known here: ' + ', '.join(_KEYS)}")
    for key in ("duration", "job"):
        if key not in entry.value:
            raise entry.error((), f'needs "{key}"')
    endless = entry.value["duration"] == NEVER
    return TraceJob(
        at_ms=_time(entry, "at"),
        spec=_spec(entry),
        duration_ms=None if endless else max(_time(entry, "duration"), 1),
        checkpoint_ms=_time(entry, "checkpoint"),
    )


def _time(entry: Document, key: str) -> int:
    try:
        return duration_ms(entry.value.get(key, 0))
    except ValueError as error:
        raise entry.error((key,), str(error)) from error


def _spec(entry: Document) -> JobSpec:
    job = entry.value["job"]
    origins = {path[1:]: origin for path, origin in entry.origins.items() if path[:1] == ("job",)}
    if isinstance(job, dict) and not any(key in job for key in _RUNNABLE):
        job = {**job, "run": "true"}
    spec = job_from_flags(job, origins)
    if spec.cron:
        raise entry.error(("job", "schedule"), "a schedule has no end: write its runs as jobs of their own")
    return spec
