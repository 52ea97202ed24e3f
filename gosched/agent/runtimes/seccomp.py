"""The system calls that a task on a root filesystem is refused, as a part of its OCI configuration.

Invariant: a list of what is refused, not of what is allowed: a program that needs a new call runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# What Docker's default profile refuses to a container without further capabilities. The way out of a container leads
# through one of these; what is not listed is of use to programs, ptrace within the task's own processes included.
_REFUSED = (
    "_sysctl",
    "acct",
    "add_key",
    "bpf",
    "clock_adjtime",
    "clock_adjtime64",
    "clock_settime",
    "clock_settime64",
    "create_module",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "get_kernel_syms",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mount",
    "mount_setattr",
    "move_mount",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "query_module",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "stime",
    "swapoff",
    "swapon",
    "sysfs",
    "syslog",
    "umount",
    "umount2",
    "unshare",
    "uselib",
    "userfaultfd",
    "ustat",
    "vhangup",
    "vm86",
    "vm86old",
)
_NEW_NAMESPACES = (0x00000080, 0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
_REFUSED_FAMILIES = (38, 40)  # AF_ALG, AF_VSOCK: neither knows of namespaces
_EPERM, _ENOSYS = 1, 38
_ARCHITECTURES = {
    "x86_64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"),
    "aarch64": ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
}


def seccomp(architecture: str) -> dict[str, Any]:
    """Return the OCI configuration's part. `architecture`: as uname says."""

    def refuse(names: Sequence[str], number: int = _EPERM, *args: dict[str, Any]) -> dict[str, Any]:
        return {"names": list(names), "action": "SCMP_ACT_ERRNO", "errnoRet": number, "args": list(args)}

    def has(flag: int) -> dict[str, Any]:
        return {"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}

    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": list(_ARCHITECTURES.get(architecture, ())),
        "syscalls": [
            refuse(_REFUSED),
            # Flags of clone3 are in memory, where no filter sees them: programs fall back to clone.
            refuse(["clone3"], _ENOSYS),
            *[refuse(["clone"], _EPERM, has(flag)) for flag in _NEW_NAMESPACES],
            *[
                refuse(["socket"], _EPERM, {"index": 0, "value": family, "op": "SCMP_CMP_EQ"})
                for family in _REFUSED_FAMILIES
            ],
        ],
    }
