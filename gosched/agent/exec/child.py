"""Runs one command beside a task, and ends it together with all that it started.

    exec_child SOCKET_FD        (stdin, stdout and stderr are the command's; standard library only)

An ExecOrder comes in on the socket (its length in four bytes, then JSON), then a byte for each signal that the command
is to get. A Report goes out at the end (JSON).

Invariant: nothing of the command is left when this process ends. It ends with the command, with the task, and when the
other end of the socket closes, as it does when the agent dies.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import time
from dataclasses import dataclass, replace

from gosched.agent.supervisor.control_group import ControlGroup
from gosched.agent.supervisor.family import descendants, own_children, reap, signal_all, signal_one
from gosched.agent.supervisor.launch import Launch, read_launch, secret_variables
from gosched.agent.supervisor.launching import (
    NotStarted,
    become_subreaper,
    explain,
    ignored_signals,
    libc,
    reset_signals,
    run_confined,
    tell_failure,
)
from gosched.core.reasons import Reason

HANG_UP_S = 2.0  # from SIGHUP to SIGKILL
LOOK_AGAIN_S = 0.02  # while it ends
KILL_LIMIT_S = 10.0  # a process may hang in the kernel
MAX_DETAIL = 1000

# The namespaces that a task may have made for itself (unshare), and that its command enters. No user namespace: the
# command runs as the task's account, a user of this host. A process never changes its own pid namespace.
NAMESPACES = {"mnt": 0x00020000, "uts": 0x04000000, "ipc": 0x08000000, "net": 0x40000000, "cgroup": 0x02000000}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecOrder:
    """The command to run."""

    #: Directory of the task's allocation.
    path: str
    #: The task's main process; 0: there is none to look at.
    pid: int
    command: list[str]
    #: Added to the task's environment.
    env: dict[str, str]
    #: Whether stdin, stdout and stderr are a terminal.
    terminal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How the command ended."""

    #: 128 + n for signal n.
    exit_code: int
    #: Why it did not start, or did not come to its own end. Empty: it did.
    detail: str = ""


def main() -> None:
    agent = socket.socket(fileno=int(sys.argv[1]))
    agent.set_inheritable(False)
    order = receive(agent)
    try:
        os.chdir(order.path)
        launch = read_launch()
        woken = prepare_process()
        task = os.pidfd_open(order.pid) if order.pid else -1
        pid = start_command(order, launch, task)
        release_stdio()
        report = watch(pid, agent, woken, task)
    except NotStarted as failure:
        report = Report(exit_code=failure.exit_code, detail=str(failure))
    except (ProcessLookupError, FileNotFoundError):
        report = Report(exit_code=125, detail="the task has ended")
    except OSError as error:
        report = Report(exit_code=125, detail=f"the node cannot run it: {error}")
    release_stdio()
    tell(agent, report)


def prepare_process() -> int:
    """Return the pipe that signals are written to. Orphans of the command become children of this process."""
    read_end, write_end = os.pipe()
    for fd in (read_end, write_end):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)
    become_subreaper()
    return read_end


def start_command(order: ExecOrder, launch: Launch, task: int) -> int:
    """Return the pid of the command, which is its process group too. Raises NotStarted, OSError."""
    namespaces = own_namespaces(order.pid) if task >= 0 and not launch.exec else 0
    if launch.exec:  # it finds the container by itself, and needs what the agent has
        launch = Launch(command=words(order, launch), env=dict(os.environ), cwd="/")
    else:
        variables = {**launch.env, **secret_variables(launch), **order.env}
        launch = replace(launch, command=words(order, launch), env=variables)
    if order.terminal:
        # This process leads the session: what the terminal holds when its leader ends is lost.
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        if launch.account is not None:
            os.fchown(0, launch.account.uid, -1)
    read_end, write_end = os.pipe()  # closed by a successful exec
    parent = os.getpid()
    group = ControlGroup(launch.cgroup)
    pid = group.fork()
    if pid == 0:
        become_command(order, launch, group, task, namespaces, write_end, parent)
    os.close(write_end)
    with open(read_end, "rb") as file:
        failure = file.read()
    if failure:
        os.waitpid(pid, 0)
        step, number, text = json.loads(failure)
        if step == "namespaces":
            raise NotStarted(125, Reason.START_FAILED, f"cannot enter the task's namespaces: {os.strerror(number)}")
        raise explain(launch, step, number, text)
    return pid


def words(order: ExecOrder, launch: Launch) -> tuple[str, ...]:
    """Return the words to start. They follow `Launch.exec`, which ends with the container's name, and whose program
    takes --tty and --env as crun, runc, docker and podman do."""
    if not launch.exec:
        return tuple(order.command)
    *program, container = launch.exec
    flags = ["--tty"] if order.terminal else []
    for name, value in order.env.items():
        flags += ["--env", f"{name}={value}"]
    return (*program, *flags, container, *order.command)


def become_command(
    order: ExecOrder, launch: Launch, group: ControlGroup, task: int, namespaces: int, failure_fd: int, parent: int
) -> None:
    at = ["start"]
    try:
        if order.terminal:
            os.setpgid(0, 0)
            os.tcsetpgrp(0, os.getpid())
        else:
            os.setsid()
        at[0] = "cgroup"
        group.join()
        at[0] = "namespaces"
        if namespaces:
            set_namespaces(task, namespaces)
        at[0] = "start"
        reset_signals(ignored_signals())
        run_confined(launch, at, parent)
    except BaseException as error:
        tell_failure(failure_fd, at, error)
    os._exit(1)


def own_namespaces(pid: int) -> int:
    """Return the namespaces, as flags, that the process has and this one has not."""
    found = 0
    for name, flag in NAMESPACES.items():
        theirs = os.stat(f"/proc/{pid}/ns/{name}")
        ours = os.stat(f"/proc/self/ns/{name}")
        if (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino):
            found |= flag
    return found


def set_namespaces(task: int, namespaces: int) -> None:
    if libc.setns(task, namespaces) != 0:
        raise OSError(ctypes.get_errno(), "cannot enter the task's namespaces")


def release_stdio() -> None:
    """Close the command's streams here, so that their readers see the end once the command has closed them."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def watch(pid: int, agent: socket.socket, woken: int, task: int) -> Report:
    """Return once nothing of the command is left."""
    poll = select.poll()
    for fd in (agent.fileno(), woken, task):
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    ending: Ending | None = None
    status: int | None = None
    detail = ""
    while True:
        status = reap().get(pid, status)
        if status is not None:
            if not own_children():
                return Report(exit_code=exit_code(status), detail=detail)
            ending = ending or Ending()
        if ending is not None and not ending.go_on():
            return Report(exit_code=137, detail="some of its processes hang in the kernel")
        ready = {fd for fd, _ in poll.poll(None if ending is None else LOOK_AGAIN_S * 1000)}
        if woken in ready:
            os.read(woken, 4096)
        if agent.fileno() in ready and not pass_signals(agent, pid if status is None else 0):
            poll.unregister(agent)
            ending = ending or Ending()
        if task in ready:
            poll.unregister(task)
            detail = "the task has ended"
            ending = ending or Ending()


class Ending:
    """Ends the command and all that it started: SIGHUP, and after HANG_UP_S SIGKILL."""

    def __init__(self) -> None:
        self.began_at = time.monotonic()
        self.told: set[int] = set()

    def go_on(self) -> bool:
        """Do what is due. Return False when nothing more can be done."""
        passed_s = time.monotonic() - self.began_at
        if passed_s > HANG_UP_S:
            signal_all(signal.SIGKILL)
            return passed_s < HANG_UP_S + KILL_LIMIT_S
        for pid in descendants() - self.told:
            self.told.add(pid)
            signal_one(pid, signal.SIGHUP, None)
            signal_one(pid, signal.SIGCONT, None)  # a stopped process would not notice
        return True


def pass_signals(agent: socket.socket, pid: int) -> bool:
    """Pass signals on to the command. Return False when the other end of the socket has closed. `pid` 0: the command
    has ended."""
    try:
        numbers = agent.recv(64)
    except ConnectionResetError:
        return False
    for number in numbers if pid else b"":
        if number in signal.valid_signals():
            os.killpg(pid, number)
    return bool(numbers)


def exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def receive(agent: socket.socket) -> ExecOrder:
    (size,) = struct.unpack("!I", agent.recv(4, socket.MSG_WAITALL))
    return ExecOrder(**json.loads(agent.recv(size, socket.MSG_WAITALL)))


def tell(agent: socket.socket, report: Report) -> None:
    """Send the report, and wait until the other end has closed: what a terminal holds is lost when its session's leader
    ends."""
    try:
        agent.send(json.dumps({"exit_code": report.exit_code, "detail": report.detail[:MAX_DETAIL]}).encode())
        while agent.recv(64):
            pass
    except OSError:  # it has gone
        pass


if __name__ == "__main__":
    main()
