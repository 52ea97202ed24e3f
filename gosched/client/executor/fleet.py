"""The array jobs whose elements are an executor's workers.

Invariant: there are at most `max_workers` elements that have not ended.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gosched.client.client import GoSchedClient
from gosched.client.errors import GoSchedError, Misused, NotFound, Refused
from gosched.client.executor.pickling import worker_source
from gosched.client.handle import JobHandle
from gosched.core.records.job import Job, JobState

OWN_KEYS = ("name", "run", "array", "tasks", "spark", "schedule", "gang")
END_S = 5.0  # for workers to end by themselves, before their job is cancelled
LOOK_S = 0.1
LOG_BYTES = 2000


@dataclass(slots=True)
class Array:
    """One submitted array."""

    job: JobHandle
    size: int
    #: Elements that have ended, and those of them that failed.
    ended: int = 0
    failed: int = 0
    is_over: bool = False


class Fleet:
    """Submits arrays, and tells which of their elements run."""

    def __init__(self, client: GoSchedClient, name: str, python: str, keys: Mapping[str, object]) -> None:
        taken = next((key for key in OWN_KEYS if key in keys), "")
        if taken:
            raise Misused(f"GoSchedExecutor(): job: {taken} is the executor's own: leave it out")
        self.arrays: list[Array] = []
        self.python = python
        self._client, self._name = client, name
        self._id, self._keys = uuid.uuid4().hex[:8], keys

    @property
    def alive(self) -> int:
        return sum(array.size - array.ended for array in self.arrays if not array.is_over)

    @property
    def failed(self) -> int:
        return sum(array.failed for array in self.arrays)

    def submit(self, size: int) -> None:
        """Submit an array of so many workers. Raises GoSchedError."""
        name = f"{self._name}-{self._id}-{len(self.arrays) + 1}"
        job: dict[str, Any] = {
            "name": name,
            "run": [self.python, "-u", "-c", worker_source(), "work"],
            "array": {"range": f"0-{size - 1}"},
            **self._keys,
        }
        self.arrays.append(Array(job=self._client.submit(job), size=size))

    def refresh(self) -> str:
        """Look at the arrays that are not over. Return why no more workers can come, such as a cancelled job."""
        for array in self.arrays:
            if array.is_over:
                continue
            job = self._client.get_job(array.job.id).job
            children = job.children
            array.ended, array.failed = children.succeeded + children.failed + children.cancelled, children.failed
            array.is_over = job.state.is_final
            if job.state is JobState.CANCELLED:
                return f"its job {job.spec.name} was cancelled"
        return ""

    def running(self) -> list[Job]:
        """Return the elements that run."""
        live = [array.job.id for array in self.arrays if not array.is_over]
        return [job for id in live for job in self._client.list_jobs(states=[JobState.RUNNING], parent=id)]

    def why_failed(self) -> str:
        """Return how the worker that failed last ended, and the end of what it wrote."""
        for array in reversed(self.arrays):
            with suppress(NotFound):
                found = self._client.get_job(array.job.id)
                if found.failed_elements:
                    return self._end_of(f"{found.job.spec.tenant}/{found.failed_elements[0]}")
        return "why is not known"

    def how_ended(self, element: str) -> str:
        """Return in what way a worker was lost; empty: it runs."""
        try:
            job = self._client.get_job(element).job
        except NotFound:
            return "its job is forgotten"
        if job.state is JobState.RUNNING:
            return ""
        return ": ".join(part for part in (job.state.name, job.reason, job.detail) if part)

    def drop(self, element: str) -> None:
        """Cancel one worker. Raises GoSchedError."""
        self._client.cancel(element, reason="the executor cannot use it")

    def end(self, *, at_once: bool) -> None:
        """Let the workers end that were told to, unless `at_once`, then cancel what is left. Raises GoSchedError."""
        ends = time.monotonic() + (0 if at_once else END_S)
        while time.monotonic() < ends and self.running():
            time.sleep(LOOK_S)
        self.refresh()
        for array in self.arrays:
            if not array.is_over:
                with suppress(Refused):  # it has ended meanwhile
                    array.job.cancel("the executor has shut down")

    def _end_of(self, element: str) -> str:
        job = self._client.get_job(element).job
        words = f"{element} is {self.how_ended(element)}"
        data = b""
        with suppress(GoSchedError):  # such as a log that is not kept
            for chunk in self._client.logs(job.id, timeout_s=10.0):
                data = (data + chunk.data)[-LOG_BYTES:]
        text = data.decode("utf-8", "replace").strip()
        return f"{words}\n{text}" if text else words
