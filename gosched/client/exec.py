"""A command beside a task of a job: its input, its output and its terminal.

Invariant: it is requested once: input that went to a command that broke off cannot be sent again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

import grpc

from gosched.client.calls import SCHEDULER, rpc
from gosched.client.client import GoSchedClient
from gosched.client.errors import GoSchedError, Unavailable, from_rpc, is_transient
from gosched.wire.v1 import scheduler_pb2

MAX_INPUT_WAITING = 16  # pieces
CONNECT_S = 10.0
ALIVE_S = 1.0  # between two looks at whether a command that takes no input is still there
EXEC = rpc(SCHEDULER, "ExecTask")


class Exec:
    """One command. Iterate over it for pairs of "stdout" or "stderr" and bytes; `exit_code` is known after that. All
    other methods may be called meanwhile, from any thread or signal handler; only `send` may wait. Raises GoSchedError.
    """

    def __init__(
        self,
        client: GoSchedClient,
        job: str,
        command: Sequence[str],
        *,
        task: str = "",
        env: Mapping[str, str] | None = None,
        size: tuple[int, int] | None = None,
    ) -> None:
        """`task`: such as worker/3; empty: the first one that runs. `size`: rows and columns of its terminal; None: it
        has no terminal."""
        self.exit_code: int | None = None
        self._requests: queue.SimpleQueue[scheduler_pb2.ExecRequest | None] = queue.SimpleQueue()
        self._free_slots = threading.BoundedSemaphore(MAX_INPUT_WAITING)
        start = exec_start(job, command, task, env, size)
        self._requests.put(scheduler_pb2.ExecRequest(start=start))
        channel, _ = next(client._masters.tries(CONNECT_S))
        self._call: Any = EXEC.both(channel)(self._sent())

    def __enter__(self) -> Exec:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        try:
            for response in self._call:
                if part := part_of(response):
                    yield part
                if response.WhichOneof("part") == "exit_code":
                    self.exit_code = response.exit_code
        except grpc.RpcError as error:
            raise broken_off(error) from None
        if self.exit_code is None:
            raise GoSchedError("the command's stream ended without its exit code")

    def send(self, data: bytes) -> None:
        """Write to its stdin; wait while it takes no more. Raises Unavailable when it has ended meanwhile."""
        while not self._free_slots.acquire(timeout=ALIVE_S):
            if not self._call.is_active():
                raise Unavailable("the command has ended, and takes no more input")
        self._requests.put(scheduler_pb2.ExecRequest(stdin=data))

    def end_input(self) -> None:
        self._requests.put(scheduler_pb2.ExecRequest(stdin_end=True))

    def resize(self, rows: int, columns: int) -> None:
        size = scheduler_pb2.TerminalSize(rows=rows, columns=columns)
        self._requests.put(scheduler_pb2.ExecRequest(resize=size))

    def signal(self, number: int) -> None:
        self._requests.put(scheduler_pb2.ExecRequest(signal=number))

    def cancel(self) -> None:
        """End the command."""
        self._requests.put(None)
        with suppress(grpc.RpcError):
            self._call.cancel()

    def _sent(self) -> Iterator[scheduler_pb2.ExecRequest]:
        while (request := self._requests.get()) is not None:
            if request.WhichOneof("part") == "stdin":
                self._free_slots.release()
            yield request


def exec_start(
    job: str, command: Sequence[str], task: str, env: Mapping[str, str] | None, size: tuple[int, int] | None
) -> scheduler_pb2.ExecStart:
    """Return the first message of a command."""
    start = scheduler_pb2.ExecStart(job=job, task=task, command=command, env=env, terminal=size is not None)
    if size is not None:
        start.size.rows, start.size.columns = size
    return start


def part_of(response: scheduler_pb2.ExecResponse) -> tuple[str, bytes] | None:
    """Return what a message has of the command's output."""
    match response.WhichOneof("part"):
        case "stdout":
            return "stdout", response.stdout
        case "stderr":
            return "stderr", response.stderr
    return None


def broken_off(error: Any) -> GoSchedError:
    """Return the exception for a stream that gRPC ended."""
    if not is_transient(error):
        return from_rpc(error)
    detail = " ".join((error.details() or error.code().name).split())[:200]
    return Unavailable(f"the connection broke off, and with it the command: {detail}")
