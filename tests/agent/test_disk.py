"""Space on the disk, early clean-up, and what working directories hold."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from gosched.agent.hardware import disk as disk_module
from gosched.agent.hardware.disk import Disk, DiskSpace, Work, WorkQuota, capacity_at, clean_early, measure

BLOCK = 4096


class Pretended:
    """A file system of 1000 bytes and 1000 inodes."""

    def __init__(self, free: int = 500, free_inodes: int = 500) -> None:
        self.free = free
        self.free_inodes = free_inodes
        self.read_only = False
        self.error: OSError | None = None

    def __call__(self, path: Path) -> DiskSpace:
        if self.error is not None:
            raise self.error
        return DiskSpace(
            total_bytes=1000,
            free_bytes=self.free,
            inodes=1000,
            free_inodes=self.free_inodes,
            read_only=self.read_only,
        )


def looked(disk: Disk, room: Pretended, free: int) -> str:
    room.free = free
    disk.look()
    return disk.problem


def test_a_node_is_unfit_below_the_line_and_fit_again_only_well_above_it() -> None:
    room = Pretended()
    disk = Disk(Path("/data"), 3, room)
    assert looked(disk, room, 30) == ""
    assert looked(disk, room, 29) == "disk pressure: 2 % free on /data, 3 % needed"
    assert looked(disk, room, 39) == "disk pressure: 3 % free on /data, 4 % needed"
    assert looked(disk, room, 40) == ""
    assert looked(disk, room, 30) == ""
    assert disk.used_bytes == 970


def test_a_disk_without_inodes_is_full_too() -> None:
    disk = Disk(Path("/data"), 3, Pretended(free_inodes=10))
    disk.look()
    assert disk.problem == "disk pressure (inodes): 1 % free on /data, 3 % needed"


def test_clean_up_is_due_before_the_node_is_unfit() -> None:
    room = Pretended()
    disk = Disk(Path("/data"), 3, room)
    looked(disk, room, 49)
    assert (disk.is_tight, disk.problem) == (True, "")
    looked(disk, room, 50)
    assert not disk.is_tight


def test_with_no_line_set_a_full_disk_is_nobodys_concern() -> None:
    disk = Disk(Path("/data"), 0, Pretended(free=0, free_inodes=0))
    disk.look()
    assert (disk.problem, disk.is_tight) == ("", False)


def test_a_disk_that_takes_no_writes_or_is_gone_makes_the_node_unfit() -> None:
    room = Pretended()
    disk = Disk(Path("/data"), 0, room)
    room.read_only = True
    disk.look()
    assert disk.problem == "the file system of /data is read-only"
    room.error = OSError(5, "Input/output error")
    disk.look()
    assert disk.problem == "cannot look at the disk of /data: [Errno 5] Input/output error"


def test_this_machines_disk_can_be_looked_at(tmp_path: Path) -> None:
    room = capacity_at(tmp_path)
    assert 0 < room.free_bytes <= room.total_bytes


class Tasks:
    """Ended tasks by their age; each holds 10 bytes of the pretended disk."""

    def __init__(self, room: Pretended, ages: list[float]) -> None:
        self.room = room
        self.ages = ages
        self.logs = 0

    def works(self) -> list[Work]:
        return []

    def stop_for_quota(self, allocation_id: str, detail: str) -> None:
        raise AssertionError

    async def clean(self, keep_s: float) -> None:
        kept = [age for age in self.ages if age < keep_s]
        self.room.free += 10 * (len(self.ages) - len(kept))
        self.ages = kept

    async def drop_logs(self, share: float) -> None:
        assert not self.ages, "logs go after the working directories"
        freed = round(self.logs * share)
        self.room.free += freed
        self.logs -= freed


@pytest.mark.parametrize(
    ("free", "left", "kept_s"),
    [(40, [100, 200, 500, 1000], 1800), (20, [100, 200], 450), (0, [], 0)],
)
def test_the_oldest_go_first_and_no_more_than_needed(free: int, left: list[float], kept_s: float) -> None:
    room = Pretended(free=free)
    tasks = Tasks(room, [100, 200, 500, 1000, 2000])
    disk = Disk(Path("/data"), 3, room)
    assert asyncio.run(clean_early(tasks, disk, 3600)) == kept_s
    assert tasks.ages == left


def test_logs_go_last_and_no_more_than_needed() -> None:
    room = Pretended(free=0)
    tasks = Tasks(room, [])
    tasks.logs = 100
    disk = Disk(Path("/data"), 3, room)
    disk.look()
    assert disk.is_tight
    assert asyncio.run(clean_early(tasks, disk, 3600)) == 0.0
    assert not disk.is_tight
    assert 0 < tasks.logs < 100


def fill(path: Path, blocks: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * blocks * BLOCK)


def files_hold(path: Path, *names: str) -> int:
    return sum((path / name).lstat().st_blocks * 512 for name in names)


def test_a_directory_holds_what_its_files_take_on_the_disk(tmp_path: Path) -> None:
    fill(tmp_path / "a", 3)
    fill(tmp_path / "deep/er/b", 2)
    os.link(tmp_path / "a", tmp_path / "again")
    with (tmp_path / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 40)
    (tmp_path / "link").symlink_to("/")
    expected = files_hold(tmp_path, "a", "deep", "deep/er", "deep/er/b", "sparse", "link")
    assert measure(tmp_path, 1 << 50).held_bytes == expected >= 5 * BLOCK


def test_a_measurement_stops_at_what_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        fill(tmp_path / str(number), 1)
    part = measure(tmp_path, 5 * BLOCK)
    assert part.is_part
    assert 5 * BLOCK < part.held_bytes < 8 * BLOCK
    monkeypatch.setattr(disk_module, "MAX_WALK_ENTRIES", 10)
    assert measure(tmp_path, 1 << 50).is_part


def test_what_is_gone_holds_nothing(tmp_path: Path) -> None:
    assert measure(tmp_path / "gone", 1).held_bytes == 0


def test_directories_deeper_than_a_path_can_name_end_no_measurement(tmp_path: Path) -> None:
    fill(tmp_path / "file", 1)
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    try:
        assert measure(tmp_path, 1 << 50).held_bytes >= BLOCK
    finally:
        shutil.rmtree(tmp_path)


def test_a_task_that_holds_too_much_is_named_with_the_figures(tmp_path: Path) -> None:
    fill(tmp_path / "big/file", 4)
    fill(tmp_path / "small/file", 1)
    works = [
        Work(allocation_id="big", paths=(tmp_path / "big",), limit_bytes=2 * BLOCK),
        Work(allocation_id="small", paths=(tmp_path / "small",), limit_bytes=2 * BLOCK),
        Work(allocation_id="free", paths=(tmp_path / "big",), limit_bytes=0),
    ]
    found = asyncio.run(WorkQuota(lambda: 0.0).over(works))
    assert [allocation for allocation, _ in found] == ["big"]
    assert "may hold 8192: ask for more with resources.storage" in found[0][1]


def test_measuring_takes_a_bounded_share_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Walks of 2 s each, of two tasks, for an hour: within the share, and both are measured in turn."""
    now = 0.0
    walked: list[Path] = []

    def slow(path: Path, enough_bytes: int) -> disk_module.Measured:
        nonlocal now
        walked.append(path)
        now += 2.0
        return disk_module.Measured(held_bytes=0)

    monkeypatch.setattr(disk_module, "measure", slow)
    works = [Work(allocation_id=name, paths=(tmp_path / name,), limit_bytes=1) for name in ("a", "b")]
    quota = WorkQuota(lambda: now)
    while now < 3600:
        asyncio.run(quota.over(works))
        now += 5
    assert 2 * len(walked) <= 3600 / disk_module.WALK_SHARE + 4
    assert walked.count(tmp_path / "a") == walked.count(tmp_path / "b") > 5


def test_a_quick_directory_is_measured_again_soon(tmp_path: Path) -> None:
    now = 0.0
    quota = WorkQuota(lambda: now)
    work = Work(allocation_id="a", paths=(tmp_path,), limit_bytes=1)
    fill(tmp_path / "file", 1)
    assert asyncio.run(quota.over([work]))
    now = disk_module.WALK_EVERY_S / 2
    assert not asyncio.run(quota.over([work]))
    now = disk_module.WALK_EVERY_S
    assert asyncio.run(quota.over([work]))
