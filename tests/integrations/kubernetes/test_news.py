"""When gosched-kube tells the masters of a node: of pods that are being bound, at once."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from gosched.core.orders import TaskOrder
from gosched.integrations.kubernetes import binder as binder_module
from gosched.integrations.kubernetes import sessions as sessions_module
from gosched.integrations.kubernetes.sessions import NodeSession
from gosched.integrations.kubernetes.tasks import Tasks, read_order
from tests.integrations.kubernetes.simulated import Simulation
from tests.integrations.kubernetes.test_binding import Bench

NODE: dict[str, Any] = {
    "metadata": {"name": "a", "uid": "u-a"},
    "spec": {},
    "status": {"allocatable": {"cpu": "8", "pods": "9"}, "conditions": [{"type": "Ready", "status": "True"}]},
}


def ordered(tasks: Tasks) -> None:
    env = (("GOSCHED_TASK_COUNT", "1"), ("KUBE_POD_UID", "u-p"))
    order = read_order("a", TaskOrder(allocation_id="j-1/pod/0.1", task_id="j-1/pod/0", job_id="j-1", env=env))
    assert order is not None
    tasks.take(order)


@pytest.mark.parametrize("is_bound", [True, False])
def test_a_node_tells_of_pods_that_are_being_bound_together_and_not_much_later(
    monkeypatch: pytest.MonkeyPatch, is_bound: bool
) -> None:
    monkeypatch.setattr(sessions_module, "SETTLE_S", 0.01)
    monkeypatch.setattr(sessions_module, "BINDING_S", 0.3)
    nothing: Any = None

    async def story() -> float:
        tasks = Tasks(lambda node: None)
        session = NodeSession("a", nothing, tasks, nothing, nothing, nothing, nothing, heartbeat_ms=60_000)
        ordered(tasks)
        session.changed.set()
        if is_bound:
            asyncio.get_running_loop().call_later(0.1, tasks.disown, "j-1/pod/0.1")
        began = time.monotonic()
        await session._wait()
        return time.monotonic() - began

    took = asyncio.run(story())
    assert took >= (0.1 if is_bound else 0.3)
    assert is_bound == (took < 0.3) or took > 2  # a machine that stood still proves nothing


def test_news_of_a_pod_that_is_ours_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        simulation = Simulation(monkeypatch)
        server, told = simulation.server, list[str]()
        monkeypatch.setattr(simulation.bridge, "_news_of", told.append)
        monkeypatch.setattr(simulation.bridge._tasks, "_changed", told.append)
        server.put_node(NODE)
        ordered(simulation.bridge._tasks)
        metadata = {
            "name": "p",
            "namespace": "n",
            "uid": "u-p",
            "annotations": {"gosched.io/allocation": "j-1/pod/0.1"},
        }
        spec = {"schedulerName": "gosched", "containers": [], "nodeName": "a"}
        bound = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        server.put_pod(bound)
        assert told == ["a"]
        server.put_pod({**bound, "status": {"phase": "Pending", "message": "nothing that matters"}})
        assert told == ["a"]
        server.put_pod({**bound, "status": {"phase": "Running"}})
        assert told == ["a", "a"]
        metadata = {"name": "theirs", "namespace": "n", "uid": "u-theirs"}
        server.put_pod({"metadata": metadata, "spec": {**spec, "schedulerName": "other"}, "status": {}})
        assert told == ["a", "a", "a"]

    asyncio.run(story())


def test_each_node_of_a_gang_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(binder_module.Binder, "_node_problem", lambda self, name: looked.append(name) or "")

    async def story() -> None:
        bench = Bench(monkeypatch)
        bench.pods("p", "q", "r")
        for index, node in enumerate("aab"):
            bench.order(index, node, count=3)
        await bench.done()
        assert len(bench.api.sent) == 3

    asyncio.run(story())
    assert looked == ["a", "b"]
