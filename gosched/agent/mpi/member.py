"""A task's part in an MPI job: it starts MPI's daemons for the head, and gives the ranks that they start its output.

Invariant: it ends with the exit code of its own rank that failed, where that was the job's first; else when the head
says so, or is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shlex
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from gosched.agent.mpi.channel import Channel, NotTrusted, connect
from gosched.agent.mpi.job import HOLD_S, JOIN_S, Job, failed

_AGAIN_S = 0.2
_UCRED = struct.Struct("3i")


@dataclass(slots=True)
class Member:
    """The member of one task."""

    job: Job
    #: Process groups of the ranks that run.
    _groups: list[int] = field(default_factory=list)
    _channel: Channel | None = None
    #: The task is told to stop.
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _works: list[asyncio.Task[None]] = field(default_factory=list)

    async def run(self) -> int:
        """Return the exit code of the task."""
        try:
            channel = self._channel = await self._join()
        except (OSError, TimeoutError, NotTrusted) as error:
            return failed(f"cannot reach the head of the job at {self._head}: {error or type(error).__name__}")
        name = f"gosched-mpi-{secrets.token_hex(8)}"
        with self._listen(name):
            channel.send(hello="task", task=self.job.index, ranks=self.job.ranks)
            with contextlib.suppress(NotTrusted):
                async for message in channel.messages():
                    if message["do"] == "launch":
                        await self._launch(message["line"], name, shares_host=message["shares_host"])
                    else:
                        return await self._end(message["code"], own=message["yours"])
            return await self._end(failed("the head of the job is gone"), own=False)

    @property
    def _head(self) -> str:
        return f"{self.job.hosts[0]}:{self.job.port}"

    async def _join(self) -> Channel:
        """Connect to the head, which may be the last to start."""
        ends = time.monotonic() + JOIN_S
        while True:
            try:
                return await connect(self.job.hosts[0], self.job.port, self.job.secret)
            except (OSError, TimeoutError):
                if time.monotonic() > ends or self.stopped.is_set():
                    raise
            await asyncio.sleep(_AGAIN_S)

    async def _launch(self, line: str, name: str, *, shares_host: bool) -> None:
        """Start MPI's daemon, as a login would, in a session of its own: a stop is for the ranks."""
        rank = (sys.executable, "-I", "-m", "gosched.agent.mpi.rank", *self.job.command)
        env = {**self.job.daemon_environment(), "GOSCHED_MPI_SOCKET": name, "GOSCHED_MPI_RANK": shlex.join(rank)}
        if (
            shares_host
        ):  # Open MPI names the memory that ranks share by host and rank there: two tasks would take the same
            env.setdefault("OMPI_MCA_btl_vader_backing_directory", self.job.scratch)
        daemon = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", line, env=env, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
        )
        self._works.append(asyncio.create_task(self._watch(daemon)))

    async def _watch(self, daemon: asyncio.subprocess.Process) -> None:
        code = await daemon.wait()
        if code and self._channel is not None:
            self._channel.send(did="daemon", code=128 - code if code < 0 else code)

    @contextlib.contextmanager
    def _listen(self, name: str) -> Iterator[None]:
        """Listen for ranks, at a socket that is no file."""
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.bind("\0" + name)
            server.listen(self.job.ranks + 8)
            server.setblocking(False)
            loop.add_reader(server, self._on_rank, server)
            try:
                yield
            finally:
                loop.remove_reader(server)

    def _on_rank(self, server: socket.socket) -> None:
        rank, _ = server.accept()
        _, uid, _ = _UCRED.unpack(rank.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        if uid != os.getuid():
            rank.close()
            return
        socket.send_fds(rank, [b"o"], [1, 2])
        rank.setblocking(False)
        self._works.append(asyncio.create_task(self._follow(rank)))

    async def _follow(self, rank: socket.socket) -> None:
        """Follow a rank to its end. It waits for the answer, so that MPI does not hear of a failure first and end the
        other ranks before it is known whose it was."""
        reader, writer = await asyncio.open_connection(sock=rank)
        try:
            group = int(await reader.readline() or b"0")
            self._groups.append(group)
            if self.stopped.is_set():
                _end_group(group)
            code = int(await reader.readline() or b"137")  # it was killed with the command
            self._groups.remove(group)
            if self._channel is not None and code:
                self._channel.send(did="rank", code=code)
                await self._channel.flush()
            writer.write(b"k")
            await writer.drain()
        except (OSError, ValueError):
            pass  # it was killed
        finally:
            writer.close()

    async def _end(self, code: int, *, own: bool) -> int:
        """Return the exit code at the end. A failure of another task ends this one only if gosched does not stop it."""
        if code and not own:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HOLD_S):
                    await self.stopped.wait()
        return code

    def stop(self) -> None:
        """Ask the ranks to end."""
        self.stopped.set()
        for group in self._groups:
            _end_group(group)


def _end_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGTERM)
