"""The head of a batch job, in its first task: it gathers the members, runs the script, and starts the steps of srun.

Invariant: the job ends with the script, and with its exit code; no rank of a step outlives its srun.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from gosched.agent.mpi.channel import GREETING_S, Channel, Message, NotTrusted, accept
from gosched.agent.mpi.job import JOIN_S, failed
from gosched.agent.slurm.script import BatchScript
from gosched.agent.slurm.step_input import ALL, Passing
from gosched.integrations.slurm.steps import DoesNotFit, Layout, Room, StepRequest
from gosched.integrations.slurm.variables import nodes_of, rank_variables

MAX_STEPS = 10_000  # that wait or run at once
_LOST = 1  # exit code of a rank whose task is gone


@dataclass(slots=True)
class Step:
    """A step that runs."""

    srun: Channel
    layout: Layout
    passing: Passing
    #: Its ranks that have not ended.
    left: set[int] = field(default_factory=set)
    #: What srun is still to be told, with the member that it came from. A rank writes on once that was taken, so it is
    #: bounded, and one srun that does not read holds up no other.
    untold: asyncio.Queue[tuple[Channel, Message]] = field(default_factory=asyncio.Queue)
    #: False: srun is gone, and what ranks write is dropped.
    is_followed: bool = True


class Head:
    """The head of a job."""

    def __init__(self, script: BatchScript) -> None:
        self._script = script
        self._ranks = script.batch.ranks
        self._members: dict[int, Channel] = {}
        self._places: dict[int, tuple[str, str]] = {}
        self._complete = asyncio.Event()
        self._stopped = asyncio.Event()
        self._room = Room((), (), 1)
        self._steps: dict[int, Step] = {}
        self._count = 0
        #: Steps that wait for ranks of others to end: what they ask for, and where they are told.
        self._waiting: list[tuple[StepRequest, asyncio.Future[Layout]]] = []

    def stop(self) -> None:
        """Ask the script and what it has started here to end; the members ask their own ranks."""
        self._stopped.set()
        self._script.signal(signal.SIGTERM)

    async def run(self) -> int:
        """Return the exit code of the job."""
        code = await self._run()
        for step in [*self._steps]:
            self._signal(step, signal.SIGKILL)
        for index, member in self._members.items():
            if index:
                member.send(do="end", code=code)
                with contextlib.suppress(OSError, TimeoutError):
                    async with asyncio.timeout(GREETING_S):
                        await member.flush()
        return code

    async def _run(self) -> int:
        batch = self._script.batch
        try:
            async with asyncio.timeout(JOIN_S):
                await self._complete.wait()
        except TimeoutError:
            missing = [str(index) for index in range(len(self._ranks)) if index not in self._members]
            return failed(f"tasks {', '.join(missing)} did not come within {JOIN_S:g} s")
        if self._stopped.is_set():
            return 128 + signal.SIGTERM
        nodes = nodes_of([self._places[index] for index in range(len(self._ranks))], self._ranks)
        self._room = Room(nodes, batch.room, batch.cpus_per_task or 1)
        warning = None
        if batch.signal:
            due = max(0.0, batch.time_limit_s - batch.signal_s)
            warning = asyncio.get_running_loop().call_later(due, self._warn)
        try:
            return await self._script.run(nodes)
        except OSError as error:
            return failed(f"cannot run the script: {error.filename or ''}: {error.strerror}")
        finally:
            if warning is not None:
                warning.cancel()

    def _warn(self) -> None:
        """Send the signal of --signal: to the script alone, or to the ranks of all steps."""
        batch = self._script.batch
        if batch.signal_to_script:
            self._script.signal(batch.signal)
            return
        for step in [*self._steps]:
            self._signal(step, batch.signal)

    # Connections

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to a member, or to a srun, that has connected."""
        try:
            channel = await accept(reader, writer, os.environ["GOSCHED_SECRET"])
            async with asyncio.timeout(GREETING_S):
                hello = await channel.receive()
            if hello is None:
                return
            with contextlib.suppress(asyncio.CancelledError):  # the head has ended
                if hello["hello"] == "step":
                    await self._serve(channel, hello)
                elif hello["task"] not in self._members:
                    await self._follow(channel, hello)
        except (OSError, TimeoutError, NotTrusted, KeyError, asyncio.IncompleteReadError) as error:
            print(f"gosched: a connection is refused ({type(error).__name__})", file=sys.stderr, flush=True)
        finally:
            writer.close()

    async def _follow(self, channel: Channel, hello: Message) -> None:
        index = hello["task"]
        self._members[index], self._places[index] = channel, (hello["node"], hello["host"])
        if len(self._members) == len(self._ranks):
            self._complete.set()
        try:
            async for message in channel.messages():
                self._on_rank(channel, message)
        finally:
            self._on_lost(index)

    def _on_rank(self, member: Channel, message: Message) -> None:
        """Take what a rank wrote, or its end, for its srun."""
        step = self._steps.get(message["step"])
        if message["did"] == "took":
            if step is not None:
                step.passing.on_taken(message["task"])
            return
        if step is not None and step.is_followed:
            step.untold.put_nowait((member, message))
        else:
            _taken(member, message)
        if step is not None and message["did"] == "exit":
            step.left.discard(message["rank"])
            if not step.left:
                self._end_step(message["step"])

    def _on_lost(self, index: int) -> None:
        """End the ranks of a task that is gone. gosched finds out what became of it, and stops the others."""
        for number, step in [*self._steps.items()]:
            step.passing.on_taken(index)
            for rank in sorted(step.left):
                if step.layout.places[rank].task == index:
                    lost = {"did": "exit", "step": number, "rank": rank, "code": _LOST}
                    self._on_rank(self._members[index], lost)

    async def _tell(self, step: Step) -> None:
        """Tell srun what its ranks write and how they end, as fast as it reads."""
        while True:
            member, message = await step.untold.get()
            try:
                step.srun.send(**{key: value for key, value in message.items() if key != "step"})
                with contextlib.suppress(OSError):  # srun is gone: its own connection ends the step
                    await step.srun.flush()
            finally:
                _taken(member, message)

    # Steps

    async def _serve(self, srun: Channel, hello: Message) -> None:
        """Start the step that a srun asks for, and follow srun to its end."""
        if len(self._steps) + len(self._waiting) >= MAX_STEPS:
            srun.send(problem=f"{MAX_STEPS} steps wait or run already")
            await srun.flush()
            return
        request = StepRequest.of(hello["request"])
        try:
            layout = self._room.place(request)
        except DoesNotFit as error:
            srun.send(problem=str(error))
            await srun.flush()
            return
        if layout is None:
            layout = await self._wait(srun, request)
            if layout is None:
                return
        number, self._count = self._count, self._count + 1
        left = set(range(len(layout.places)))
        step = self._steps[number + 1] = Step(srun=srun, layout=layout, passing=Passing(srun), left=left)
        telling = None
        try:
            srun.send(
                step=number,
                nodes=layout.nodes,
                hosts=_hosts(layout),
                per_node=layout.per_node,
                ranks=[each.node for each in layout.places],
                takes_input=True,
            )
            await srun.flush()
            telling = asyncio.create_task(self._tell(step))
            if hello["command"]:  # else it only holds the places, for an mpiexec
                await self._start(number, step, hello)
            async for message in srun.messages():
                if "input" in message:
                    tasks = {place.task for rank, place in enumerate(layout.places) if _has_input(hello, rank)}
                    step.passing.pass_on(message["input"], number + 1, tasks, self._members)
                else:
                    self._signal(number + 1, message["signal"])
        finally:
            step.is_followed = False
            if telling is not None:
                telling.cancel()
            while not step.untold.empty():
                _taken(*step.untold.get_nowait())
            if number + 1 in self._steps and hello["command"]:  # srun was killed, and cannot be asked again
                self._signal(number + 1, signal.SIGKILL)
            elif number + 1 in self._steps:
                self._end_step(number + 1)

    async def _wait(self, srun: Channel, request: StepRequest) -> Layout | None:
        """Return the layout once there is room; None: srun is gone."""
        srun.send(waits=time.time())
        found: asyncio.Future[Layout] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, found))
        gone = asyncio.ensure_future(srun.receive())
        done, _ = await asyncio.wait((found, gone), return_when=asyncio.FIRST_COMPLETED)
        if found in done and gone not in done:
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone
            return found.result()
        if found in done:
            self._room.give_back(found.result())
        found.cancel()
        self._waiting = [each for each in self._waiting if each[1] is not found]
        self._go_on()
        return None

    async def _start(self, number: int, step: Step, hello: dict[str, Any]) -> None:
        layout, before = step.layout, dict[int, int]()
        for rank, place in enumerate(layout.places):
            member = self._members[place.task]
            member.send(
                do="start",
                step=number + 1,
                rank=rank,
                command=hello["command"],
                env=hello["env"],
                cwd=hello["cwd"],
                input=_has_input(hello, rank),
                variables=rank_variables(number, rank, place.local, place.node, layout.nodes, layout.per_node),
                gpus=self._script.batch.gpus_per_task,
                place=before.get(place.task, 0),
            )
            before[place.task] = before.get(place.task, 0) + 1
            await member.flush()

    def _signal(self, step: int, number: int) -> None:
        found = self._steps.get(step)
        for task in {found.layout.places[rank].task for rank in found.left} if found else ():
            self._members[task].send(do="signal", step=step, number=number)

    def _end_step(self, number: int) -> None:
        step = self._steps.pop(number)
        self._room.give_back(step.layout)
        self._go_on()

    def _go_on(self) -> None:
        """Start the steps that have waited, the oldest first, as far as there is room."""
        still: list[tuple[StepRequest, asyncio.Future[Layout]]] = []
        for request, found in self._waiting:
            layout = None if found.done() else self._room.place(request)
            if layout is not None:
                found.set_result(layout)
            elif not found.done():
                still.append((request, found))
        self._waiting = still


def _has_input(hello: Message, rank: int) -> bool:
    return hello.get("input") in (ALL, rank)


def _taken(member: Channel, message: Message) -> None:
    """Let the rank go on that wrote something."""
    if message["did"] == "output":
        member.send(do="go on", step=message["step"], rank=message["rank"])


def _hosts(layout: Layout) -> list[str]:
    """Return where each node of the step is reached."""
    hosts = os.environ["GOSCHED_HOSTS"].split(",")
    first = {place.node: place.task for place in reversed(layout.places)}
    return [hosts[first[position]] for position in range(len(layout.nodes))]
