"""What nodes really use, as the leader heard it last, in the few numbers that pages draw.

Invariant: it is asked for at most once in TOLD_S, however many pages show it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from gosched.master.base.callers import Caller
from gosched.master.web.sources import Sources
from gosched.wire.v1 import node_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUse:
    """What a node uses now."""

    cpu_millis: int
    memory_bytes: int
    #: Of each GPU, in thousandths of the time, by its number.
    gpu_busy: tuple[tuple[int, int], ...]
    #: How old the figures are.
    age_ms: int
    #: Of its agent.
    version: str

    @property
    def gpu_millis(self) -> int:
        """Return the sum over its GPUs, in the unit of what is held."""
        return sum(busy for _, busy in self.gpu_busy)


NodeUses = Mapping[str, NodeUse]


async def node_uses(sources: Sources, caller: Caller) -> NodeUses | None:
    """Return the use of all nodes by id; None: the leader does not say."""

    async def read() -> NodeUses:
        answer = await sources.calls.call("ListUsage", node_pb2.ListUsageRequest(), caller)
        return await asyncio.to_thread(_uses, answer)

    return await sources.share("node uses", read)


def _uses(answer: node_pb2.ListUsageResponse) -> NodeUses:
    return {
        node.node_id: NodeUse(
            cpu_millis=node.usage.cpu_milli,
            memory_bytes=node.usage.memory_bytes,
            gpu_busy=tuple([(gpu.gpu, gpu.busy_milli) for gpu in node.usage.gpus]),
            age_ms=node.age_ms,
            version=node.version,
        )
        for node in answer.nodes
    }
