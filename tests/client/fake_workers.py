"""Workers of an executor as processes of this machine, without a cluster: a client whose jobs are such processes.

The worker and its relay are the real programs; what stands in is the cluster that starts them. Whole clusters are in
tests/integration.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from gosched import GoSchedClient
from gosched.client import LogChunk, NotFound, Unavailable
from gosched.client.handle import JobHandle
from gosched.client.spec import spec_of
from gosched.core.records.job import Children, Job, JobState


class Element:
    def __init__(self, job: Job, command: Sequence[str]) -> None:
        self.job = job
        self.env = {**os.environ, "GOSCHED_ALLOCATION_ID": uuid.uuid4().hex}
        self.output = b""
        try:
            self.process: subprocess.Popen[bytes] | None = subprocess.Popen(
                command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except OSError as error:
            self.process, self.output = None, str(error).encode()

    @property
    def state(self) -> JobState:
        code = 127 if self.process is None else self.process.poll()
        return JobState.RUNNING if code is None else JobState.FAILED if code else JobState.SUCCEEDED

    def log(self) -> bytes:
        if self.process is not None and self.process.stdout is not None and self.process.poll() is not None:
            self.output += self.process.stdout.read()
        return self.output

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(30)


class FakeWorkers(GoSchedClient):
    """A client whose arrays start at once. `execs` are the relays, to break them off."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:1")
        self.arrays: dict[str, Job] = {}
        self.elements: dict[str, Element] = {}
        self.execs: list[LocalExec] = []
        self.cancelled: list[str] = []

    def submit(self, job: Any, *, request_id: str | None = None) -> JobHandle:
        spec = spec_of(job)
        id = f"j-{len(self.arrays) + 1}"
        self.arrays[id] = Job(id=id, spec=spec, sequence=1, submitted_at_ms=1)
        for position in range(spec.array.size):
            name = f"{spec.name}-{position}"
            single = spec_of({**job, "name": name, "array": {"range": "0-0"}})
            child = Job(id=f"{id}.{position}", spec=single, sequence=1, submitted_at_ms=1, parent=id)
            self.elements[name] = Element(child, spec.groups[0].command)
        return JobHandle(job_id=id, name=spec.name, warnings=(), unchanged=False, client=self)

    def get_job(self, job: str) -> Any:  # type: ignore[override]
        job = job.rpartition("/")[2]  # TENANT/NAME
        if job in self.elements:
            element = self.elements[job]
            found = SimpleNamespace(
                id=element.job.id, state=element.state, reason="", detail="", spec=element.job.spec, exit_code=None
            )
            return SimpleNamespace(job=found, failed_elements=())
        if job not in self.arrays:
            raise NotFound(f"no job {job}")
        states = {name: e.state for name, e in self.elements.items() if e.job.parent == job}
        failed = [name for name, state in states.items() if state is JobState.FAILED]
        done = sum(state is JobState.SUCCEEDED for state in states.values())
        over = len(failed) + done == len(states)
        state = JobState.CANCELLED if job in self.cancelled else JobState.SUCCEEDED if over else JobState.RUNNING
        found = SimpleNamespace(
            id=job, state=state, spec=self.arrays[job].spec, children=Children(failed=len(failed), succeeded=done)
        )
        return SimpleNamespace(job=found, failed_elements=tuple(failed))

    def list_jobs(self, **query: Any) -> Any:  # type: ignore[override]
        return [
            SimpleNamespace(spec=SimpleNamespace(name=name, is_parent=False))
            for name, element in self.elements.items()
            if element.state is JobState.RUNNING
        ]

    def cancel(self, job: str, *, reason: str = "", request_id: str | None = None) -> str:  # type: ignore[override]
        self.cancelled.append(job)
        for name, element in self.elements.items():
            if job in (name, element.job.parent):
                element.kill()
        return job

    def logs(self, job: str, **how: Any) -> Iterator[LogChunk]:  # type: ignore[override]
        for element in self.elements.values():
            if element.job.id == job:
                yield LogChunk(task_id="t", allocation_id="a", stream="stdout", offset=0, data=element.log())

    def close(self) -> None:
        super().close()
        for element in self.elements.values():
            element.kill()
            if element.process is not None and element.process.stdout is not None:
                element.process.stdout.close()


class LocalExec:
    """Stands in for Exec: the relay is a process of this machine."""

    def __init__(
        self, client: FakeWorkers, job: str, command: Sequence[str], *, env: Mapping[str, str] | None = None
    ) -> None:
        element = client.elements[job]
        if element.state is not JobState.RUNNING:
            raise Unavailable(f"no task of job {job} runs")
        self.process = subprocess.Popen(
            command, env=element.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.lock = threading.Lock()
        client.execs.append(self)

    def __enter__(self) -> LocalExec:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
        self.process.wait(30)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        assert self.process.stdout is not None
        while data := os.read(self.process.stdout.fileno(), 1 << 16):
            yield "stdout", data

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        try:
            with self.lock:
                self.process.stdin.write(data)
                self.process.stdin.flush()
        except (OSError, ValueError) as error:
            raise Unavailable("the command has ended") from error

    def cancel(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
