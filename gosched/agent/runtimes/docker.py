"""Tasks in Docker containers: what the daemon is asked to make, and the launcher that the supervisor runs for it.

Invariant: this process never speaks to the daemon; docker_launcher does, in processes of its own, so that neither a
slow daemon nor the library's size is the agent's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gosched.agent.cgroups.place import block_device
from gosched.agent.runtimes import daemon_view
from gosched.agent.runtimes.environment import DEFAULT_PATH
from gosched.agent.runtimes.inside import SHM_BYTES, AllowedPaths, Bind, binds, inner_cwd, inner_env, secrets_bind
from gosched.agent.runtimes.interface import CannotRun, Place
from gosched.agent.runtimes.names import AGENT_LABEL, ALLOCATION_LABEL, container_name, hostname
from gosched.agent.runtimes.oci_bundle import ROOT_CAPABILITIES
from gosched.agent.supervisor.launch import Account, Launch
from gosched.config.agent_settings import Registry
from gosched.core.cpulist import parse_cpulist
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason
from gosched.core.spec.isolation import Isolation, Network, Pull
from gosched.core.spec.secret_use import registry_secret

SPEC = "docker.json"  # in the allocation's directory
_PERIOD_US = 100_000
_MIN_QUOTA_US = 1_000
_CONNECT_S = 2.0
_ORPHANS_S = 120
# Docker's scale of I/O weights; the kernel's goes to 10000.
_MIN_IO_WEIGHT, _MAX_IO_WEIGHT = 10, 1000


class Docker:
    """The docker runtime.

    `host`: unix:// and the path of the daemon's socket, Docker's or podman's. `pids_max`: of a task that names no
    limit. `paths`: what of the host tasks may name. `data_dir`: has to be the same to the daemon.
    """

    def __init__(
        self,
        host: str,
        registries: Mapping[str, Registry],
        pids_max: int,
        paths: AllowedPaths,
        data_dir: Path = Path("/"),
    ) -> None:
        self._data_dir = data_dir
        self._host = host
        self._registries = registries
        self._pids_max = pids_max
        self._paths = paths

    def problem(self) -> str:
        if importlib.util.find_spec("docker") is None:
            return "the Python package docker is not installed"
        path = self._host.removeprefix("unix://")
        if path == self._host:
            return f"docker_host is {self._host}: the daemon has to be on this machine, unix:///path/of/its/socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(_CONNECT_S)
            try:
                line.connect(path)
            except OSError as error:
                return f"no daemon answers at {path}: {error.strerror or error}"
            return daemon_view.difference(line, self._data_dir)

    def launch(self, order: TaskOrder, place: Place, env: dict[str, str]) -> Launch:
        """Return the launch. Raises CannotRun: BAD_IMAGE, REGISTRY_NOT_FOUND, VOLUME_NOT_FOUND, VOLUME_NOT_ALLOWED,
        BAD_VOLUME, UNSUPPORTED_LIMIT."""
        if not order.image:
            raise CannotRun(Reason.BAD_IMAGE, "a docker task needs the name of an image")
        name = container_name(order.allocation_id)
        spec = {
            "host": self._host,
            "name": name,
            "image": order.image,
            "pull": (order.isolation.pull or Pull.MISSING).name,
            "registry": self._registry(order.isolation.registry, place),
            "container": self._container(order, place, env),
            "allowed": self._paths.volumes,
            "has_secrets": place.secrets is not None,
            "account": asdict(place.account) if place.account is not None else None,
        }
        file = place.path / SPEC
        file.touch(mode=0o600)  # only the agent's user may read the environment
        file.write_text(json.dumps(spec))
        if place.cgroup is not None:
            _lift_limits(place.cgroup)
        return Launch(
            command=_launcher("run", str(file)),
            env={"PATH": os.environ.get("PATH", DEFAULT_PATH)},
            cwd=str(place.path),
            cgroup=str(place.cgroup or ""),
            announces=True,
            exec=_launcher("exec", self._host, name),
            freeze=_launcher("freeze", self._host, name),
            thaw=_launcher("thaw", self._host, name),
            cleanup=(_launcher("remove", self._host, name, str(place.path)),),
        )

    def _registry(self, name: str, place: Place) -> dict[str, str] | None:
        if not name:
            return None
        if registry_secret(name) and place.secrets is not None:
            return {"credentials_file": place.secrets.registry}
        if name not in self._registries:
            raise CannotRun(Reason.REGISTRY_NOT_FOUND, f"this node knows no registry with the name {name!r}")
        found = self._registries[name]
        return {"username": found.username, "password_file": found.password_file}

    def _container(self, order: TaskOrder, place: Place, env: Mapping[str, str]) -> dict[str, Any]:
        inner = inner_env(order, place, env, path="")
        # An image may ask for all GPUs, which is for the order to say.
        inner |= {"NVIDIA_VISIBLE_DEVICES": "void"} if not order.gpus else {}
        gpus = env.get("CUDA_VISIBLE_DEVICES", "").split(",") if order.gpus and os.path.exists("/dev/nvidiactl") else []
        secrets = secrets_bind(place)
        return container_config(
            order,
            agent=str(place.path.parent),
            env=inner,
            mounts=[*binds(order, place, self._paths.volumes), *([secrets] if secrets is not None else [])],
            account=place.account or _own_account(),
            gpus=gpus,
            cpus=_cpus_there(order.cpus),
            device=block_device(place.path),
            pids_max=self._pids_max,
        )


def container_config(
    order: TaskOrder,
    *,
    agent: str,
    env: Mapping[str, str],
    mounts: Sequence[Bind],
    account: Account | None,
    gpus: Sequence[str],
    cpus: str,
    device: str,
    pids_max: int,
) -> dict[str, Any]:
    """Return the body of the API's request. `agent`: the value of AGENT_LABEL. `account` None: the image's user.
    `gpus`: UUIDs or numbers. `device`: MAJ:MIN of the disk that I/O limits are for."""
    own = {"User": f"{account.uid}:{account.gid}"} if account is not None else {}
    # What is to run is in the order; an image's entrypoint is for those that order nothing.
    command = {"Entrypoint": list(order.command), "Cmd": []} if order.command else {}
    return {
        "Image": order.image,
        **command,
        **own,
        "Env": [f"{name}={value}" for name, value in env.items()],
        "WorkingDir": inner_cwd(order),
        "Hostname": hostname(order.task_id),
        "Labels": {ALLOCATION_LABEL: order.allocation_id, AGENT_LABEL: agent},
        "AttachStdout": True,
        "AttachStderr": True,
        "HostConfig": {
            "Mounts": [_mount(bind) for bind in mounts],
            "NetworkMode": "none" if order.isolation.network is Network.NONE else "host",
            "ReadonlyRootfs": order.isolation.read_only,
            "SecurityOpt": ["no-new-privileges"],
            "CapDrop": ["ALL"],
            "CapAdd": [] if account is not None and account.uid else list(ROOT_CAPABILITIES),
            "GroupAdd": [str(group) for group in account.groups] if account is not None else [],
            "LogConfig": {"Type": "none"},  # the supervisor keeps the logs
            "DeviceRequests": [{"Driver": "nvidia", "DeviceIDs": list(gpus), "Capabilities": [["gpu"]]}]
            if gpus
            else [],
            **_limits(order, cpus, device, pids_max),
        },
    }


def remove_orphans(host: str, tasks: Path, known: Collection[str], made_before_s: float) -> list[str]:
    """Remove the containers of former tasks of the agent whose directory this is, once the masters have said which
    allocations are `known`; what was made since that moment stays. Return those that were removed. Raises OSError."""
    words = [*_launcher("orphans", host, str(tasks), str(int(made_before_s)))]
    try:
        done = subprocess.run(
            words, input=json.dumps(sorted(known)), capture_output=True, text=True, timeout=_ORPHANS_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"the daemon at {host} did not answer within {_ORPHANS_S} s") from error
    if done.returncode:
        raise OSError(done.stderr.strip().rpartition("\n")[2])
    return done.stdout.splitlines()


def _launcher(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-m", "gosched.agent.runtimes.docker_launcher", *words)


def _lift_limits(cgroup: Path) -> None:
    """Lift the limits of the launcher's cgroup, which holds nothing else: the container's own limits are the daemon's
    to set."""
    for name in ("memory.max", "memory.high", "memory.swap.max", "pids.max", "cpu.max"):
        if (cgroup / name).exists():
            (cgroup / name).write_text("max")


def _own_account() -> Account | None:
    """Return the agent's own account where it is not root: it runs tasks as itself only, whatever its daemon would let
    it do."""
    return None if os.geteuid() == 0 else Account(uid=os.geteuid(), gid=os.getegid())


def _cpus_there(cpus: str) -> str:
    """Return the CPUs that are there; none on a node whose hardware is pretended."""
    there = sum(1 << cpu for cpu in os.sched_getaffinity(0))
    return cpus if not parse_cpulist(cpus) & ~there else ""


def _mount(bind: Bind) -> dict[str, Any]:
    return {"Type": "bind", "Source": bind.host, "Target": bind.to, "ReadOnly": bind.read_only}


def _limits(order: TaskOrder, cpus: str, device: str, pids_max: int) -> dict[str, Any]:
    resources, isolation = order.resources, order.isolation
    if problem := _unsupported(isolation):
        raise CannotRun(Reason.UNSUPPORTED_LIMIT, f"docker cannot set {problem}: use runtime rootfs or process")
    memory, swap = resources.memory_bytes, isolation.swap_bytes or 0
    found: dict[str, Any] = {
        "PidsLimit": isolation.pids or pids_max,
        "ShmSize": memory or SHM_BYTES,
        "CpuShares": max(resources.cpu_millis * 1024 // 1000, 2),
        "CpusetCpus": cpus,
        "Ulimits": [{"Name": r.name, "Soft": r.soft, "Hard": r.hard} for r in isolation.rlimits],
        **_io(isolation, device),
    }
    if resources.cpu_millis and not isolation.cpu_soft and not cpus:
        quota = max(resources.cpu_millis * _PERIOD_US // 1000, _MIN_QUOTA_US)
        found |= {"CpuPeriod": _PERIOD_US, "CpuQuota": quota}
    if memory:
        found |= {"Memory": memory, "MemorySwap": memory + swap}
    if isolation.memory_low_bytes:
        found["MemoryReservation"] = min(isolation.memory_low_bytes, memory or isolation.memory_low_bytes)
    return found


def _unsupported(isolation: Isolation) -> str:
    """Return what Docker cannot enforce; empty: it can enforce all."""
    if isolation.hugepages:
        return "limits of huge pages"
    if isolation.memory_high_bytes:
        return "memory_high"
    if isolation.umask is not None:
        return "a umask"
    return ""


def _io(isolation: Isolation, device: str) -> dict[str, Any]:
    limits = {
        "BlkioDeviceReadBps": isolation.io_read_bytes,
        "BlkioDeviceWriteBps": isolation.io_write_bytes,
        "BlkioDeviceReadIOps": isolation.io_reads,
        "BlkioDeviceWriteIOps": isolation.io_writes,
    }
    wanted = {key: rate for key, rate in limits.items() if rate}
    if wanted and not device:
        raise CannotRun(Reason.UNSUPPORTED_LIMIT, "this node cannot limit I/O: its data are on no disk of their own")
    found: dict[str, Any] = {key: [{"Path": f"/dev/block/{device}", "Rate": rate}] for key, rate in wanted.items()}
    if isolation.io_weight:
        weight = isolation.io_weight * _MAX_IO_WEIGHT // 10_000
        found["BlkioWeight"] = min(max(weight, _MIN_IO_WEIGHT), _MAX_IO_WEIGHT)
    return found
