"""A stream of jobs that goes on while a cluster is changed, and what became of each of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import TracebackType

from gosched.client import GoSchedClient
from gosched.core.records.job import JobState
from tests.integration.support import PATIENCE_S, starts, until

PAUSE_S = 0.2  # between two submissions


def counted_job(name: str, ledger: str, *, count: int = 1, then: str = "true") -> str:
    """Each task appends one line when it starts: task id, attempt, pid."""
    return (
        f"name: {name}\ncount: {count}\nresources: {{cpu: 10m, memory: 1Mi}}\nstop_grace: 1s\n"
        f"run: 'echo \"$GOSCHED_TASK_ID $GOSCHED_ATTEMPT $$\" >> {ledger}; {then}'\n"
    )


class Stream:
    """Submits one small job after the other until it ends. A gang runs all the while.

    `ledger` is a file of this host that the tasks know as `inside`.
    """

    def __init__(self, client: Callable[[], GoSchedClient], ledger: Path, inside: str, tag: str) -> None:
        self._client = client
        self._ledger = ledger
        self._inside = inside
        self._tag = tag
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._submit)
        self._acknowledged: dict[str, str] = {}
        self._times: list[float] = []
        self._problems: list[str] = []

    def __enter__(self) -> Stream:
        with self._client() as client:
            self._steady = client.submit(
                counted_job(f"{self._tag}-steady", self._inside, count=2, then="sleep 100000")
            ).job_id
            until(lambda: len(self._starts_of(self._steady)) == 2, "the gang runs")
        self._thread.start()
        self.await_more(3)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.await_more(3)
        self._stop.set()
        self._thread.join(PATIENCE_S)

    def await_more(self, count: int) -> None:
        """Wait until so many more submissions were acknowledged."""
        before = len(self._times)
        until(lambda: len(self._times) >= before + count, f"{self._tag}: submissions are acknowledged")

    def longest_gap_s(self, since: float) -> float:
        """Return the longest time without an acknowledged submission, of all that ended after `since`."""
        times = self._times
        return max(b - a for a, b in pairwise(times) if b > since)

    def judge(self) -> str:
        """Assert that no job was lost, ran twice or was disturbed; return the counts as a line."""
        with self._client() as client:
            for job, name in self._acknowledged.items():
                detail = client.wait(job, timeout=PATIENCE_S)
                if detail.state is not JobState.SUCCEEDED or detail.job.attempt != 1:
                    self._problems.append(f"{name}: {detail.state.name} in attempt {detail.job.attempt}")
            steady = client.get_job(self._steady)
            client.cancel(self._steady)
        lost = [job for job in self._acknowledged if not self._starts_of(job)]
        twice = [job for job in self._acknowledged if len(self._starts_of(job)) > 1]
        disturbed = steady.job.state is not JobState.RUNNING or len(self._starts_of(self._steady)) != 2
        counts = f"{len(self._acknowledged)} jobs, lost {len(lost)}, twice {len(twice)}, disturbed {disturbed:d}"
        wrong = bool(self._problems or lost or twice or disturbed)
        assert not wrong, (counts, self._problems)
        return counts

    def _starts_of(self, job: str) -> list[str]:
        return [task for task, _, _ in starts(self._ledger) if task.split("/")[0] == job]

    def _submit(self) -> None:
        number = 0
        with self._client() as client:
            while not self._stop.is_set():
                name = f"{self._tag}-{number}"
                number += 1
                try:
                    self._acknowledged[client.submit(counted_job(name, self._inside)).job_id] = name
                    self._times.append(time.monotonic())
                except Exception as error:
                    self._problems.append(f"{name} was not accepted: {error}")
                time.sleep(PAUSE_S)
