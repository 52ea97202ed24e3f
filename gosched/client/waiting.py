"""Waits for several jobs at once: by the events of their ends, one stream for all of them.

Invariant: every job is yielded once. The revision is noted before the jobs are looked at, so that no end falls between;
each job is looked at, however short the time is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from gosched.client.arguments import checked
from gosched.client.client import GoSchedClient
from gosched.client.errors import Misused, Refused, TimedOut
from gosched.client.handle import JobHandle, handles
from gosched.client.requests.history import ENDS
from gosched.client.transport import left_s

ReturnWhen = Literal["ALL_COMPLETED", "FIRST_COMPLETED"]


class Waited(NamedTuple):
    """What `wait` returns, as `concurrent.futures.wait` does."""

    done: set[JobHandle]
    not_done: set[JobHandle]


@checked
def as_completed(jobs: Iterable[JobHandle], timeout: float | None = None) -> Iterator[JobHandle]:
    """Yield each job when it has ended, in the order of the ends. Raises TimedOut after `timeout` seconds."""
    open_jobs = {job.job_id: job for job in handles(jobs, JobHandle)}
    clients = {id(job.client): job.client for job in open_jobs.values()}
    if len(clients) > 1:
        raise Misused("the jobs are of different clients: wait for those of each client by themselves")
    for client in clients.values():
        yield from _of_client(client, open_jobs, None if timeout is None else time.monotonic() + timeout)


@checked
def wait(jobs: Iterable[JobHandle], timeout: float | None = None, return_when: ReturnWhen = "ALL_COMPLETED") -> Waited:
    """Return the jobs that have ended, and those that have not after `timeout` seconds or, with FIRST_COMPLETED, when
    the first one ended."""
    every, done = set(handles(jobs, JobHandle)), set[JobHandle]()
    try:
        for job in as_completed(every, timeout):
            done.add(job)
            if return_when == "FIRST_COMPLETED":
                break
    except TimedOut:
        pass  # what has not ended by then is in the answer
    return Waited(done, every - done)


def _of_client(client: GoSchedClient, open_jobs: dict[str, JobHandle], ends: float | None) -> Iterator[JobHandle]:
    while open_jobs:
        revision = client.list_events(limit=1).revision
        for job_id in list(open_jobs):
            if client.get_job(job_id).state.is_final:
                yield open_jobs.pop(job_id)
        if not open_jobs:
            return
        try:
            for event in client.watch_events(after=revision, kinds=ENDS, timeout_s=left_s(ends)):
                if event.job_id in open_jobs:
                    yield open_jobs.pop(event.job_id)
                if not open_jobs:
                    return
        except Refused:
            continue  # what followed is not kept any more: look at each job again
