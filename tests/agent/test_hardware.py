"""What a node says of itself: read from trees of files such as the kernel makes, and from the settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from gosched.agent.hardware.gpus import NO_GPUS, Gpu, Gpus
from gosched.agent.hardware.nvml import GpuState
from gosched.agent.hardware.offer import find_gpu_model, find_hardware, find_labels, make_offer
from gosched.config import AgentSettings
from gosched.core.cpulist import parse_cpulist
from gosched.core.records.node import Hardware
from gosched.core.resources import MILLI, Resources
from gosched.core.rules.values import check_map
from gosched.wire.codec import to_record
from gosched.wire.v1 import types_pb2
from tests.agent.conftest import Agent, FakeMaster

MakeAgent = Callable[..., Agent]
GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes the files of a machine: CPU lists by NUMA node."""

    def make(numa: dict[int, str], usable: range) -> Path:
        monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda _: list(usable))
        for number, cpus in numa.items():
            write(tmp_path / f"sys/devices/system/node/node{number}/cpulist", cpus)
        write(tmp_path / "sys/devices/system/node/possible", "0-7")
        return tmp_path

    return make


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def settings(**keys: object) -> AgentSettings:
    return AgentSettings.model_validate(keys)


def h100(numa: int = -1, island: int = 0) -> Gpu:
    return Gpu(name="NVIDIA H100 80GB HBM3", uuid="GPU-1", memory_bytes=80 * GIB, numa=numa, island=island)


@pytest.mark.parametrize(
    ("numa", "gpus", "usable", "expected"),
    [
        (
            {0: "0-3,8-11", 1: "4-7,12-15"},
            [0, 1],
            range(16),
            Hardware(numa_cpus=("0-3,8-11", "4-7,12-15"), gpu_numa=(0, 1)),
        ),
        ({0: "0-3", 1: "4-7"}, [], range(2, 6), Hardware(numa_cpus=("2-3", "4-5"))),
        ({0: "0-3", 8: "4-7", 252: ""}, [8], range(8), Hardware(numa_cpus=("0-3", "4-7"), gpu_numa=(1,))),
        ({0: "0-3", 1: "4-7"}, [0], range(4, 8), Hardware(numa_cpus=("4-7",))),
        ({0: "0-3"}, [-1], range(4), Hardware(numa_cpus=("0-3",))),
        ({}, [], range(4), Hardware()),
    ],
    ids=["two sockets", "affinity", "gaps", "GPU beyond the affinity", "firmware is silent", "no NUMA"],
)
def test_numa_nodes_are_found(
    machine: Callable[..., Path], numa: dict[int, str], gpus: list[int], usable: range, expected: Hardware
) -> None:
    assert find_hardware(machine(numa, usable), [Gpu(numa=node) for node in gpus]) == expected


def test_this_machine_names_the_very_cpus_that_this_process_may_use() -> None:
    named = [parse_cpulist(cpus) for cpus in find_hardware(Path("/"), ()).numa_cpus]
    assert sum(named) in (0, sum(1 << cpu for cpu in psutil.Process().cpu_affinity()))


@pytest.mark.parametrize(
    ("names", "model"),
    [
        (["NVIDIA H100 80GB HBM3"], "h100"),
        (["NVIDIA A100-SXM4-80GB"] * 2, "a100"),
        (["Tesla T4"], "t4"),
        (["NVIDIA GeForce RTX 4090"], "rtx4090"),
        (["Tesla V100-SXM2-16GB", "Tesla T4"], ""),
        ([""], ""),
        ([], ""),
    ],
)
def test_a_gpu_model_is_named_as_job_files_name_it(names: list[str], model: str) -> None:
    assert find_gpu_model([Gpu(name=name) for name in names]) == model


def test_labels_say_what_the_hardware_is(tmp_path: Path) -> None:
    write(tmp_path / "etc/os-release", 'NAME="Debian GNU/Linux"\nVERSION_ID="12"\nID=debian')
    write(tmp_path / "proc/cpuinfo", "processor : 0\nmodel name\t: AMD EPYC 9654 96-Core Processor\nmodel name\t: x")
    device = tmp_path.stat().st_dev
    write(tmp_path / "sys/devices/nvme0n1/queue/rotational", "0")
    (tmp_path / "sys/devices/nvme0n1/nvme0n1p1").mkdir()
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / f"sys/dev/block/{os.major(device)}:{os.minor(device)}").symlink_to("../../devices/nvme0n1/nvme0n1p1")
    found = find_labels(tmp_path, tmp_path, [h100(), h100()])
    assert check_map("labels", tuple(sorted(found.items()))) is None
    assert found == {
        "gosched.io/arch": os.uname().machine,
        "gosched.io/os": "debian-12",
        "gosched.io/cpu.model": "AMD EPYC 9654 96-Core Processor",
        "gosched.io/disk": "ssd",
        "gosched.io/gpu.product": "NVIDIA H100 80GB HBM3",
        "gosched.io/gpu.memory-gib": "80",
    }


def test_what_is_not_known_has_no_label(tmp_path: Path) -> None:
    gpus = [h100(), Gpu(name="Tesla T4", memory_bytes=16 * GIB)]
    assert set(find_labels(tmp_path, tmp_path, gpus)) == {"gosched.io/arch"}


def test_a_node_offers_its_gpus_with_those_that_are_bad(machine: Callable[..., Path], tmp_path: Path) -> None:
    gpus = Gpus([h100(numa=0, island=0), h100(numa=1, island=0)])
    gpus.states = (GpuState(), GpuState(problem="Xid 79: it has fallen off the bus"))
    offer = make_offer(settings(labels={"zone": "a"}), tmp_path, gpus, machine({0: "0-1", 1: "2-3"}, range(4)))
    assert offer.capacity.gpu_millis == 2 * MILLI
    assert offer.capacity.cpu_millis == 4000
    assert offer.gpu_model == "h100"
    assert dict(offer.labels)["zone"] == "a"
    assert offer.hardware == Hardware(
        numa_cpus=("0-1", "2-3"), gpu_numa=(0, 1), gpu_links=(0, 0), gpu_memory_bytes=80 * GIB, bad_gpus=(1,)
    )


def test_labels_of_the_settings_stand_in_place_of_those_that_were_found(tmp_path: Path) -> None:
    offer = make_offer(settings(labels={"gosched.io/os": "mine"}), tmp_path, NO_GPUS, tmp_path)
    assert dict(offer.labels)["gosched.io/os"] == "mine"


def test_a_node_that_offers_more_gpus_than_it_has_describes_none_of_them(tmp_path: Path) -> None:
    offer = make_offer(settings(resources={"gpu": 8}), tmp_path, Gpus([h100()]), tmp_path)
    assert (offer.capacity.gpu_millis, offer.gpu_model, offer.hardware.gpu_links) == (8 * MILLI, "", ())
    assert "gosched.io/gpu.product" not in dict(offer.labels)


def test_a_node_that_offers_fewer_gpus_than_it_has_describes_the_first_ones(tmp_path: Path) -> None:
    gpus = Gpus([h100(island=0), h100(island=1)])
    gpus.states = (GpuState(), GpuState(problem="bad"))
    offer = make_offer(settings(resources={"gpu": 1}), tmp_path, gpus, tmp_path)
    assert (offer.gpu_model, offer.hardware.gpu_links, offer.hardware.bad_gpus) == ("h100", (0,), ())


def test_static_hardware_is_what_the_settings_say_and_nothing_else(tmp_path: Path) -> None:
    said = settings(
        hardware="static",
        resources={"cpu": 64, "memory": "1Ti", "gpu": 2},
        gpu_model="h100",
        gpu_memory="80Gi",
        numa=["0-31", "32-63"],
        gpu_links=[0, 0],
        labels={"zone": "a"},
    )
    offer = make_offer(said, tmp_path, Gpus([h100()]))
    assert offer.capacity == Resources(cpu_millis=64_000, memory_bytes=1 << 40, gpu_millis=2 * MILLI)
    assert offer.labels == (("zone", "a"),)
    assert offer.hardware == Hardware(numa_cpus=("0-31", "32-63"), gpu_links=(0, 0), gpu_memory_bytes=80 * GIB)
    assert make_offer(settings(hardware="static"), tmp_path, NO_GPUS).capacity == Resources()


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
