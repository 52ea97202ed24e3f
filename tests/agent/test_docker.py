"""What a Docker daemon is asked for, and how its stream of output is taken apart; no daemon runs here."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import docker.errors
import pytest

from gosched.agent.runtimes import faults
from gosched.agent.runtimes.docker import Docker, container_config
from gosched.agent.runtimes.docker_follow import Output
from gosched.agent.runtimes.docker_launcher import pid_of
from gosched.agent.runtimes.inside import AllowedPaths, Bind
from gosched.agent.runtimes.interface import CannotRun, Place
from gosched.agent.supervisor.launch import Account
from gosched.config.agent_settings import Registry
from gosched.core.orders import TaskOrder
from gosched.core.resources import Resources
from gosched.core.spec.isolation import Isolation, Network, Rlimit

MIB = 1 << 20


def make_order(**more: object) -> TaskOrder:
    ids = {"allocation_id": "j1/worker/0.1", "task_id": "j1/worker/0", "job_id": "j1", "image": "busy"}
    return TaskOrder(**{**ids, **more})  # type: ignore[arg-type]


def asked_for(order: TaskOrder, **more: object) -> dict[str, object]:
    given = {"agent": "/tasks", "env": {}, "mounts": [], "account": None, "gpus": [], "cpus": "", "device": "8:0"}
    found: dict[str, object] = container_config(order, **{"pids_max": 99, **given, **more})  # type: ignore[arg-type]
    return found


def host_config(order: TaskOrder, **more: object) -> dict[str, object]:
    found = asked_for(order, **more)["HostConfig"]
    assert isinstance(found, dict)
    return found


def test_an_order_becomes_a_request() -> None:
    order = make_order(command=("sh", "-c", "x"), working_dir="sub")
    account = Account(uid=7, gid=8, groups=(9,))
    found = asked_for(order, env={"A": "b"}, account=account, mounts=[Bind(host="/h", to="/t", read_only=True)])
    assert (found["Entrypoint"], found["Cmd"], found["Env"]) == (["sh", "-c", "x"], [], ["A=b"])
    assert (found["User"], found["WorkingDir"], found["Hostname"]) == ("7:8", "/work/sub", "j1-worker-0")
    assert found["Labels"] == {"gosched.allocation": "j1/worker/0.1", "gosched.agent": "/tasks"}
    host = found["HostConfig"]
    assert isinstance(host, dict)
    assert host["Mounts"] == [{"Type": "bind", "Source": "/h", "Target": "/t", "ReadOnly": True}]
    assert (host["NetworkMode"], host["CapAdd"], host["GroupAdd"]) == ("host", [], ["9"])
    assert host["SecurityOpt"] == ["no-new-privileges"]


def test_without_a_command_the_images_own_runs_and_without_an_account_its_user() -> None:
    assert not {"Entrypoint", "Cmd", "User"} & set(asked_for(make_order()))
    assert "CHOWN" in str(host_config(make_order())["CapAdd"])


def test_hard_cpus_are_a_quota_soft_ones_a_weight_and_named_ones_a_set() -> None:
    resources = Resources(cpu_millis=1500)
    hard = host_config(make_order(resources=resources))
    assert (hard["CpuPeriod"], hard["CpuQuota"], hard["CpuShares"]) == (100_000, 150_000, 1536)
    soft = host_config(make_order(resources=resources, isolation=Isolation(cpu_soft=True)))
    assert "CpuQuota" not in soft
    assert soft["CpuShares"] == 1536
    named = host_config(make_order(resources=resources), cpus="2-3")
    assert "CpuQuota" not in named
    assert named["CpusetCpus"] == "2-3"


def test_memory_processes_and_files_are_limited() -> None:
    isolation = Isolation(pids=5, memory_low_bytes=MIB, rlimits=(Rlimit(name="nofile", soft=1, hard=-1),))
    host = host_config(make_order(resources=Resources(memory_bytes=8 * MIB), isolation=isolation))
    assert (host["Memory"], host["MemorySwap"], host["MemoryReservation"]) == (8 * MIB, 8 * MIB, MIB)
    assert (host["PidsLimit"], host["ShmSize"]) == (5, 8 * MIB)
    assert host["Ulimits"] == [{"Name": "nofile", "Soft": 1, "Hard": -1}]
    swapping = Isolation(swap_bytes=MIB)
    assert (
        host_config(make_order(resources=Resources(memory_bytes=8 * MIB), isolation=swapping))["MemorySwap"] == 9 * MIB
    )
    assert host_config(make_order())["PidsLimit"] == 99
    assert "Memory" not in host_config(make_order())


def test_io_is_limited_on_the_disk_of_the_agents_data() -> None:
    isolation = Isolation(io_weight=5000, io_write_bytes=7, io_reads=3)
    host = host_config(make_order(isolation=isolation))
    assert host["BlkioWeight"] == 500
    assert host["BlkioDeviceWriteBps"] == [{"Path": "/dev/block/8:0", "Rate": 7}]
    assert host["BlkioDeviceReadIOps"] == [{"Path": "/dev/block/8:0", "Rate": 3}]
    with pytest.raises(CannotRun, match="cannot limit I/O"):
        host_config(make_order(isolation=isolation), device="")


@pytest.mark.parametrize("isolation", [Isolation(hugepages=(("2Mi", 1),)), Isolation(memory_high_bytes=1)])
def test_what_docker_cannot_do_is_refused_not_pretended(isolation: Isolation) -> None:
    with pytest.raises(CannotRun, match="docker cannot set"):
        host_config(make_order(isolation=isolation))


def test_gpus_and_networks_are_as_ordered() -> None:
    assert host_config(make_order())["DeviceRequests"] == []
    (request,) = host_config(make_order(), gpus=["GPU-1", "GPU-2"])["DeviceRequests"]  # type: ignore[misc, attr-defined]
    assert (request["DeviceIDs"], request["Capabilities"]) == (["GPU-1", "GPU-2"], [["gpu"]])
    assert host_config(make_order(isolation=Isolation(network=Network.NONE)))["NetworkMode"] == "none"


def test_a_launch_holds_no_secret_and_its_words_find_the_container_again(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("sesame")
    registries = {"ours": Registry(username="robot", password_file=str(password))}
    runtime = Docker("unix:///run/d.sock", registries, 99, AllowedPaths(volumes=(), images=()))
    place = Place(path=tmp_path, work=tmp_path / "work", cgroup=None, account=None)
    order = make_order(isolation=Isolation(registry="ours"))
    launch = runtime.launch(order, place, {"HOME": "/root", "PATH": "/bin"})
    spec = json.loads((tmp_path / "docker.json").read_text())
    assert spec["registry"] == {"username": "robot", "password_file": str(password)}
    assert (tmp_path / "docker.json").stat().st_mode & 0o077 == 0
    assert "sesame" not in json.dumps([asdict(launch), spec])
    assert launch.announces
    assert launch.command[-2:] == ("run", str(tmp_path / "docker.json"))
    assert all(spec["name"] in words for words in (launch.exec, launch.freeze, launch.thaw, *launch.cleanup))
    assert launch.exec[-1] == spec["name"]
    with pytest.raises(CannotRun) as caught:
        runtime.launch(make_order(isolation=Isolation(registry="other")), place, {})
    assert caught.value.reason == "REGISTRY_NOT_FOUND"


def test_a_stream_is_taken_apart_wherever_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[int, bytes]] = []
    monkeypatch.setattr("gosched.agent.runtimes.docker_follow.write_all", lambda fd, data: written.append((fd, data)))
    stream = (
        b"\x01\0\0\0\0\0\0\x05hello" + b"\x02\0\0\0\0\0\0\x03err" + b"\x01\0\0\0\0\0\0\x00" + b"\x01\0\0\0\0\0\0\x01!"
    )
    for size in (1, 3, 1000):
        written.clear()
        read_end, write_end = os.pipe()
        output = Output(read_end)
        for at in range(0, len(stream), size):
            os.write(write_end, stream[at : at + size])
            if size < 1000:
                output.pump()
        os.close(write_end)
        while output.is_open:
            output.pump()
        os.close(read_end)
        assert b"".join(data for fd, data in written if fd == 1) == b"hello!"
        assert b"".join(data for fd, data in written if fd == 2) == b"err"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("manifest for r/t:1 not found: manifest unknown: manifest unknown", "IMAGE_NOT_FOUND"),
        ("initializing source docker://r/t:1: reading manifest 1 in r/t: manifest unknown", "IMAGE_NOT_FOUND"),
        ('short-name "r/t" did not resolve to an alias', "IMAGE_NOT_FOUND"),
        ("pull access denied for r/t, repository does not exist or may require 'docker login'", "REGISTRY_REFUSED"),
        ('Head "http://r/v2/t/manifests/1": no basic auth credentials', "REGISTRY_REFUSED"),
        ("toomanyrequests: You have reached your pull rate limit", "REGISTRY_REFUSED"),
        ('Get "https://r/v2/": dial tcp: lookup r on 10.0.0.1:53: no such host', "REGISTRY_UNREACHABLE"),
        ('Get "http://r:401/v2/": dial tcp 127.0.0.1:401: connect: connection refused', "REGISTRY_UNREACHABLE"),
        ('Get "https://r/v2/": x509: certificate signed by unknown authority', "REGISTRY_UNREACHABLE"),
        ('Get "https://r/v2/": net/http: TLS handshake timeout', "REGISTRY_UNREACHABLE"),
        ("received unexpected HTTP status: 503 Service Unavailable", "REGISTRY_UNREACHABLE"),
        ("filesystem layer verification failed for digest sha256:401", "PULL_FAILED"),
    ],
)
def test_why_there_is_no_image_is_told_apart_and_blames_no_node(said: str, reason: str) -> None:
    fault = faults.of_registry("r/t:1", said)
    assert (fault.reason, fault.blames_node) == (reason, False)
    assert said in fault.detail


def test_an_image_may_be_called_as_a_failure_is() -> None:
    for image in ("timeout/tls:1", "r:5000/eof:denied", "eof"):
        said = f"manifest for {image} not found: manifest unknown"
        assert faults.of_registry(image, said).reason == "IMAGE_NOT_FOUND"


def test_no_room_for_an_image_is_the_nodes_fault() -> None:
    fault = faults.of_registry("r/t", "write /var/lib/docker/tmp/x: no space left on device")
    assert (fault.reason, fault.blames_node) == ("CANNOT_STORE", True)


class Ending:
    """A daemon that reads a container's files while its process ends, as podman does."""

    def __init__(self, refusal: str) -> None:
        self._refusals = [docker.errors.APIError(refusal)]

    def inspect_container(self, _name: str) -> dict[str, Any]:
        if self._refusals:
            raise self._refusals.pop()
        return {"State": {"Running": False, "Pid": 0}}


def test_a_process_that_ends_while_the_daemon_looks_at_it_has_ended() -> None:
    assert pid_of(Ending("read /proc/77/cgroup: no such process"), "task") == 0
    with pytest.raises(docker.errors.APIError, match="disk"):
        pid_of(Ending("the disk is full"), "task")
