"""What the guest's tests share: a tree of cgroups, processes that are born in one, and what was measured."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gosched.agent.cgroups.files import kill, remove
from gosched.agent.cgroups.tree import CgroupTree
from gosched.agent.logic.cgroup_values import cgroup_values
from gosched.core.resources import Resources
from gosched.core.spec.isolation import Isolation
from tests.agent import conftest as patient

Figure = Callable[[str], None]
Start = Callable[..., subprocess.Popen[bytes]]

BUSY = "while :; do :; done"
MIB = 1 << 20
PATIENCE_S = 300.0  # for what takes a second: the guest is emulated, and its host may leave it half a core
BOMB = f"b() {{ b | b & }}; b; {BUSY}"  # the shell itself forks once: what cannot fork any more would end
REFUSED_AT_ONCE = os.cpu_count() or 1  # pids.current counts a fork that is refused, for a moment, one on each CPU


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """Keeps a line with what was measured; the host's run shows it."""

    def keep(line: str) -> None:
        print(line)
        record_property("figure", line)

    return keep


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[CgroupTree]:
    """As an agent has it that root started. Afterwards all of it must go."""
    found = CgroupTree.open("", "test", tmp_path)
    yield found
    for name in found.names():
        kill(found.path(name))
        assert remove(found.path(name), PATIENCE_S), name
    found.close()
    assert found.root is not None
    assert not found.root.exists()


def values(
    tree: CgroupTree, *, cpu: int = 1000, memory_mib: int = 64, cpus: str = "", **isolation: Any
) -> dict[str, str]:
    """Of a task's cgroup, as the agent sets them."""
    return cgroup_values(
        Resources(cpu_millis=cpu, memory_bytes=memory_mib * MIB),
        Isolation(**isolation),
        cpus=cpus,
        numa={0: 0b01, 1: 0b10},
        pids_max=100,
        device=tree.device,
        controllers=tree.controllers,
    )


@pytest.fixture
def start_in() -> Iterator[Start]:
    """Starts a shell line as a process that is born in a cgroup."""
    started: list[subprocess.Popen[bytes]] = []

    def start(path: Path | None, line: str) -> subprocess.Popen[bytes]:
        birth = f'echo 0 > {path}/cgroup.procs && exec /bin/sh -c "$0"'
        process = subprocess.Popen(["/bin/sh", "-c", birth, line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()


def wait_for(what: Callable[[], object], *, limit_s: float = PATIENCE_S, why: str = "") -> None:
    patient.wait_for(what, limit_s=limit_s, why=why)


def most_processes(path: Path, least: int) -> int:
    """Seen in a cgroup for a while, from when there are `least` of them."""

    def now() -> int:
        return int((path / "pids.current").read_text())

    wait_for(lambda: path.exists() and now() >= least, why=f"{least} processes in {path}")
    most = 0
    for _ in range(100):
        most = max(most, now())
        time.sleep(0.02)
    return most


def cpu_seconds(path: Path) -> float:
    pairs = dict(line.split() for line in (path / "cpu.stat").read_text().splitlines())
    return int(pairs["usage_usec"]) / 1e6


def rates(counter: Callable[[], float], windows: int) -> list[float]:
    """Growth of a counter per second of wall time, over a second each. A single one tells little: its host may let the
    guest stand still meanwhile."""
    found = []
    for _ in range(windows):
        began, before = time.monotonic(), counter()
        time.sleep(1)
        after, ended = counter(), time.monotonic()
        found.append((after - before) / (ended - began))
    return found


def cpus_by_period(path: Path, windows: int) -> list[float]:
    """CPUs that a cgroup with a quota used, over a second each, by the kernel's own count of the quota's periods: where
    the host lets the guest stand still, that count misses as much of it as the quota does."""

    def counts() -> tuple[int, int]:
        pairs = dict(line.split() for line in (path / "cpu.stat").read_text().splitlines())
        return int(pairs["usage_usec"]), int(pairs["nr_periods"])

    period_us = int((path / "cpu.max").read_text().split()[1])
    seen = [counts()]
    for _ in range(windows):
        time.sleep(1)
        seen.append(counts())
    return [(after - before) / period_us / (last - first) for (before, first), (after, last) in pairwise(seen)]
