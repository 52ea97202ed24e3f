"""GPUs, by a stand-in for NVIDIA's library (with its own constants and errors), and by the files of its driver."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gosched.agent.hardware.gpus import BROKEN_BY_XID, NO_GPUS, Gpu, Gpus, KernelLog, find_gpus
from gosched.agent.hardware.nvml import Nvml

GIB = 1 << 30
SWITCH = "switch"


class FakeNvml:
    """Answers as the library does. Each GPU is a dictionary: bus, links (PCI addresses or SWITCH), what goes wrong."""

    def __init__(self, *gpus: dict[str, Any]) -> None:
        self.gpus = list(gpus)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvmlDevice"):
            raise AssertionError(f"{name} is not pretended")
        return getattr(pynvml, name)

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        if self.gpus[index].get("lost at start"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return index

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        return SimpleNamespace(busId=f"0000{self.gpus[handle]['bus'].upper()}".encode())

    def nvmlDeviceGetName(self, handle: int) -> str:
        return str(self.gpus[handle].get("name", "NVIDIA H100 80GB HBM3"))

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetMinorNumber(self, handle: int) -> int:
        return handle

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        self._check(handle)
        return SimpleNamespace(total=80 * GIB, used=handle * GIB)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        self._check(handle)
        if self.gpus[handle].get("is split"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(gpu=37)

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:
        if link >= len(self.gpus[handle].get("links", ())):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return int(self.gpus[handle]["links"][link] is not None)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, link: int) -> int:
        other = self.gpus[handle]["links"][link]
        return pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH if other == SWITCH else pynvml.NVML_NVLINK_DEVICE_TYPE_GPU

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, link: int) -> Any:
        return SimpleNamespace(busId=f"0000{self.gpus[handle]['links'][link]}".encode())

    def nvmlDeviceGetRemappedRows(self, handle: int) -> tuple[int, int, int, int]:
        return (0, 1, 1, int(self.gpus[handle].get("row failure", False)))

    def nvmlDeviceGetRetiredPagesPendingStatus(self, handle: int) -> int:
        return int(self.gpus[handle].get("pages pending", False))

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[int]) -> Any:
        assert fields == [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
        wanted = self.gpus[handle].get("recovery", pynvml.NVML_GPU_RECOVERY_ACTION_NONE)
        return [SimpleNamespace(nvmlReturn=pynvml.NVML_SUCCESS, value=SimpleNamespace(uiVal=wanted))]

    def nvmlEventSetCreate(self) -> dict[str, int]:
        return {}

    def nvmlDeviceRegisterEvents(self, handle: int, kinds: int, events: dict[str, int]) -> None:
        assert kinds == pynvml.nvmlEventTypeXidCriticalError
        events["of"] = handle

    def nvmlEventSetWait(self, events: dict[str, int], limit_ms: int) -> Any:
        xids = self.gpus[events["of"]].setdefault("xids", [])
        if not xids:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        return SimpleNamespace(eventData=xids.pop(0))

    def _check(self, handle: int) -> None:
        if self.gpus[handle].get("lost"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine of the tests has."""
    monkeypatch.setattr("gosched.agent.hardware.gpus.open_nvml", lambda: None)


def bus(number: int) -> str:
    return f"0000:{number:02x}:00.0"


def look(*gpus: dict[str, Any]) -> Gpus:
    found = find_gpus(Path("/nowhere"), Nvml(FakeNvml(*gpus)))
    found.look()
    return found


def test_the_library_says_what_a_gpu_is_and_does(tmp_path: Path) -> None:
    numa = tmp_path / f"sys/bus/pci/devices/{bus(0x8A)}/numa_node"
    numa.parent.mkdir(parents=True)
    numa.write_text("1\n")
    gpus = find_gpus(tmp_path, Nvml(FakeNvml({"bus": bus(0x8A)}, {"bus": bus(0x8B)})))
    assert gpus.gpus[0] == Gpu(
        bus="0000:8a:00.0",
        name="NVIDIA H100 80GB HBM3",
        uuid="GPU-0",
        minor=0,
        memory_bytes=80 * GIB,
        numa=1,
        island=0,
    )
    assert gpus.gpus[1].numa == -1
    gpus.look()
    assert [(s.busy_milli, s.memory_bytes, s.problem) for s in gpus.states] == [(370, 0, ""), (370, GIB, "")]
    assert gpus.bad == ()


@pytest.mark.parametrize(
    ("links", "islands"),
    [
        ([[], [], []], [0, 1, 2]),
        ([[bus(1)], [bus(0)], [bus(3)], [bus(2)]], [0, 0, 1, 1]),
        ([[bus(3)], [bus(2)], [bus(1), bus(3)], [bus(0), bus(2)]], [0, 0, 0, 0]),
        ([[None, SWITCH], [bus(2)], [bus(1)], [SWITCH, SWITCH]], [0, 1, 1, 0]),
        ([[None], [None]], [0, 1]),
        ([[bus(9)], []], [0, 1]),
    ],
    ids=["none", "pairs", "a chain", "a switch", "links that are down", "a GPU that is not ours"],
)
def test_gpus_that_reach_each_other_over_active_links_are_one_island(
    links: list[list[str | None]], islands: list[int]
) -> None:
    gpus = look(*[{"bus": bus(number), "links": ends} for number, ends in enumerate(links)])
    assert [gpu.island for gpu in gpus.gpus] == islands


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"xids": [31, 79]}, "Xid 79: it has fallen off the bus"),
        ({"row failure": True}, "its memory has bad rows that cannot be replaced"),
        ({"pages pending": True}, "its memory has bad pages that are in use until it is reset"),
        (
            {"recovery": pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT},
            "the driver says that it needs a reboot of the node",
        ),
        ({"lost": True}, "the driver says: GPU is lost"),
        ({"lost at start": True}, "the driver says: GPU is lost"),
    ],
)
def test_a_broken_gpu_says_what_is_wrong_with_it(wrong: dict[str, Any], problem: str) -> None:
    gpus = look({"bus": bus(0)}, {"bus": bus(1)} | wrong)
    assert gpus.bad == (1,)
    assert gpus.states[1].problem == problem


def test_a_gpu_is_not_broken_by_what_a_program_did_to_it() -> None:
    assert look({"bus": bus(0), "xids": [13, 31, 43, 45, 63, 94], "is split": True}).bad == ()
    assert not {13, 31, 43, 45, 68, 109} & set(BROKEN_BY_XID)


def test_a_broken_gpu_stays_broken_until_the_agent_starts_again() -> None:
    library = FakeNvml({"bus": bus(0), "lost": True})
    gpus = find_gpus(Path("/nowhere"), Nvml(library))
    gpus.look()
    library.gpus[0]["lost"] = False
    gpus.look()
    assert gpus.bad == (0,)
    assert find_gpus(Path("/nowhere"), Nvml(library)).bad == ()


def test_a_task_is_given_its_gpus_by_uuid_and_pretended_ones_by_number() -> None:
    gpus = look(*[{"bus": bus(number)} for number in range(4)])
    assert gpus.visible_devices((1, 3)) == "GPU-1,GPU-3"
    assert gpus.visible_devices(()) == ""
    assert gpus.visible_devices((1, 7)) == "1,7"
    assert NO_GPUS.visible_devices((0, 1)) == "0,1"


def test_device_nodes_are_those_of_the_gpus_and_the_drivers_own(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    gpus = look(*[{"bus": bus(number)} for number in range(3)])
    names = [str(tmp_path / name) for name in ("nvidia1", "nvidiactl", "nvidia-uvm")]
    assert list(gpus.device_paths((1, 2), tmp_path)) == names
    assert gpus.device_paths((), tmp_path) == ()
    assert NO_GPUS.device_paths((0,), tmp_path) == ()


def test_devices_of_a_task_are_told_from_all_of_the_driver_by_number(tmp_path: Path) -> None:
    gpus = look(*[{"bus": bus(number)} for number in range(3)])
    null = os.stat("/dev/null").st_rdev
    (tmp_path / "nvidia-uvm").symlink_to("/dev/null")
    assert gpus.device_numbers((0, 2), tmp_path) == ((195, 0), (195, 2), (os.major(null), os.minor(null)))
    assert gpus.device_numbers((), tmp_path) == ()
    assert gpus.device_majors(tmp_path) == {195, os.major(null)}
    assert NO_GPUS.device_majors(tmp_path) == frozenset()


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., Path]:
    """What the driver shows: PCI address -> minor number; and device nodes."""

    def make(told: dict[str, int], minors: list[int], uuid: str = "GPU-{}") -> Path:
        (tmp_path / "dev").mkdir()
        for name in ("nvidiactl", "nvidia-uvm", *[f"nvidia{minor}" for minor in minors]):
            (tmp_path / "dev" / name).touch()
        for address, minor in told.items():
            information = tmp_path / "proc/driver/nvidia/gpus" / address / "information"
            information.parent.mkdir(parents=True)
            name = uuid.format(minor)
            information.write_text(
                f"Model: \t\t NVIDIA L40S\nIRQ:\t 42\nGPU UUID: \t {name}\nDevice Minor: \t {minor}\n"
            )
        return tmp_path

    return make


def test_without_the_library_the_drivers_files_tell_what_they_know(files: Callable[..., Path]) -> None:
    gpus = find_gpus(files({"0000:81:00.0": 0, "0000:0A:00.0": 1}, [0, 1]))
    assert gpus.gpus == (
        Gpu(bus="0000:0a:00.0", name="NVIDIA L40S", uuid="GPU-1", minor=1),
        Gpu(bus="0000:81:00.0", name="NVIDIA L40S", uuid="GPU-0", minor=0),
    )
    gpus.look()
    assert gpus.bad == ()


def test_a_container_counts_the_gpus_whose_nodes_it_was_given(files: Callable[..., Path]) -> None:
    gpus = find_gpus(files({"0000:0a:00.0": 0, "0000:81:00.0": 1}, [1], uuid="GPU-????????")).gpus
    assert gpus == (Gpu(bus="0000:81:00.0", name="NVIDIA L40S", minor=1),)


def test_bare_device_nodes_are_gpus_too(files: Callable[..., Path]) -> None:
    assert find_gpus(files({}, [2, 10])).gpus == (Gpu(minor=2), Gpu(minor=10))


def test_the_kernels_log_breaks_a_gpu_whose_driver_does_not_tell(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("3,1,1,-;NVRM: Xid (PCI:0000:0a:00): 48, of an earlier life\n")
    gpus = Gpus([Gpu(bus="0000:0a:00.0"), Gpu(bus="0000:81:00.0")], kernel_log=KernelLog(path))
    gpus.look()
    assert gpus.bad == ()
    with path.open("a") as log:
        log.write("3,2,9,-;NVRM: Xid (PCI:0000:0A:00): 31, pid=7, name=python, MMU Fault\n")
        log.write("3,3,9,-;NVRM: Xid (PCI:0000:81:00): 79, pid='<unknown>', GPU has fallen off the bus.\n")
    gpus.look()
    assert [state.problem for state in gpus.states] == ["", "Xid 79: it has fallen off the bus"]
    gpus.close()


def test_a_machine_without_the_driver_has_no_gpus(tmp_path: Path) -> None:
    assert find_gpus(tmp_path).gpus == ()
