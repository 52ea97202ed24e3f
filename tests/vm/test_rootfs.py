"""Tasks on a root filesystem keep the limits of their cgroups, and leave nothing, with everything enforced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gosched.wire.v1 import types_pb2
from tests.integration.containers import make_rootfs
from tests.vm.conftest import BOMB, MIB, REFUSED_AT_ONCE, Figure, most_processes, wait_for
from tests.vm.node import DISK, Node, shell_order


@pytest.fixture(scope="module")
def image() -> Path:
    return make_rootfs(DISK / "image")


@pytest.fixture(scope="module", params=["crun", "runc"])
def node(request: pytest.FixtureRequest, image: Path) -> Iterator[Node]:
    made = Node(request.param, oci_runtime=request.param, users={"own": True})
    yield made.start()
    made.close()


@pytest.fixture(autouse=True)
def nothing_is_left(node: Node) -> Iterator[None]:
    yield
    wait_for(lambda: not node.cgroups(), why=f"cgroups left over: {node.cgroups()}")
    assert not list(DISK.glob("*/tasks/*/oci"))
    assert "overlay" not in Path("/proc/self/mountinfo").read_text()


def run(node: Node, allocation_id: str, line: str, **more: Any) -> None:
    order = shell_order(allocation_id, line, **more)
    order.runtime, order.image = types_pb2.RUNTIME_ROOTFS, str(DISK / "image")
    node.agent.run(order)


def test_a_container_over_its_memory_limit_is_oom_killed_whole(node: Node) -> None:
    run(node, "oom/0.1", "(dd if=/dev/zero of=/dev/null bs=200M count=1; sleep 1000) & sleep 1000; echo survived")
    state, _, reason = node.outcome("oom/0.1")
    assert (state, reason) == ("FAILED", "OOM_KILLED")
    assert 32 * MIB < node.end_of("oom/0.1").usage.memory_peak_bytes <= 64 * MIB


def test_a_fork_bomb_in_a_container_stops_at_its_limit(node: Node, figure: Figure) -> None:
    run(node, "bomb/0.1", f"[ $$ = 1 ] || exit 9; {BOMB}", pids=40)
    most = most_processes(node.cgroup("bomb/0.1"), 31)
    node.agent.stop("bomb/0.1", 0)
    assert node.outcome("bomb/0.1")[0] == "KILLED", "it is PID 1, and lived until then"
    assert most <= 40 + REFUSED_AT_ONCE
    figure(f"fork bomb in a container with 40 processes allowed: at most {most} at once, none afterwards")


def test_a_container_reads_its_own_limit_and_stands_still_and_goes_on(node: Node) -> None:
    run(node, "still/0.1", "cat /sys/fs/cgroup/memory.max 2>&1; while :; do echo tick >> /work/ticks; sleep 0.1; done")
    ticks = node.agent.spool("still/0.1") / "work" / "ticks"
    wait_for(ticks.exists)
    node.freeze("still/0.1")
    cgroup = node.cgroup("still/0.1")
    wait_for(lambda: "frozen 1" in (cgroup / "cgroup.events").read_text())
    before = ticks.read_text()
    node.freeze("still/0.1", thaw=True)
    wait_for(lambda: ticks.read_text() != before)
    node.agent.stop("still/0.1", grace_ms=200)
    assert node.outcome("still/0.1")[0] == "KILLED"
    limit = node.agent.stdout("still/0.1").strip()
    assert limit == str(64 * MIB).encode() or ticks.is_relative_to(DISK / "runc"), (
        "runc's cgroup is one below, without it"
    )
