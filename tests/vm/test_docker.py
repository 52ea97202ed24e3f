"""Docker's containers keep their limits, are counted, and outlive the agent, on pure cgroup v2."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import docker
import pytest

from gosched.wire.v1 import types_pb2
from tests.integration.containers import make_rootfs
from tests.integration.daemons import docker_daemon, import_image
from tests.vm.conftest import BUSY, MIB, PATIENCE_S, Figure, cpu_seconds, cpus_by_period, wait_for
from tests.vm.node import CGROUPS, DISK, Node, shell_order

IMAGE = "small"


@pytest.fixture(scope="module")
def daemon() -> Iterator[str]:
    base = DISK / "docker"
    base.mkdir()
    with docker_daemon(base) as address:
        import_image(address, make_rootfs(DISK / "docker-image"), IMAGE)
        yield address


@pytest.fixture(scope="module")
def node(daemon: str) -> Iterator[Node]:
    made = Node("dockers", docker_host=daemon, users={"own": True})
    yield made.start()
    made.close()


@pytest.fixture(autouse=True)
def nothing_is_left(node: Node, daemon: str) -> Iterator[None]:
    yield
    client = docker.APIClient(base_url=daemon, version="auto", timeout=PATIENCE_S)
    wait_for(lambda: not client.containers(all=True), why="the container is removed")
    client.close()
    wait_for(lambda: not node.cgroups(), why=f"cgroups left over: {node.cgroups()}")


def start(node: Node, allocation_id: str, line: str, **more: Any) -> None:
    order = shell_order(allocation_id, line, **more)
    order.runtime, order.image = types_pb2.RUNTIME_DOCKER, IMAGE
    node.agent.run(order)


def container_cgroup() -> Path:
    """Of the only one there is."""
    found: list[Path] = []
    wait_for(lambda: found.extend(p for p in (CGROUPS / "docker").glob("*/") if "cgroup" not in p.name) or found)
    return found[0]


def test_a_container_over_its_memory_limit_is_oom_killed_whole(node: Node) -> None:
    eat = "dd if=/dev/zero of=/dev/null bs=200M count=1"
    start(node, "oom/0.1", f"until [ -e /work/go ]; do sleep 0.1; done; {eat}; echo survived")
    path = container_cgroup()
    wait_for(lambda: (path / "memory.oom.group").read_text() == "1\n")  # written soon after its start
    (node.agent.spool("oom/0.1") / "work" / "go").touch()
    assert node.outcome("oom/0.1") == ("FAILED", 137, "OOM_KILLED")


def test_a_containers_cpu_limit_is_kept_and_its_use_is_reported(node: Node, figure: Figure) -> None:
    start(node, "cpu/0.1", f"{BUSY} & {BUSY}", cpu=500)
    node.master.await_state("cpu/0.1", "RUNNING")  # runc, which needs some CPU too, has written the limits
    path = container_cgroup()
    wait_for(lambda: cpu_seconds(path) > 0.5)
    assert int((path / "memory.max").read_text()) == 64 * MIB
    assert int((path / "pids.max").read_text()) > 0
    assert (path / "cpu.max").read_text() == "50000 100000\n"
    held = cpus_by_period(path, 15)
    live = node.master.await_state("cpu/0.1", "RUNNING").usage
    node.agent.stop("cpu/0.1", 0)
    end = node.end_of("cpu/0.1")
    figure(f"CPU quota 0.5 of a container, two busy loops, 15 s: measured {median(held):.3f}")
    assert median(held) <= 0.525
    assert live.cpu_ms > 0
    # Killed, its launcher with it: what was counted some seconds before.
    assert end.usage.cpu_ms >= live.cpu_ms - 5000
    assert end.usage.memory_peak_bytes < 64 * MIB
    assert end.usage.cpu_ms >= 2000
    assert end.usage.throttled_ms > 0


def test_a_frozen_container_stands_still_and_goes_on(node: Node) -> None:
    start(node, "still/0.1", BUSY)
    node.master.await_state("still/0.1", "RUNNING")
    path = container_cgroup()
    wait_for(lambda: cpu_seconds(path) > 0.2)
    node.freeze("still/0.1")
    wait_for(lambda: "frozen 1" in (path / "cgroup.events").read_text())
    still = cpu_seconds(path)
    time.sleep(0.5)
    assert cpu_seconds(path) == still
    node.freeze("still/0.1", thaw=True)
    wait_for(lambda: cpu_seconds(path) > still + 0.2)
    node.agent.stop("still/0.1", 0)
    assert node.outcome("still/0.1")[0] == "KILLED"


def test_a_container_outlives_the_agent_and_its_exit_code_is_known(node: Node) -> None:
    start(node, "adopted/0.1", "until [ -e /work/go ]; do sleep 0.1; done; exit 7")
    node.master.await_state("adopted/0.1", "RUNNING")
    node.agent.end(signal.SIGKILL)
    node.start()
    (node.agent.spool("adopted/0.1") / "work" / "go").touch()
    assert node.outcome("adopted/0.1") == ("FAILED", 7, "NONZERO_EXIT")
