"""The agent's cgroups with every controller of the kernel behind them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from gosched.agent.cgroups.files import counted, is_populated, kill, remove
from gosched.agent.cgroups.tree import CgroupTree
from tests.agent.conftest import set_frozen
from tests.vm.conftest import (
    BUSY,
    MIB,
    PATIENCE_S,
    REFUSED_AT_ONCE,
    Figure,
    Start,
    cpu_seconds,
    rates,
    values,
    wait_for,
)

TOP = Path("/sys/fs/cgroup")


def test_everything_can_be_enforced_and_the_agent_says_so(tree: CgroupTree) -> None:
    assert tree.isolation == ""
    assert tree.controllers == {"cpu", "cpuset", "io", "memory", "pids", "hugetlb"}
    assert tree.root == TOP / "gosched-test"


def test_soft_cpu_is_shared_by_weight(tree: CgroupTree, start_in: Start, figure: Figure) -> None:
    paths = [tree.create(name, values(tree, cpu=cpu, cpu_soft=True)) for name, cpu in (("one", 500), ("three", 1500))]
    for path in paths:
        start_in(path, f"{BUSY} & {BUSY}")
    for path in paths:
        wait_for(lambda path=path: cpu_seconds(path) > 0.2)  # type: ignore[misc]
    began, before = time.monotonic(), [cpu_seconds(path) for path in paths if path]
    time.sleep(10)
    one, three = (cpu_seconds(path) - start for path, start in zip(filter(None, paths), before, strict=True))
    took = time.monotonic() - began
    used = f"{one / took:.2f} and {three / took:.2f}, ratio {three / one:.2f}"
    figure(f"soft CPU 0.5 and 1.5 on 2 busy CPUs: measured {used}")
    assert 2.5 <= three / one <= 3.5
    kill(paths[1])  # type: ignore[arg-type]
    alone = max(rates(lambda: cpu_seconds(paths[0]), 5))  # type: ignore[arg-type]
    figure(f"soft CPU 0.5 alone on 2 CPUs: measured {alone:.2f}")
    assert alone > 1.2, "more than one CPU, at times: its host may let the guest stand still"


def test_a_task_with_cpus_of_its_own_stays_on_them_and_on_their_memory(tree: CgroupTree, start_in: Start) -> None:
    path = tree.create("pinned", values(tree, cpus="1"))
    assert path is not None
    process = start_in(path, "grep _allowed_list /proc/self/status")
    output = process.communicate(timeout=PATIENCE_S)[0].decode()
    assert "Cpus_allowed_list:\t1\n" in output
    assert "Mems_allowed_list:\t1\n" in output
    assert not (path / "cpu.max").read_text().split()[0].isdigit()  # whole CPUs need no quota


def test_huge_pages_are_limited(tree: CgroupTree) -> None:
    path = tree.create("huge", values(tree, hugepages=(("2Mi", 4 * MIB),)))
    assert path is not None
    assert int((path / "hugetlb.2MB.max").read_text()) == 4 * MIB


def test_a_frozen_task_stands_still_and_goes_on(tree: CgroupTree, start_in: Start) -> None:
    path = tree.create("frozen", values(tree))
    assert path is not None
    start_in(path, BUSY)
    wait_for(lambda: cpu_seconds(path) > 0.2)
    set_frozen(path, True)
    still = cpu_seconds(path)
    time.sleep(0.5)
    assert cpu_seconds(path) == still
    set_frozen(path, False)
    wait_for(lambda: cpu_seconds(path) > still + 0.1)


def test_a_fork_bomb_stops_at_its_limit_and_goes_with_its_cgroup(tree: CgroupTree, start_in: Start) -> None:
    path = tree.create("bomb", values(tree, pids=40))
    assert path is not None
    start_in(path, "b() { b | b & }; b; sleep 1000")
    wait_for(lambda: "max 0" not in (path / "pids.events").read_text())
    for _ in range(10):
        assert int((path / "pids.current").read_text()) <= 40 + REFUSED_AT_ONCE
        time.sleep(0.05)
    kill(path)
    assert remove(path, PATIENCE_S)


def test_pressure_is_measured(tree: CgroupTree, start_in: Start, figure: Figure) -> None:
    path = tree.create("pressed", values(tree, cpu=200))
    assert path is not None
    start_in(path, f"{BUSY} & {BUSY}")
    began_at = time.monotonic()
    wait_for(lambda: counted(path)["cpu_stalled_ms"] > 1500)
    figure(f"PSI: two loops on 0.2 CPU waited 1.5 s for a CPU within {time.monotonic() - began_at:.1f} s")
    assert counted(path)["memory_stalled_ms"] == 0
    assert counted(path)["io_stalled_ms"] < 150, "but for a shell that is read from the disk, perhaps"


def test_a_delegated_cgroup_is_taken_and_nothing_outside_it(start_in: Start, tmp_path: Path) -> None:
    unit = TOP / "unit.slice" / "gosched.service"
    unit.mkdir(parents=True)
    for level in (TOP, unit.parent):
        (level / "cgroup.subtree_control").write_text("+cpu +cpuset +io +memory +pids")
    os.setxattr(unit, "user.delegate", b"1")
    program = (
        "from gosched.agent.cgroups.tree import CgroupTree; from pathlib import Path; "
        f"t = CgroupTree.open('', 'n1', Path('{tmp_path}')); t.enter_own_leaf(); "
        "print(t.root, sorted(t.controllers), t.isolation, open('/proc/self/cgroup').read(), sep='|')"
    )
    process = start_in(unit, f'{sys.executable} -c "{program}"')
    output = process.communicate(timeout=PATIENCE_S)[0].decode()
    root, controllers, isolation, own = output.split("|")
    assert root == str(unit / "gosched-n1")
    assert controllers == "['cpu', 'cpuset', 'io', 'memory', 'pids']"
    assert "hugetlb" in isolation
    assert "unit.slice/gosched.service/gosched-n1/agent" in own
    assert remove(unit.parent, PATIENCE_S)


def test_what_a_task_made_below_its_cgroup_goes_too(tree: CgroupTree) -> None:
    path = tree.create("deep", values(tree))
    assert path is not None
    (path / "a" / "b").mkdir(parents=True)
    sleeper = subprocess.Popen(["sleep", "1000"])
    (path / "a" / "b" / "cgroup.procs").write_text(str(sleeper.pid))
    assert is_populated(path)
    kill(path)
    assert sleeper.wait(PATIENCE_S) == -signal.SIGKILL
    assert remove(path, PATIENCE_S)
