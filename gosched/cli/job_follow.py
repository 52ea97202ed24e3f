"""A job that was just submitted, followed to its end: its progress on stderr, and what its tasks write."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from gosched.cli.job_input import AnyJob
from gosched.cli.logs_command import print_logs
from gosched.cli.output import say
from gosched.cli.progress import ending, follow
from gosched.client import GoSchedClient, JobDetail, NotFound
from gosched.config.errors import ConfigError
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState


def wait_shown(client: GoSchedClient, job: str, timeout_s: float | None) -> JobDetail:
    """Wait until the job ends, show its progress meanwhile, and return it."""
    *_, last = follow(client.watch(job, timeout_s=timeout_s))
    say(f"{last.job.spec.name}: {ending(last)}")
    return last


def followed(
    client: GoSchedClient,
    spec: AnyJob,
    job: str,
    timeout_s: float | None = None,
    out: BinaryIO | None = None,
    task: str = "",
) -> JobDetail:
    """Show the job's progress until it starts, print its logs until it has ended (of one `task` alone, if it is
    given), to `out` if there is one, and return it. Of an array only the progress is shown."""
    if spec.is_parent:
        return wait_shown(client, job, timeout_s)
    ends = None if timeout_s is None else time.monotonic() + timeout_s
    for _ in follow(until_started(client, job, timeout_s)):
        pass
    printed = contextlib.nullcontext() if out is None else _printed_to(out)
    with printed, contextlib.suppress(NotFound):  # it never started: how it ended says why
        chunks = client.logs(job, follow=True, task=task, timeout_s=_left(ends))
        print_logs(chunks, prefixed=spec.task_count > 1 and not task)
    return client.wait(job, _left(ends))


@contextlib.contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """Open the file for the output of a job. Raises ConfigError."""
    try:
        file = path.open("wb")
    except OSError as error:
        raise ConfigError(f"--output: cannot write {path}: {error.strerror or error}") from error
    with file:
        yield file


@contextlib.contextmanager
def _printed_to(file: BinaryIO) -> Iterator[None]:
    """Let the file have what is printed on stdout and stderr, in the order in which it comes."""
    text = io.TextIOWrapper(file, encoding="utf-8", write_through=True)
    try:
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            yield
    finally:
        text.detach()


def until_started(client: GoSchedClient, job: str, timeout_s: float | None) -> Iterator[JobDetail]:
    """Yield the job at each change until its tasks run, or it has ended."""
    for detail in client.watch(job, timeout_s=timeout_s):
        yield detail
        waiting = any(task.state <= TaskState.STARTING for task in detail.tasks)
        if detail.state is JobState.RUNNING and not waiting:
            return


def _left(ends: float | None) -> float | None:
    return None if ends is None else max(0.0, ends - time.monotonic())
