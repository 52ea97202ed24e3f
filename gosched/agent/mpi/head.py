"""The head of an MPI job, in its first task: it gathers the members, starts mpiexec, and decides how the job ends.

Invariant: one task alone ends with the job's failure, that of the rank that failed first; the others wait to be
stopped. So the job has the exit code of that rank, and nothing of what MPI does to the other ranks.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
import sys
from pathlib import Path

from gosched.agent.mpi.channel import GREETING_S, Channel, Message, NotTrusted, accept
from gosched.agent.mpi.implementations import NoMpi, World, command_line, find, task_of
from gosched.agent.mpi.job import HOLD_S, JOIN_S, Job, failed

_RANK = ("/bin/sh", "-c", 'eval "exec $GOSCHED_MPI_RANK"')  # which its member has put there
_KILLED = (137, 143)  # the exit codes of ranks that mpiexec ends once one has failed
_MPIEXEC_KILLED = (9, 15, *_KILLED)
_SUSPECT_S = 5.0  # for the failure to be known that made mpiexec end a rank

Ending = tuple[int, int]  # the task that ends the job, and its exit code


class Head:
    """The head. `stopped` is set when the task is told to stop."""

    def __init__(self, job: Job, stopped: asyncio.Event) -> None:
        self._job = job
        self._stopped = stopped
        self._members: dict[int, Channel] = {}
        self._ranks: dict[int, int] = {}
        self._complete = asyncio.Event()
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._suspects: list[Ending] = []
        self._lost: list[int] = []
        self._has_ranks = False

    async def run(self) -> None:
        """Run until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._start())
            group.create_task(self._watch_stop())
            await self._ending
            for index, member in sorted(self._members.items(), reverse=True):  # this task ends last, the head with it
                self._tell_end(index)
                with contextlib.suppress(OSError, TimeoutError):
                    async with asyncio.timeout(GREETING_S):
                        await member.flush()

    async def _watch_stop(self) -> None:
        """End what has not begun, when the task is told to stop; the ranks are stopped by their members."""
        await self._stopped.wait()
        if not self._has_ranks:
            self._decide(0, 128 + signal.SIGTERM)

    # The start

    async def _start(self) -> None:
        """Start mpiexec once all are there, and follow it to its end."""
        try:
            async with asyncio.timeout(JOIN_S):
                await self._complete.wait()
            command = await asyncio.to_thread(self._command)
        except TimeoutError:
            missing = [str(index) for index in range(len(self._job.hosts)) if index not in self._members]
            self._decide(0, failed(f"tasks {', '.join(missing)} did not come within {JOIN_S:g} s"))
            return
        except (NoMpi, OSError) as error:
            self._decide(0, failed(f"cannot start the ranks: {error}"))
            return
        if self._ending.done():  # by a stop
            return
        self._has_ranks = True
        mpiexec = await asyncio.create_subprocess_exec(
            *command, env=self._job.daemon_environment(), stdin=asyncio.subprocess.DEVNULL, start_new_session=True
        )
        self._on_mpiexec(await mpiexec.wait())

    def _command(self) -> list[str]:
        """Return the command that starts the ranks, and write the files that it names. Raises NoMpi, OSError."""
        job, scratch = self._job, Path(self._job.scratch)
        kind, mpiexec = find(job.command, job.implementation)
        agent, nodes = scratch / ".gosched-mpi-agent", scratch / ".gosched-mpi-nodes"
        stand_in = shlex.join([sys.executable, "-I", "-m", "gosched.agent.mpi.launch_agent"])
        agent.write_text(f'#!/bin/sh\nexec {stand_in} "$@"\n')
        agent.chmod(0o700)
        world = World(
            ranks=tuple([self._ranks[index] for index in range(len(job.hosts))]),
            hosts=job.hosts,
            nodes_file=str(nodes),
            launch_agent=str(agent),
            rank=_RANK,
        )
        return command_line(kind, mpiexec, world)

    # The members

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to a member, or to a launch agent, that has connected."""
        try:
            channel = await accept(reader, writer, self._job.secret)
            async with asyncio.timeout(GREETING_S):
                hello = await channel.receive()
            if hello is None:
                return
            if hello["hello"] == "launch":
                channel.send(problem=self._launch(hello["node"], hello["line"]))
                await channel.flush()
            elif hello["task"] not in self._members:
                with contextlib.suppress(asyncio.CancelledError):  # the head has ended
                    await self._follow(channel, hello)
        except (OSError, TimeoutError, NotTrusted, asyncio.IncompleteReadError) as error:
            print(
                f"gosched: a connection of no member is refused ({type(error).__name__})", file=sys.stderr, flush=True
            )
        finally:
            writer.close()

    def _launch(self, node: str, line: str) -> str:
        """Pass a command of mpiexec on. Return why that cannot be; empty: it is done."""
        index = task_of(node)
        if index not in self._members or index in self._lost:
            return f"task {index} is gone"
        hosts = self._job.hosts
        self._members[index].send(do="launch", line=line, shares_host=hosts.count(hosts[index]) > 1)
        return ""

    async def _follow(self, channel: Channel, hello: Message) -> None:
        index = hello["task"]
        self._members[index], self._ranks[index] = channel, hello["ranks"]
        if self._ending.done():  # before it came
            self._tell_end(index)
        elif len(self._members) == len(self._job.hosts):
            self._complete.set()
        try:
            async for message in channel.messages():
                self._on_failure(index, message)
        finally:
            self._on_lost(index)

    # The end

    def _tell_end(self, index: int) -> None:
        task, code = self._ending.result()
        self._members[index].send(do="end", code=code, yours=index == task)

    def _on_failure(self, index: int, message: Message) -> None:
        """Take note of a failed rank, or daemon. One that was killed may have been so for another one's failure."""
        code = message["code"]
        if message["did"] == "rank" and code not in _KILLED:
            self._decide(index, code)
            return
        if message["did"] == "daemon" and not self._ending.done():
            failed(f"MPI's daemon of task {index} ended with exit code {code}")
        self._suspects.append((index, code))
        if len(self._suspects) == 1:
            asyncio.get_running_loop().call_later(_SUSPECT_S, self._decide, index, code)

    def _on_mpiexec(self, code: int) -> None:
        code = 128 - code if code < 0 else code
        if not code:
            self._decide(0, 0)
        elif self._lost:
            asyncio.get_running_loop().call_later(HOLD_S, self._decide, 0, code)
        elif self._suspects and code in _MPIEXEC_KILLED:
            self._decide(*self._suspects[0])
        else:
            self._decide(0, code)

    def _on_lost(self, index: int) -> None:
        """Give gosched the time to find out what became of the task, and to stop the others."""
        if not self._ending.done():
            self._lost.append(index)
            asyncio.get_running_loop().call_later(HOLD_S, self._decide, 0, 1)

    def _decide(self, task: int, code: int) -> None:
        if not self._ending.done():
            self._ending.set_result((task, code))
