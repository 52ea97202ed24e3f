"""Pods that once waited for good behind others that do, through the whole bridge."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from tests.integrations.kubernetes.simulated import Simulation

STEPS = 20
ZONE = {
    "topologyKey": "zone",
    "maxSkew": 5,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "x"}},
}


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulation]:
    with structlog.testing.capture_logs():
        yield Simulation(monkeypatch)


def put_node(simulation: Simulation, name: str, cpus: int) -> None:
    metadata = {"name": name, "uid": f"u-{name}", "labels": {"zone": f"zone-{name}", "kubernetes.io/hostname": name}}
    status = {"allocatable": {"cpu": str(cpus), "pods": "20"}, "conditions": [{"type": "Ready", "status": "True"}]}
    simulation.server.put_node({"metadata": metadata, "spec": {}, "status": status})


def put_pod(simulation: Simulation, name: str, *, group: str = "", app: str = "x", **spec: Any) -> None:
    spec = {"schedulerName": "gosched", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], **spec}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    metadata = {"name": name, "namespace": "n", "uid": f"u-{name}", "labels": {"app": app}}
    simulation.server.put_pod({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})


def end(simulation: Simulation, phase: str) -> None:
    for name, _ in list(simulation.server.bindings):
        simulation.server.put_pod({**simulation.server.pods[name], "status": {"phase": phase}})


async def steps(simulation: Simulation, count: int = STEPS) -> list[str]:
    """Return the names of the pods that are bound then, in that order."""
    for _ in range(count):
        await simulation.step()
    return [name for name, _ in simulation.server.bindings]


def test_a_pod_beyond_a_gang_comes_though_the_gang_has_ended_meanwhile(simulation: Simulation) -> None:
    async def story() -> None:
        put_node(simulation, "n0", 8)
        simulation.server.groups["g"] = 2
        for i in range(3):
            put_pod(simulation, f"g-{i}", group="g")
        assert await steps(simulation, 1) == ["g-0", "g-1"]
        end(simulation, "Succeeded")
        assert await steps(simulation) == ["g-0", "g-1", "g-2"]

    asyncio.run(story())


def test_a_gang_that_failed_starts_whole_again(simulation: Simulation) -> None:
    async def story() -> None:
        put_node(simulation, "n0", 8)
        simulation.server.groups["g"] = 2
        for i in range(2):
            put_pod(simulation, f"g-{i}", group="g")
        await steps(simulation, 1)
        end(simulation, "Failed")
        put_pod(simulation, "again-0", group="g")
        assert await steps(simulation) == ["g-0", "g-1"], "one is too few"
        put_pod(simulation, "again-1", group="g")
        assert await steps(simulation) == ["g-0", "g-1", "again-0", "again-1"]

    asyncio.run(story())


def test_a_pod_waits_not_behind_a_gang_of_its_like_that_is_too_large(simulation: Simulation) -> None:
    async def story() -> None:
        for name in ("n0", "n1"):
            put_node(simulation, name, 2)
        simulation.server.groups["g"] = 6
        for i in range(6):
            put_pod(simulation, f"g-{i}", group="g", topologySpreadConstraints=[ZONE])
        assert await steps(simulation, 3) == []
        put_pod(simulation, "single", topologySpreadConstraints=[ZONE])
        assert await steps(simulation) == ["single"]

    asyncio.run(story())


def test_a_pod_that_may_evict_waits_not_behind_one_of_its_like_that_may_not(simulation: Simulation) -> None:
    async def story() -> None:
        put_node(simulation, "n0", 1)
        put_pod(simulation, "low", app="low")
        assert await steps(simulation, 1) == ["low"]
        for name, policy in (("never", "Never"), ("may", "PreemptLowerPriority")):
            put_pod(simulation, name, priority=10, preemptionPolicy=policy, topologySpreadConstraints=[ZONE])
            await steps(simulation)
        assert len(simulation.masters.jobs) == 3, "the masters are asked for both"

    asyncio.run(story())


def test_a_gang_that_waits_says_so_once_its_spread_counts_the_pods_of_others(simulation: Simulation) -> None:
    said: dict[str, str] = {}
    simulation.say = lambda pod, reason, message: said.update({pod.name: f"{reason}: {message}"})

    async def story() -> None:
        put_node(simulation, "n0", 8)
        put_node(simulation, "n1", 1)
        put_pod(simulation, "filler", app="y", schedulerName="other", nodeName="n1")
        simulation.server.groups["g"] = 2
        for i in range(2):
            put_pod(simulation, f"g-{i}", group="g", topologySpreadConstraints=[{**ZONE, "maxSkew": 1}])
        assert await steps(simulation, 3) == []
        assert said["g-0"].startswith("Unschedulable: ")
        put_pod(simulation, "other", schedulerName="other", nodeName="n1")  # with it both could be on n0
        await steps(simulation, 1)
        refused = (
            "NotSupported: topologySpreadConstraints over zone with DoNotSchedule counts pod n/other, too, which does "
            "not start with its gang: select it alone"
        )
        assert said == {**said, "g-0": refused, "g-1": refused}
        simulation.server.remove("other")
        simulation.server.remove("filler")
        assert await steps(simulation) == ["g-0", "g-1"], "its job has kept its turn"
        assert len(simulation.masters.jobs) == 1

    asyncio.run(story())
