"""A task's part in a batch job: it runs the ranks of steps that the head places here, and passes on what they write.

Invariant: what a rank wrote is passed on before its end, and nothing of a rank outlives it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Coroutine

from gosched.agent.mpi.channel import Channel, Message, NotTrusted, connect
from gosched.agent.mpi.job import HOLD_S, JOIN_S, failed
from gosched.agent.slurm.step_input import RankInputs, encoded

_AGAIN_S = 0.2
_CHUNK = 32 * 1024
_UNTAKEN = 4  # chunks of a rank that srun has not taken yet; then the rank waits
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)
#: Of the task, whatever the environment of srun says.
_OWN = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "TRACEPARENT")


class Member:
    """The member of one task."""

    def __init__(self, index: int) -> None:
        self._index = index
        hosts = os.environ["GOSCHED_HOSTS"].split(",")
        self._shares_host = hosts.count(hosts[index]) > 1
        self._stopped = asyncio.Event()
        #: Process groups of the ranks that run, by step and rank.
        self._groups: dict[tuple[int, int], int] = {}
        #: What a step was told to end by, for those of its ranks that start later.
        self._told: dict[int, int] = {}
        self._works: set[asyncio.Task[None]] = set()
        #: How many chunks each rank may write on, by step and rank.
        self._free: dict[tuple[int, int], asyncio.Semaphore] = {}
        self._inputs = RankInputs()

    async def run(self) -> int:
        """Return the exit code of the task, once the head says that the job ends."""
        try:
            channel = await self._join()
        except (OSError, TimeoutError, NotTrusted) as error:
            return failed(f"cannot reach the first task of the job: {error or type(error).__name__}")
        channel.send(
            hello="task",
            task=self._index,
            node=os.environ["GOSCHED_NODE"],
            host=socket.gethostname().partition(".")[0],
        )
        with contextlib.suppress(NotTrusted):
            async for message in channel.messages():
                match message["do"]:
                    case "start":
                        if message.get("input"):  # a head of an earlier release knows of none
                            self._inputs.expect(message["step"], message["rank"])
                        self._begin(self._rank(channel, message))
                    case "input":
                        self._begin(self._give(channel, message))
                    case "signal":
                        self._signal(message["step"], message["number"])
                    case "go on":
                        if free := self._free.get((message["step"], message["rank"])):
                            free.release()
                    case "end":
                        return await self._end(message["code"])
        return await self._end(failed("the first task of the job is gone"))

    def stop(self) -> None:
        """Ask the ranks to end."""
        self._stopped.set()
        for group in self._groups.values():
            _send(group, signal.SIGTERM)

    def kill(self) -> None:
        """End the ranks at once."""
        for group in self._groups.values():
            _send(group, signal.SIGKILL)

    async def _join(self) -> Channel:
        """Connect to the head, which may be the last to start."""
        host = os.environ["GOSCHED_HOSTS"].split(",")[0]
        port, secret = int(os.environ["GOSCHED_PORT"]), os.environ["GOSCHED_SECRET"]
        ends = time.monotonic() + JOIN_S
        while True:
            try:
                return await connect(host, port, secret)
            except (OSError, TimeoutError):
                if time.monotonic() > ends or self._stopped.is_set():
                    raise
            await asyncio.sleep(_AGAIN_S)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)

    async def _give(self, channel: Channel, message: Message) -> None:
        await self._inputs.give(message["step"], message["part"])
        channel.send(did="took", step=message["step"], task=self._index)
        await channel.flush()

    def _signal(self, step: int, number: int) -> None:
        """Send a signal to the ranks of a step."""
        if number in _ENDING:
            self._told[step] = number
        for (of, _), group in self._groups.items():
            if of == step:
                _send(group, number)

    async def _rank(self, channel: Channel, message: Message) -> None:
        """Run one rank to its end."""
        step, rank = message["step"], message["rank"]
        env = {**message["env"], **{name: value for name, value in os.environ.items() if _is_own(name)}}
        env |= message["variables"]
        if self._shares_host:  # ranks of Open MPI would take each other's memory and files for their own
            env.setdefault("OMPI_MCA_btl_vader_backing_directory", os.getcwd())
            env.setdefault("OMPI_MCA_orte_tmpdir_base", os.getcwd())
        if count := message["gpus"]:
            env["CUDA_VISIBLE_DEVICES"] = _share(env.get("CUDA_VISIBLE_DEVICES", ""), message["place"], count)
        cwd = message["cwd"]
        if not os.path.isdir(cwd):
            text = f"gosched: {cwd} is not on {env['SLURMD_NODENAME']}: the rank starts in {os.getcwd()}\n"
            channel.send(did="output", step=step, rank=rank, stream=2, data=encoded(text.encode()))
            cwd = os.getcwd()
        try:
            process = await asyncio.create_subprocess_exec(
                *message["command"],
                env=env,
                cwd=cwd,
                stdin=asyncio.subprocess.PIPE if message.get("input") else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            code = error.errno or 1 if isinstance(error, OSError) else 1  # as Slurm's steps end
            text = f"gosched: {message['command'][0]}: {error.strerror if isinstance(error, OSError) else error}\n"
            channel.send(did="output", step=step, rank=rank, stream=2, data=encoded(text.encode()))
            channel.send(did="exit", step=step, rank=rank, code=code)
            self._inputs.on_end(step, rank)
            return
        self._groups[step, rank] = process.pid
        self._inputs.on_start(step, rank, process.stdin)
        if self._stopped.is_set():
            _send(process.pid, signal.SIGTERM)
        if step in self._told:
            _send(process.pid, self._told[step])
        assert process.stdout is not None
        assert process.stderr is not None
        free = self._free[step, rank] = asyncio.Semaphore(_UNTAKEN)
        readers = [
            asyncio.create_task(_pass_on(channel, stream, step, rank, number, free))
            for number, stream in ((1, process.stdout), (2, process.stderr))
        ]
        code = await process.wait()
        self._inputs.on_end(step, rank)
        del self._groups[step, rank]
        _send(process.pid, signal.SIGKILL)  # what it left behind, which would keep its output open
        await asyncio.gather(*readers)
        del self._free[step, rank]
        channel.send(did="exit", step=step, rank=rank, code=128 - code if code < 0 else code)
        await channel.flush()

    async def _end(self, code: int) -> int:
        """Return the exit code. After a failure gosched stops this task: the job ends with the code of the first."""
        self.kill()
        if code:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HOLD_S):
                    await self._stopped.wait()
        return code


async def _pass_on(
    channel: Channel, stream: asyncio.StreamReader, step: int, rank: int, number: int, free: asyncio.Semaphore
) -> None:
    while data := await stream.read(_CHUNK):
        await free.acquire()
        channel.send(did="output", step=step, rank=rank, stream=number, data=encoded(data))
        await channel.flush()


def _is_own(name: str) -> bool:
    return name.startswith("GOSCHED_") or name in _OWN


def _share(gpus: str, place: int, count: int) -> str:
    """Return the GPUs of one rank: those of the task in turns."""
    return ",".join(gpus.split(",")[place * count : (place + 1) * count])


def _send(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
