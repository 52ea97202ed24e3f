"""What heartbeats say of the machine, and when it is unfit."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from gosched.agent.hardware import vitals as vitals_module
from gosched.agent.hardware.disk import Disk, DiskSpace
from gosched.agent.hardware.gpus import NO_GPUS, Gpu, Gpus
from gosched.agent.hardware.nvml import GpuState
from gosched.agent.hardware.vitals import FAULT_S, HANGS_AFTER_S, Pressure, Vitals, read_pressure

PSI = "some avg10=12.34 avg60=1.41 avg300=2.45 total=4183331793\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def a_disk(free: int = 500) -> Disk:
    return Disk(Path("/data"), 3, lambda _: DiskSpace(total_bytes=1000, free_bytes=free))


def test_heartbeats_say_what_is_used_between_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = SimpleNamespace(user=10.0, nice=0.0, system=5.0, irq=0.0, softirq=0.0)
    monkeypatch.setattr(psutil, "cpu_times", lambda: busy)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=1000, available=400))
    (tmp_path / "cpu").write_text(PSI)
    gpus = Gpus([Gpu(name="Tesla T4", uuid="GPU-1")])
    gpus.look = lambda: None  # type: ignore[method-assign]
    gpus.states = (GpuState(busy_milli=370, memory_bytes=7, problem="bad"),)
    clock = Clock()
    vitals = Vitals(a_disk(), gpus, lambda: None, pressure=tmp_path, clock=clock)
    clock.now += 5
    busy.user, busy.system = 16.0, 6.5
    vitals.look()
    said = vitals.usage()
    assert (said.cpu_milli, said.memory_bytes, said.disk_bytes) == (1500, 600, 500)
    assert (said.cpu_pressure_milli, said.memory_pressure_milli, said.io_pressure_milli) == (123, -1, -1)
    gpu = said.gpus[0]
    assert (gpu.gpu, gpu.name, gpu.uuid, gpu.busy_milli, gpu.memory_bytes, gpu.problem) == (
        0,
        "Tesla T4",
        "GPU-1",
        370,
        7,
        "bad",
    )


def test_pressure_is_not_known_where_the_kernel_does_not_count_it(tmp_path: Path) -> None:
    (tmp_path / "cpu").write_text(PSI)
    (tmp_path / "odd").write_text("nothing\n")
    assert read_pressure(tmp_path / "cpu") == Pressure(milli=123, stalled_us=4183331793)
    assert read_pressure(tmp_path / "odd") == read_pressure(tmp_path / "none") == Pressure(milli=-1)


def test_a_full_disk_makes_the_node_unfit() -> None:
    vitals = Vitals(a_disk(free=10), NO_GPUS, lambda: None)
    assert vitals.unfit() == ""
    vitals.look()
    assert vitals.unfit() == "disk pressure: 1 % free on /data, 3 % needed"


def test_a_look_that_hangs_makes_the_node_unfit_and_its_end_fit_again() -> None:
    clock = Clock()
    vitals = Vitals(a_disk(), NO_GPUS, lambda: None, clock=clock)
    clock.now += HANGS_AFTER_S + 1
    assert "hangs" in vitals.unfit()
    vitals.look()
    assert vitals.unfit() == ""


def test_a_change_is_told_at_once_and_a_failed_look_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vitals_module, "LOOK_EVERY_S", 0.001)
    changed = threading.Event()
    disk = a_disk()
    vitals = Vitals(disk, NO_GPUS, changed.set)
    vitals.start()
    looks = iter([RuntimeError("odd"), None])

    def look() -> None:
        error = next(looks, None)
        if error is not None:
            raise error
        disk.problem = "disk pressure"

    disk.look = look  # type: ignore[method-assign]
    try:
        assert changed.wait(30)
        assert vitals.unfit() == "disk pressure"
    finally:
        vitals.close()


def test_a_node_that_could_not_start_a_task_is_unfit_until_its_disk_takes_data_again(tmp_path: Path) -> None:
    clock, room = Clock(), tmp_path / "gone"
    disk = Disk(room, 0, lambda _: DiskSpace(total_bytes=1000, free_bytes=500))
    vitals = Vitals(disk, NO_GPUS, lambda: None, clock=clock)
    vitals.note_fault("no room")
    vitals.look()
    assert vitals.unfit() == "no room"
    clock.now += FAULT_S
    vitals.look()
    assert vitals.unfit() == "no room", "nothing can be written there yet"
    room.mkdir()
    vitals.look()
    assert vitals.unfit() == ""
    assert not list(room.iterdir())
