"""A cluster of real replica processes on loopback, driven through their fronts in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gosched.core.commands.command import Command
from gosched.core.commands.nodes import RegisterNode
from gosched.core.outcome import Outcome
from gosched.core.resources import Resources
from gosched.replication.interface import Part, ProposalFailed
from gosched.replication.process import ProcessReplication
from gosched.replication.replica_config import ReplicaConfig
from tests.ports import HeldPort

T = TypeVar("T")

LIMIT_S = 40.0  # of a wait that ends in success long before, even on a machine that stands still for a while


async def until(condition: Callable[[], object], timeout_s: float = LIMIT_S, what: str = "condition") -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        await asyncio.sleep(0.01)


def a_node(name: str, at_ms: int = 1000, request_id: str = "") -> Command:
    """A command whose effect is easy to see: it adds a node of this name."""
    body = RegisterNode(
        node_id=name, name=name, address="127.0.0.1:1", incarnation="i", capacity=Resources(cpu_millis=1000)
    )
    return Command(body=body, client_id="test", request_id=request_id, at_ms=at_ms)


class Cluster:
    """Members m1..mN. `members` holds those that run."""

    def __init__(self, folder: Path, size: int = 3, **overrides: object) -> None:
        self.ports = {f"m{i + 1}": HeldPort() for i in range(size)}
        addresses = {m: port.address for m, port in self.ports.items()}
        self.tries = 0  # each of `commit` and `barrier`
        self.configs = {
            m: replace(
                ReplicaConfig(
                    member=m,
                    bind_addr=address,
                    peers={o: a for o, a in addresses.items() if o != m},
                    data_dir=str(folder / m),
                ),
                **overrides,  # type: ignore[arg-type]
            )
            for m, address in addresses.items()
        }
        self.members: dict[str, ProcessReplication] = {}

    async def start(self, *ids: str) -> None:
        for m in ids or self.configs:
            self.members[m] = ProcessReplication(self.configs[m])
        await asyncio.gather(*(self.members[m].start() for m in ids or self.configs))

    async def kill(self, m: str) -> None:
        """SIGKILL of the replica; its front notices and ends."""
        member = self.members.pop(m)
        os.kill(member.pid, signal.SIGKILL)
        await until(lambda: member.failure, what=f"{m} noticed")
        await member.close()

    async def leader(self, timeout_s: float = LIMIT_S) -> ProcessReplication:
        found: list[ProcessReplication] = []

        def one_leads() -> bool:
            found[:] = [m for m in self.members.values() if m.role.part is Part.LEADER]
            return bool(found)

        await until(one_leads, timeout_s, "a leader")
        return max(found, key=lambda m: m.role.term)

    async def commit(self, *commands: Command) -> list[Outcome]:
        """Commits on whichever member leads, through failovers; the commands' request ids make that safe."""
        return await self._on_the_leader(lambda leader: leader.propose(commands, timeout_s=2))

    async def barrier(self) -> None:
        await self._on_the_leader(lambda leader: leader.barrier(timeout_s=2))

    async def _on_the_leader(self, act: Callable[[ProcessReplication], Awaitable[T]]) -> T:
        deadline = time.monotonic() + LIMIT_S
        while True:
            leader = await self.leader()
            self.tries += 1
            try:
                return await act(leader)
            except ProposalFailed:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.02)

    async def converged(self) -> None:
        def same() -> bool:
            return len({(m.state.revision, m.state.digest()) for m in self.members.values()}) == 1

        await until(same, what="all members have the same state")

    async def close(self) -> None:
        await asyncio.gather(*(m.close() for m in self.members.values()))


@contextlib.asynccontextmanager
async def cluster(folder: Path, size: int = 3, **overrides: object) -> AsyncIterator[Cluster]:
    made = Cluster(folder, size, **overrides)
    try:
        await made.start()
        yield made
    finally:
        await made.close()
