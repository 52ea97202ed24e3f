"""What an agent says of its node reaches the state whole."""

from __future__ import annotations

import asyncio

from gosched.core.records.node import Hardware
from gosched.core.spec.placement_rules import Taint, TaintEffect
from gosched.wire.codec import to_message
from gosched.wire.v1 import types_pb2
from tests.master.harness import agent, one_master


def test_taints_and_hardware_are_registered() -> None:
    taint = Taint(key="gpu", value="true", effect=TaintEffect.NO_EXECUTE)
    hardware = Hardware(numa_cpus=("0-1", "2-3"), gpu_numa=(1,), gpu_links=(0,), gpu_memory_bytes=80 << 30)

    async def story() -> None:
        async with one_master() as master, agent(master, "n1") as node:
            await node.register(
                master,
                capacity=types_pb2.Resources(cpu_millis=4000, gpu_millis=1000, custom={"fpga": 2}),
                taints=[to_message(taint, types_pb2.Taint)],
                hardware=to_message(hardware, types_pb2.Hardware),
            )
            known = master.state.nodes["n1"]
            assert (known.taints, known.hardware, known.capacity.custom) == ((taint,), hardware, (("fpga", 2),))

    asyncio.run(story())
