"""Simulated agents in one process, for `benchmarks/overload.py`: each registers, beats as often as its master says, and
goes on to the next master when an answer does not come within 3 s, as the real one does.

Lines on stdin: `grow N` (answered once N are registered), `registered` (how many registrations there were in all),
`late` (the longest that this process was late since that was asked last, in seconds).
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
import uuid
from typing import Any

import grpc

from gosched.core.resources import Resources
from gosched.wire.codec import to_message
from gosched.wire.v1 import node_pb2, node_pb2_grpc, types_pb2

TIMEOUT_S = 3.0
BACKOFF_S = (0.1, 2.0)
CONNECTIONS = 16  # to each master, for all
AT_ONCE = 32  # that register for the first time


class Crowd:
    def __init__(self, endpoints: str) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._stubs = [
            [node_pb2_grpc.NodeServiceStub(grpc.aio.insecure_channel(one, options=options)) for _ in range(CONNECTIONS)]
            for one in endpoints.split(",")
        ]
        self._first = asyncio.Semaphore(AT_ONCE)
        self._agents: list[asyncio.Task[None]] = []
        self._known: set[int] = set()
        self.registrations = 0
        self.late_s = 0.0  # the longest that this process itself was late

    async def watch(self) -> None:
        while True:
            due = time.monotonic() + 0.2
            await asyncio.sleep(0.2)
            self.late_s = max(self.late_s, time.monotonic() - due)

    async def grow(self, count: int) -> None:
        self._agents += [asyncio.ensure_future(self._live(i)) for i in range(len(self._agents), count)]
        while len(self._known) < count:
            await asyncio.sleep(0.1)

    async def _live(self, i: int) -> None:
        incarnation, place, failures = uuid.uuid4().hex, random.randrange(len(self._stubs)), 0
        registered, pause_s = False, 5.0
        while True:
            stub: Any = self._stubs[place % len(self._stubs)][i % CONNECTIONS]
            try:
                if not registered:
                    if i in self._known:
                        pause_s = await self._register(stub, i, incarnation)
                    else:
                        async with self._first:
                            pause_s = await self._register(stub, i, incarnation)
                    registered = True
                    self._known.add(i)
                    await asyncio.sleep(pause_s * random.random())
                answer = await stub.Heartbeat(_heartbeat(i, incarnation), timeout=TIMEOUT_S)
                failures = 0
                if answer.register_again:
                    registered = False
                    continue
            except grpc.aio.AioRpcError:
                place, failures = place + 1, failures + 1
                longest = min(BACKOFF_S[1], BACKOFF_S[0] * 2 ** min(failures - 1, 10))
                await asyncio.sleep(longest * random.uniform(0.5, 1.0))
                continue
            told_s = getattr(answer, "heartbeat_ms", 0) / 1000
            await asyncio.sleep((told_s or pause_s) * random.uniform(0.85, 1.0))

    async def _register(self, stub: Any, i: int, incarnation: str) -> float:
        capacity = Resources(cpu_millis=64_000, memory_bytes=256 << 30)
        request = node_pb2.RegisterNodeRequest(
            node_id=f"node-{i:05}",
            name=f"node-{i:05}",
            address=f"127.0.0.1:{1 + i}",
            incarnation=incarnation,
            capacity=to_message(capacity, types_pb2.Resources),
            labels={"zone": f"zone-{i % 4}", "rack": f"rack-{i // 20:03}"},
            clock_ms=int(time.time() * 1000),
        )
        answer = await stub.RegisterNode(request, timeout=TIMEOUT_S)
        self.registrations += 1
        return float(answer.heartbeat_ms / 1000)


def _heartbeat(i: int, incarnation: str) -> Any:
    usage = node_pb2.NodeUsage(cpu_milli=(i * 37) % 60_000, memory_bytes=(i * 7 % 200) << 30)
    return node_pb2.HeartbeatRequest(
        node_id=f"node-{i:05}",
        incarnation=incarnation,
        usage=usage,
        clock_ms=int(time.time() * 1000),
        version="simulated",
    )


async def _serve(endpoints: str) -> None:
    crowd = Crowd(endpoints)
    watching = asyncio.ensure_future(crowd.watch())
    while line := await asyncio.to_thread(sys.stdin.readline):
        match line.split():
            case ["grow", count]:
                await crowd.grow(int(count))
                print("done", flush=True)
            case ["late"]:
                print(round(crowd.late_s, 2), flush=True)
                crowd.late_s = 0.0
            case ["registered"]:
                print(crowd.registrations, flush=True)
    watching.cancel()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
