"""How a machine is built: read from trees of files such as the kernel and the NVIDIA driver make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from gosched.agent.hardware import find_hardware
from gosched.core.cluster import Hardware
from gosched.core.cpulist import parse_cpulist
from gosched.wire.codec import to_record
from gosched.wire.v1 import types_pb2
from tests.agent.conftest import Agent, FakeMaster

MakeAgent = Callable[..., Agent]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes the files of a machine: CPU lists by NUMA node, and the NUMA node of each GPU by PCI address."""

    def make(numa: dict[int, str], gpus: dict[str, int | None], usable: range) -> Path:
        monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda _: list(usable))
        for number, cpus in numa.items():
            write(tmp_path / f"sys/devices/system/node/node{number}/cpulist", cpus)
        write(tmp_path / "sys/devices/system/node/possible", "0-7")
        for bus, node in gpus.items():
            write(tmp_path / f"proc/driver/nvidia/gpus/{bus}/information", "Model: x")
            if node is not None:
                write(tmp_path / f"sys/bus/pci/devices/{bus.lower()}/numa_node", str(node))
        return tmp_path

    return make


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("numa", "gpus", "usable", "expected"),
    [
        (
            {0: "0-3,8-11", 1: "4-7,12-15"},
            {"0000:81:00.0": 1, "0000:0A:00.0": 0},
            range(16),
            Hardware(numa_cpus=("0-3,8-11", "4-7,12-15"), gpu_numa=(0, 1)),
        ),
        ({0: "0-3", 1: "4-7"}, {}, range(2, 6), Hardware(numa_cpus=("2-3", "4-5"))),
        (
            {0: "0-3", 8: "4-7", 252: ""},
            {"0000:81:00.0": 8},
            range(8),
            Hardware(numa_cpus=("0-3", "4-7"), gpu_numa=(1,)),
        ),
        ({0: "0-3", 1: "4-7"}, {"0000:81:00.0": 0}, range(4, 8), Hardware(numa_cpus=("4-7",))),
        ({0: "0-3"}, {"0000:81:00.0": -1}, range(4), Hardware(numa_cpus=("0-3",))),
        ({0: "0-3"}, {"0000:81:00.0": None}, range(4), Hardware(numa_cpus=("0-3",))),
        ({}, {}, range(4), Hardware()),
    ],
    ids=["two sockets", "affinity", "gaps", "GPU beyond the affinity", "firmware is silent", "no file", "no NUMA"],
)
def test_numa_nodes_are_found(
    machine: Callable[..., Path],
    numa: dict[int, str],
    gpus: dict[str, int | None],
    usable: range,
    expected: Hardware,
) -> None:
    assert find_hardware(machine(numa, gpus, usable)) == expected


def test_this_machine_names_the_very_cpus_that_this_process_may_use() -> None:
    named = [parse_cpulist(cpus) for cpus in find_hardware().numa_cpus]
    assert sum(named) in (0, sum(1 << cpu for cpu in psutil.Process().cpu_affinity()))


def test_an_agent_says_its_taints_and_how_it_is_built(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("numa: [0-3, 4-7]\ngpu_numa: [0, 1]\ngpu_links: [0, 0]\ngpu_memory: 80Gi\n")
    agent = make_agent(master, "--resources=cpu=8,gpu=2,fpga=3", "--taints=gpu=true:no_schedule", f"--config={config}")
    agent.start(master)
    said = master.registrations[-1]
    assert to_record(said.hardware, Hardware) == Hardware(
        numa_cpus=("0-3", "4-7"), gpu_numa=(0, 1), gpu_links=(0, 0), gpu_memory_bytes=80 << 30
    )
    assert list(said.taints) == [types_pb2.Taint(key="gpu", value="true", effect=types_pb2.TAINT_EFFECT_NO_SCHEDULE)]
    assert dict(said.capacity.custom) == {"fpga": 3}


def test_an_agent_that_offers_more_than_the_machine_has_names_no_cpus(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    more = (psutil.cpu_count() or 1) + 1
    make_agent(master, f"--resources=cpu={more}").start(master)
    assert not master.registrations[-1].hardware.numa_cpus
