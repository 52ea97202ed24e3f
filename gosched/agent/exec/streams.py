"""Commands beside tasks: what comes and goes on one stream of WorkerService.Exec.

Invariant: the command ends with the stream. A helper process (exec_child.py) starts it, watches the other end of a
socket, and ends it whatever becomes of this process; forking here, beside gRPC's threads, would be dangerous.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import grpc

import gosched
from gosched.agent.exec.child import ExecOrder, Report
from gosched.wire.v1 import scheduler_pb2

MAX_EXECS = 64
MAX_REPORT_BYTES = 16 * 1024
CHUNK_BYTES = 64 * 1024
START_LIMIT_S = 10.0  # for the first message
DRAIN_S = 1.0  # another program, which got the output from the command, may keep it open for good
CLOSE_LIMIT_S = 5.0
MAX_TERMINAL = 65_535
END_OF_INPUT = b"\x04"  # of a terminal

_LIBRARY = str(Path(gosched.__file__).parents[1])
_HELPER = f"import sys; sys.path.insert(0, {_LIBRARY!r}); from gosched.agent.exec.child import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecTarget:
    """A task of this node."""

    #: Directory of its allocation, where `launch.json` is.
    path: Path
    #: Its main process; 0: there is none to look at.
    pid: int
    #: Why no command can run beside it now, such as "it is STARTING". Empty: one can.
    problem: str = ""


class ExecRefused(Exception):
    """One line for people."""

    def __init__(self, code: grpc.StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Execs:
    """All commands of this node. A command counts until nothing of it is left."""

    def __init__(self, limit: int = MAX_EXECS) -> None:
        self._limit = limit
        self._helpers: set[asyncio.Task[None]] = set()

    async def run(
        self,
        requests: AsyncIterator[scheduler_pb2.ExecRequest],
        find: Callable[[scheduler_pb2.ExecStart], ExecTarget | None],
    ) -> AsyncIterator[scheduler_pb2.ExecResponse]:
        """Run the command of a stream. `find` gets the first message. Raises ExecRefused."""
        start = await _start_of(requests)
        target = find(start)
        if target is None:
            raise ExecRefused(grpc.StatusCode.NOT_FOUND, f"no task {start.allocation_id[:200]!a} on this node")
        if target.problem:
            what = f"no command can run beside {start.allocation_id}: {target.problem}"
            raise ExecRefused(grpc.StatusCode.FAILED_PRECONDITION, what)
        if len(self._helpers) >= self._limit:
            what = f"{self._limit} commands run beside the tasks of this node already; try again later"
            raise ExecRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, what)
        try:
            command = _Command(start)
        except OSError as error:
            raise ExecRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, f"the node cannot start it: {error}") from error
        self._keep(command.helper)
        feeding: asyncio.Task[None] | None = None
        try:
            await command.begin(start, target)
            yield scheduler_pb2.ExecResponse()
            feeding = asyncio.ensure_future(command.feed(requests))
            async for response in command.responses():
                yield response
            if feeding.done():
                feeding.result()
        finally:
            if feeding is not None:
                feeding.cancel()
                await asyncio.wait([feeding])
            command.close()

    async def close(self) -> None:
        """Wait until the helpers have ended; the streams have already."""
        if self._helpers:
            await asyncio.wait(self._helpers, timeout=CLOSE_LIMIT_S)
        for helper in self._helpers:
            helper.cancel()

    def _keep(self, helper: subprocess.Popen[bytes]) -> None:
        task = asyncio.ensure_future(_reap(helper))
        self._helpers.add(task)
        task.add_done_callback(self._helpers.discard)


async def _start_of(requests: AsyncIterator[scheduler_pb2.ExecRequest]) -> scheduler_pb2.ExecStart:
    try:
        async with asyncio.timeout(START_LIMIT_S):
            first = await anext(aiter(requests), None)
    except TimeoutError:
        first = None
    if first is None or first.WhichOneof("part") != "start" or not first.start.command:
        raise ExecRefused(grpc.StatusCode.INVALID_ARGUMENT, "the first message names the task and the command")
    return first.start


class _Command:
    """The helper process of one command, and this end of its input and output."""

    def __init__(self, start: scheduler_pb2.ExecStart) -> None:
        """Start the helper. Raises OSError."""
        self._terminal = start.terminal
        self._mine: set[int] = set()
        with contextlib.ExitStack() as theirs:
            try:
                stdio = self._open_terminal(theirs) if start.terminal else self._open_pipes(theirs)
                self._channel, channel = socket.socketpair()
                theirs.callback(channel.close)
                self._channel.setblocking(False)
                self.helper = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _HELPER, str(channel.fileno())],
                    stdin=stdio[0],
                    stdout=stdio[1],
                    stderr=stdio[2],
                    pass_fds=(channel.fileno(),),
                    cwd="/",
                    start_new_session=True,
                )
            except OSError:
                self._close_all()
                raise
        self._resize(start.size)

    async def begin(self, start: scheduler_pb2.ExecStart, target: ExecTarget) -> None:
        order = ExecOrder(
            path=str(target.path),
            pid=target.pid,
            command=list(start.command),
            env=dict(start.env),
            terminal=start.terminal,
        )
        data = json.dumps(asdict(order)).encode()
        await self._tell(struct.pack("!I", len(data)) + data)

    async def feed(self, requests: AsyncIterator[scheduler_pb2.ExecRequest]) -> None:
        try:
            async for request in requests:
                await self._take(request)
            await self._end_stdin()
        except BaseException:
            self._channel.shutdown(socket.SHUT_WR)  # the command ends, and with it the responses
            raise

    async def responses(self) -> AsyncIterator[scheduler_pb2.ExecResponse]:
        """Yield the output. Nothing is read before the piece before it was taken."""
        channel, report = self._channel.fileno(), None
        while self._outputs or report is None:
            waited = [*self._outputs] if report is not None else [channel, *self._outputs]
            ready = await _ready(waited, "read", None if report is None else DRAIN_S)
            if not ready:
                break
            for fd in ready:
                if fd == channel:
                    report = self._report()
                elif data := _read(fd):
                    is_stderr = self._outputs[fd] == "stderr"
                    yield (
                        scheduler_pb2.ExecResponse(stderr=data)
                        if is_stderr
                        else scheduler_pb2.ExecResponse(stdout=data)
                    )
                else:
                    del self._outputs[fd]
        assert report is not None
        if report.detail:
            end = "\r\n" if self._terminal else "\n"
            yield scheduler_pb2.ExecResponse(stderr=f"{report.detail}{end}".encode())
        yield scheduler_pb2.ExecResponse(exit_code=report.exit_code)

    def close(self) -> None:
        """Close the socket: the helper ends what is left."""
        self._channel.close()
        self._close_all()

    def _open_terminal(self, theirs: contextlib.ExitStack) -> tuple[int, int, int]:
        master, slave = os.openpty()
        self._mine.add(master)
        theirs.callback(os.close, slave)
        os.set_blocking(master, False)
        self._stdin, self._outputs = master, {master: "stdout"}
        return slave, slave, slave

    def _open_pipes(self, theirs: contextlib.ExitStack) -> tuple[int, int, int]:
        given: list[int] = []
        kept: list[int] = []
        for mine in (1, 0, 0):
            ends = os.pipe()
            self._mine.add(ends[mine])
            theirs.callback(os.close, ends[1 - mine])
            os.set_blocking(ends[mine], False)
            kept.append(ends[mine])
            given.append(ends[1 - mine])
        self._stdin, self._outputs = kept[0], {kept[1]: "stdout", kept[2]: "stderr"}
        return given[0], given[1], given[2]

    async def _take(self, request: scheduler_pb2.ExecRequest) -> None:
        match request.WhichOneof("part"):
            case "stdin":
                await self._write(request.stdin)
            case "stdin_end":
                await self._end_stdin()
            case "resize":
                self._resize(request.resize)
            case "signal" if 0 < request.signal <= 64:
                await self._tell(bytes([request.signal]))
            case other:
                raise ExecRefused(grpc.StatusCode.INVALID_ARGUMENT, f"a running command takes no {other}")

    async def _write(self, data: bytes) -> None:
        """Write to the command, and wait until it takes it; what it does not want any more is dropped."""
        view = memoryview(data)
        while view and self._stdin in self._mine:
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                await _ready([self._stdin], "write", None)
            except OSError:  # it has closed its input, or has ended
                return

    async def _end_stdin(self) -> None:
        if self._terminal:
            await self._write(END_OF_INPUT)
        elif self._stdin in self._mine:
            self._mine.remove(self._stdin)
            os.close(self._stdin)

    def _resize(self, size: scheduler_pb2.TerminalSize) -> None:
        if self._terminal and size.rows > 0 and size.columns > 0:
            packed = struct.pack("HHHH", min(size.rows, MAX_TERMINAL), min(size.columns, MAX_TERMINAL), 0, 0)
            fcntl.ioctl(self._stdin, termios.TIOCSWINSZ, packed)

    async def _tell(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # it has ended: its report, or that there is none, says so
            await asyncio.get_running_loop().sock_sendall(self._channel, data)

    def _report(self) -> Report:
        try:
            data = self._channel.recv(MAX_REPORT_BYTES)
        except ConnectionResetError:
            data = b""
        return Report(**json.loads(data)) if data else Report(exit_code=137, detail="its helper process was killed")

    def _close_all(self) -> None:
        while self._mine:
            os.close(self._mine.pop())


def _read(fd: int) -> bytes:
    """Return what is there to read; empty at the end."""
    try:
        return os.read(fd, CHUNK_BYTES)
    except OSError as error:
        if error.errno == errno.EIO:  # a terminal that no process has open any more
            return b""
        raise


async def _ready(fds: Collection[int], to: Literal["read", "write"], limit_s: float | None) -> list[int]:
    """Return the descriptors that can be read, or written, as soon as there is one; none when the time is up."""
    loop = asyncio.get_running_loop()
    add, remove = (loop.add_reader, loop.remove_reader) if to == "read" else (loop.add_writer, loop.remove_writer)
    found: list[int] = []
    woken = asyncio.Event()

    def note(fd: int) -> None:
        remove(fd)
        found.append(fd)
        woken.set()

    for fd in fds:
        add(fd, note, fd)
    try:
        async with asyncio.timeout(limit_s):
            await woken.wait()
    except TimeoutError:
        pass
    finally:
        for fd in fds:
            remove(fd)
    return found


async def _reap(helper: subprocess.Popen[bytes]) -> None:
    fd = os.pidfd_open(helper.pid)
    try:
        await _ready([fd], "read", None)
    finally:
        os.close(fd)
    helper.wait()
