"""The task's cgroup, as its supervisor uses it: what is born in it, what it counted, and its end.

Invariant: once `empty` has returned True no process of the task is left; the limits were written by the agent. A
failure is logged, and keeps no task from its end.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import time

from gosched.agent.cgroups import files
from gosched.agent.supervisor.records import complain

EMPTY_LIMIT_S = 30.0  # a process may hang in the kernel
REMOVE_LIMIT_S = 10.0
FREEZE_LIMIT_S = 2.0  # likewise; what its processes write waits so long

CLONE3 = 435  # of clone3(2), on every architecture
CLONE_INTO_CGROUP = 0x2_0000_0000

libc = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock: in the child no thread would give it back


class ControlGroup:
    """A cgroup. With an empty `path` the task has none, and every method answers as for an empty one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.was_born_in = False  # of a child that `fork` has made

    def fork(self) -> int:
        """Fork as os.fork does, in a process with one thread. The child is born in the cgroup where the kernel can do
        so (Linux 5.7): to move it there later takes 10 ms and more, in which no other process of the host is moved. It
        calls `join` in either case, and execs soon: each page that it writes to before that is the task's memory."""
        if self.path:
            try:
                pid = clone_into(self.path)
                self.was_born_in = pid == 0
                return pid
            except OSError:  # an old kernel; or no process can enter the cgroup, and `join` says why
                pass
        return os.fork()

    def join(self) -> None:
        """Put the calling process into it, with what that starts from then on. Raises OSError."""
        if self.path and not self.was_born_in and cgroup_of(os.getpid()) != self.path:
            with open(f"{self.path}/cgroup.procs", "w", encoding="ascii") as file:
                file.write("0")

    def set_frozen(self, frozen: bool) -> bool:
        """Freeze or thaw all of it; it is done on return. False: there is no cgroup, or it was removed."""
        if not self.path:
            return False
        try:
            files.write(f"{self.path}/cgroup.freeze", "1" if frozen else "0")
            deadline = time.monotonic() + FREEZE_LIMIT_S
            while files.is_frozen(self.path) != frozen and files.is_populated(self.path):
                if time.monotonic() > deadline:
                    complain(f"{self.path} does not stand as ordered within {FREEZE_LIMIT_S:g} s: frozen {frozen}")
                    break
                time.sleep(0.001)
        except files.CgroupError as error:
            complain(str(error))
            return False
        return True

    def kill(self) -> None:
        """Kill all processes of it at once, frozen and forking ones alike."""
        if not self.path:
            return
        try:
            files.kill(self.path)
        except files.CgroupError as error:
            complain(str(error))

    def empty(self) -> bool:
        """Kill what is left, and wait until it is gone. Return whether it is."""
        if not self.path:
            return True
        pause_s, deadline = 0.001, time.monotonic() + EMPTY_LIMIT_S
        try:
            while files.is_populated(self.path):
                if time.monotonic() > deadline:
                    return False
                files.kill(self.path)
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, 0.1)
        except files.CgroupError as error:
            complain(str(error))
            return False
        return True

    def is_over_memory(self) -> bool:
        """Return whether it was killed for its own limit, rather than for another limit or for want of memory on the
        node."""
        try:
            return not self.path or files.hit_own_limit(self.path)
        except files.CgroupError as error:
            complain(str(error))
            return True

    def usage(self) -> dict[str, int]:
        """Return the task's usage at its end, with the fields of gosched.core.usage.Usage."""
        if not self.path:
            return {}
        try:
            return {**files.counted(self.path), "memory_bytes": 0}
        except files.CgroupError as error:
            complain(str(error))
            return {}

    def remove(self) -> None:
        """Remove it, with the cgroups that the task has made below it."""
        if not self.path:
            return
        try:
            if not files.remove(self.path, REMOVE_LIMIT_S):
                complain(f"cannot remove the cgroup {self.path}: processes are still in it")
        except files.CgroupError as error:
            complain(str(error))


def clone_into(cgroup: str) -> int:
    """Fork as os.fork does, without its care for other threads. Raises OSError."""
    directory = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    arguments = struct.pack("=11Q", CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, directory)
    pid: int = libc.syscall(ctypes.c_long(CLONE3), arguments, ctypes.c_size_t(len(arguments)))
    if pid == 0:
        return 0
    os.close(directory)
    if pid < 0:
        raise OSError(ctypes.get_errno(), "cannot clone into it")
    return pid


def cgroup_of(pid: int) -> str:
    """Return the path of a process' cgroup v2; empty where it has none of its own."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
            path = next((line[3:].strip() for line in file if line.startswith("0::")), "/")
    except OSError:
        return ""
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if (
            path != "/"
            and os.path.exists(f"{root}{path}/cgroup.procs")
            and os.path.exists(f"{root}/cgroup.controllers")
        ):
            return root + path
    return ""
