"""The input of a step on its way from srun through the head of the job to the ranks.

Invariant: one part is on its way at a time, and srun reads the next once each task has taken it. A rank that does not
read holds up the input of its step and nothing else; one that has ended takes everything.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import sys
import threading
from collections.abc import Iterable, Mapping

from gosched.agent.mpi.channel import Channel
from gosched.integrations.slurm.command_line import Given

ALL = -1  # as the rank that has the input: each of them
_PART = 32 * 1024


class Source:
    """What srun reads."""

    def __init__(self, file: int, rank: int) -> None:
        #: The one rank that gets it, or ALL.
        self.rank = rank
        self._file = file
        self._taken = asyncio.Event()

    @classmethod
    def of(cls, given: Given) -> Source | None:
        """Return what --input says, by itself srun's own input; None: nothing. Raises ConfigError."""
        said = given.get("input") or "all"
        if said == "none":
            return None
        if said == "all" or said.isdigit():
            return None if _is_nothing(0) else cls(0, int(said) if said.isdigit() else ALL)
        if "%" in said:
            raise given.problem("input", f"{said}: a file for each rank is read by the rank: sh -c 'PROGRAM <FILE'")
        if os.path.isdir(said):
            raise given.problem("input", f"{said} is a directory")
        try:
            return cls(os.open(said, os.O_RDONLY | os.O_CLOEXEC), ALL)
        except OSError as error:
            raise given.problem("input", f"{said}: {error.strerror}") from None

    def on_taken(self) -> None:
        self._taken.set()

    async def feed(self, channel: Channel) -> None:
        """Send the head all there is, and an empty part for the end."""
        part = b"?"
        with contextlib.suppress(OSError):  # the head is gone: who follows it says so
            while part:
                part = await _read(self._file)
                channel.send(input=encoded(part))
                await channel.flush()
                await self._taken.wait()
                self._taken.clear()


class Passing:
    """At the head: which tasks have not taken the part that is on its way."""

    def __init__(self, srun: Channel) -> None:
        self._srun = srun
        self._tasks: set[int] = set()

    def pass_on(self, part: str, step: int, tasks: Iterable[int], members: Mapping[int, Channel]) -> None:
        self._tasks = set(tasks)
        for task in self._tasks:
            members[task].send(do="input", step=step, part=part)

    def on_taken(self, task: int) -> None:
        """Note that a task has the part, or is gone."""
        if task in self._tasks:
            self._tasks.remove(task)
            if not self._tasks:
                self._srun.send(did="took")


class RankInputs:
    """At a task: the inputs of its ranks, by step and rank."""

    def __init__(self) -> None:
        self._opened: dict[tuple[int, int], asyncio.Future[asyncio.StreamWriter | None]] = {}

    def expect(self, step: int, rank: int) -> None:
        """Note that the rank will have input, before its process is there."""
        self._opened[step, rank] = asyncio.get_running_loop().create_future()

    def on_start(self, step: int, rank: int, pipe: asyncio.StreamWriter | None) -> None:
        if opened := self._opened.get((step, rank)):
            opened.set_result(pipe)

    def on_end(self, step: int, rank: int) -> None:
        opened = self._opened.pop((step, rank), None)
        if opened is not None and not opened.done():
            opened.set_result(None)

    async def give(self, step: int, part: str) -> None:
        """Return once each rank of the step has taken the part."""
        data = base64.b64decode(part)
        await asyncio.gather(*(_write(opened, data) for (of, _), opened in self._opened.items() if of == step))


async def _write(opened: asyncio.Future[asyncio.StreamWriter | None], data: bytes) -> None:
    pipe = await opened
    if pipe is None or pipe.is_closing():
        return
    with contextlib.suppress(ConnectionError):  # it reads no more
        pipe.write(data)
        await pipe.drain()
    if not data:
        pipe.close()


def encoded(data: bytes) -> str:
    """Return bytes as messages have them."""
    return base64.b64encode(data).decode()


def _is_nothing(file: int) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(os.devnull))
    except OSError:  # it is closed
        return True


async def _read(file: int) -> bytes:
    """Read in a thread of its own, which ends with the process: an input that stays open keeps no srun from ending."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[bytes] = loop.create_future()

    def take(part: bytes) -> None:
        if not found.done():
            found.set_result(part)

    def read() -> None:
        try:
            part = os.read(file, _PART)
        except OSError as error:
            print(f"srun: the input ends here, as it cannot be read: {error.strerror}", file=sys.stderr, flush=True)
            part = b""
        with contextlib.suppress(RuntimeError):  # srun has ended
            loop.call_soon_threadsafe(take, part)

    threading.Thread(target=read, daemon=True).start()
    return await found
