"""The pages of a job's logs and of its spec."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.config.jobs.writer import Unwritable, job_text
from gosched.core.spec.job_spec import JobSpec
from gosched.master.web.job_head import JobHead, find_job, head_of
from gosched.master.web.page import Asked
from gosched.master.web.sources import Sources

MAX_NAMES = 200  # tasks that can be chosen from a list; others are named by hand


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsView:
    """The page of the logs."""

    head: JobHead
    #: Names of tasks to choose from; empty: there are too many.
    names: tuple[str, ...]
    #: The one that the address chooses; empty: all.
    task: str
    #: 0: the newest.
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecView:
    """The page of the spec."""

    head: JobHead
    #: As a job file.
    text: str


async def logs_page(sources: Sources, asked: Asked) -> LogsView:
    """Return the page of the logs. Raises NoSuchPage."""
    job = find_job(sources, asked.caller, asked.params["job"])
    groups = job.spec.groups if not job.spec.is_parent else ()
    many = sum([group.count for group in groups]) > MAX_NAMES
    names = [] if many else [f"{group.name}/{index}" for group in groups for index in range(group.count)]
    return LogsView(
        head=head_of(sources.state, job, asked.words),
        names=tuple(names),
        task=asked.query.text("task"),
        attempt=asked.query.number("attempt", 0, least=1, most=1_000_000),
    )


async def spec_page(sources: Sources, asked: Asked) -> SpecView:
    """Return the page of the spec. Raises NoSuchPage."""
    job = find_job(sources, asked.caller, asked.params["job"])
    return SpecView(head=head_of(sources.state, job, asked.words), text=spec_text(job.spec))


def spec_text(spec: JobSpec) -> str:
    """Return a spec as a job file."""
    try:
        return job_text(spec)
    except Unwritable as error:
        return f"# no job file says this: {error}\n"
