"""Limits that jobs seldom ask for, each enforced by the kernel."""

from __future__ import annotations

import mmap
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.agent.cgroups.files import remove
from gosched.agent.cgroups.tree import CgroupTree
from tests.vm.conftest import MIB, Figure, Start, values, wait_for

TOP = Path("/sys/fs/cgroup")
SWAP = Path("/disk/swap")
SHARED = Path("/dev/shm/high")
LIMIT_S = 300.0  # for what takes a second: the guest is emulated


@pytest.fixture
def swap() -> Iterator[None]:
    with SWAP.open("wb") as file:
        for _ in range(96):
            file.write(bytes(MIB))
    subprocess.run(["mkswap", str(SWAP)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["swapon", str(SWAP)], check=True)
    yield
    subprocess.run(["swapoff", str(SWAP)], check=True)
    SWAP.unlink()


def number(file: Path) -> int:
    return int(file.read_text())


def counts(file: Path) -> dict[str, int]:
    return {key: int(value) for key, value in (line.split() for line in file.read_text().splitlines())}


@pytest.mark.usefixtures("swap")
def test_a_task_swaps_as_much_as_it_asked_for_and_by_itself_not_at_all(tree: CgroupTree, start_in: Start) -> None:
    eat = "dd if=/dev/zero of=/dev/null bs=48M count=1"  # of 32 MiB
    without = tree.create("without", values(tree, memory_mib=32))
    assert without is not None
    assert start_in(without, eat).wait(LIMIT_S) == -9
    assert counts(without / "memory.events")["oom_kill"] > 0
    allowed = tree.create("allowed", values(tree, memory_mib=32, swap_bytes=64 * MIB))
    assert allowed is not None
    assert start_in(allowed, eat).wait(LIMIT_S) == 0
    assert counts(allowed / "memory.events")["oom_kill"] == 0


def test_a_task_over_its_memory_high_is_slowed_down_and_not_killed(tree: CgroupTree, start_in: Start) -> None:
    path = tree.create("high", values(tree, memory_mib=64, memory_high_bytes=16 * MIB))
    assert path is not None
    process = start_in(path, f"dd if=/dev/zero of={SHARED} bs=1M count=48")  # which counts as its memory
    try:
        wait_for(lambda: counts(path / "memory.events")["high"] > 0)
        time.sleep(3)
        assert process.poll() is None
        assert number(path / "memory.current") < 32 * MIB  # it takes seconds for each MiB now
        assert counts(path / "memory.events")["oom_kill"] == 0
    finally:
        SHARED.unlink()


def test_no_more_huge_pages_than_were_asked_for(tree: CgroupTree, start_in: Start) -> None:
    path = tree.create("huge", values(tree, hugepages=(("2Mi", 4 * MIB),)))
    assert path is not None
    program = "import mmap, sys; m = mmap.mmap(-1, int(sys.argv[1]), flags={flags}); m.write(bytes(len(m)))"
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000  # MAP_HUGETLB
    line = f'{sys.executable} -c "{program.format(flags=flags)}"'
    assert start_in(path, f"{line} {4 * MIB}").wait(LIMIT_S) == 0
    assert start_in(path, f"{line} {6 * MIB}").wait(LIMIT_S) == -7  # SIGBUS
    assert counts(path / "hugetlb.2MB.events")["max"] > 0


def test_no_more_disk_operations_in_a_second_than_were_asked_for(
    tree: CgroupTree, start_in: Start, figure: Figure
) -> None:
    path = tree.create("operations", values(tree, io_writes=20))
    assert path is not None
    began = time.monotonic()
    assert start_in(path, "dd if=/dev/zero of=/disk/few bs=4K count=60 oflag=direct").wait(LIMIT_S) == 0
    took = time.monotonic() - began
    Path("/disk/few").unlink()
    figure(f"20 writes in a second allowed: 60 took {took:.1f} s")
    assert took >= 2.5


def test_what_is_kept_for_tasks_is_kept_on_all_levels_or_the_node_says_which_one_keeps_nothing(tmp_path: Path) -> None:
    unit = TOP / "nested.slice" / "unit"
    unit.mkdir(parents=True)
    for level in (TOP, unit.parent):
        (level / "cgroup.subtree_control").write_text("+memory")
    poor = CgroupTree.open(str(unit), "n1", tmp_path)
    assert f"{unit.parent} keeps no memory (memory.low)" in poor.isolation
    poor.keep_memory(MIB)
    assert number(unit / "memory.low") == 0  # nothing is pretended
    poor.close()
    (unit.parent / "memory.low").write_text("max")
    rich = CgroupTree.open(str(unit), "n1", tmp_path)
    assert "memory.low" not in rich.isolation
    assert rich.root is not None
    for total in (3 * MIB, 2 * MIB, 0):
        rich.keep_memory(total)
        assert [number(level / "memory.low") for level in (unit, rich.root, rich.root / "tasks")] == [total] * 3
    rich.close()
    assert remove(unit.parent, 5)
