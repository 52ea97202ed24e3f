"""What srun sends to the head of its job."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gosched.agent.mpi.channel import Message, accept, listen
from gosched.agent.slurm.srun import Srun
from gosched.integrations.slurm.command_line import Given
from gosched.integrations.slurm.steps import StepRequest


def test_what_is_of_gosched_in_the_environment_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(_is_not_sent(monkeypatch))


async def _is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Message | None] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = await accept(reader, writer, "hidden")
        heard.append(await channel.receive())
        channel.send(step=0, nodes=["n"], hosts=["h"], per_node=[1], ranks=[0])
        channel.send(did="exit", rank=0, code=0)
        await channel.close()

    server = await listen(handle, 0)
    # Each family has a port of its own where none is chosen.
    port = next(sock.getsockname()[1] for sock in server.sockets if sock.family is socket.AF_INET)
    env = {"GOSCHED_SECRET": "hidden", "GOSCHED_PORT": str(port), "MINE": "1"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert await Srun(Given(), StepRequest()).run(["true"], env) == 0
    server.close()
    (hello,) = heard
    assert hello is not None
    assert hello["env"] == {"MINE": "1"}
