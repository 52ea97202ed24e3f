"""The OCI configuration of one task on a root filesystem: pure, from what the task may have to what crun or runc reads.

Invariant: a task gets what its order names and nothing else: its own processes, devices, host name and semaphores, no
privileges to gain, and of the host's files only those that were bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gosched.agent.runtimes.inside import Bind
from gosched.agent.runtimes.process import DEFAULT_UMASK
from gosched.agent.runtimes.seccomp import seccomp
from gosched.agent.supervisor.launch import Account
from gosched.core.spec.isolation import Isolation, Network

_UNLIMITED = (1 << 64) - 1

# Of a task that runs as root: less than container tools leave it, since it shares the node's network.
ROOT_CAPABILITIES = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETGID",
    "CAP_SETUID",
)

_MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A character device."""

    path: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A task as its OCI configuration describes it."""

    command: Sequence[str]
    env: Mapping[str, str]
    #: Its working directory, absolute.
    cwd: str
    hostname: str
    isolation: Isolation
    #: None: root.
    account: Account | None
    binds: Sequence[Bind]
    devices: Sequence[Device]
    #: Size of /dev/shm; > 0.
    shm_bytes: int
    #: The task's cgroup from the hierarchy's root, for a runtime that insists on one. Empty: it does not.
    cgroups_path: str
    #: Whether the task may read its own cgroup at /sys/fs/cgroup.
    cgroup_view: bool
    #: As uname says, "x86_64".
    architecture: str
    #: The task's secrets. None: it has none.
    secrets: Bind | None = None


def config(container: Container) -> dict[str, Any]:
    """Return what becomes config.json. The root filesystem is in `rootfs` beside it."""
    return {
        "ociVersion": "1.0.2",
        "hostname": container.hostname,
        "root": {"path": "rootfs", "readonly": container.isolation.read_only},
        "process": _process(container),
        "mounts": [*_own_mounts(container), *[_bound(bind) for bind in _all_binds(container)]],
        "linux": {
            "namespaces": [{"type": kind} for kind in _namespaces(container)],
            "maskedPaths": list(_MASKED),
            "readonlyPaths": list(_READ_ONLY),
            "devices": [_device(device) for device in container.devices],
            "seccomp": seccomp(container.architecture),
            **({"cgroupsPath": container.cgroups_path} if container.cgroups_path else {}),
        },
    }


def _process(container: Container) -> dict[str, Any]:
    account, isolation = container.account or Account(uid=0, gid=0), container.isolation
    umask = DEFAULT_UMASK if isolation.umask is None else isolation.umask
    held = list(ROOT_CAPABILITIES) if account.uid == 0 else []
    return {
        "terminal": False,
        "user": {"uid": account.uid, "gid": account.gid, "additionalGids": list(account.groups), "umask": umask},
        "args": list(container.command),
        "env": [f"{name}={value}" for name, value in container.env.items()],
        "cwd": container.cwd,
        "noNewPrivileges": True,
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), held),
        "rlimits": [
            {"type": f"RLIMIT_{r.name.upper()}", "soft": _limit(r.soft), "hard": _limit(r.hard)}
            for r in isolation.rlimits
        ],
    }


def _limit(value: int) -> int:
    return _UNLIMITED if value < 0 else value


def _namespaces(container: Container) -> list[str]:
    kinds = ["pid", "mount", "uts", "ipc"]
    if container.isolation.network is Network.NONE:
        kinds.append("network")
    if container.cgroup_view:
        kinds.append("cgroup")
    return kinds


def _all_binds(container: Container) -> list[Bind]:
    return [*container.binds, *([container.secrets] if container.secrets is not None else [])]


def _own_mounts(container: Container) -> list[dict[str, Any]]:
    shm = ["nosuid", "noexec", "nodev", "mode=1777", f"size={container.shm_bytes}"]
    terminals = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]
    mounts = [
        _mount("/proc", "proc", "nosuid", "noexec", "nodev"),
        _mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
        _mount("/dev/pts", "devpts", *terminals),
        _mount("/dev/shm", "tmpfs", *shm),
        _mount("/dev/mqueue", "mqueue", "nosuid", "noexec", "nodev"),
        _mount("/sys", "sysfs", "nosuid", "noexec", "nodev", "ro"),
    ]
    if container.cgroup_view:
        mounts.append(_mount("/sys/fs/cgroup", "cgroup", "nosuid", "noexec", "nodev", "ro"))
    return mounts


def _mount(to: str, kind: str, *options: str) -> dict[str, Any]:
    return {"destination": to, "type": kind, "source": kind, "options": list(options)}


def _bound(bind: Bind) -> dict[str, Any]:
    # nosuid and nodev: what a task finds on a volume gives it nothing that it does not have.
    options = ["rbind", "rprivate", "nosuid", "nodev", "ro" if bind.read_only else "rw"]
    return {"destination": bind.to, "type": "bind", "source": bind.host, "options": options}


def _device(device: Device) -> dict[str, Any]:
    return {"path": device.path, "type": "c", "major": device.major, "minor": device.minor, "fileMode": 0o666}
