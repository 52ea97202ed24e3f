"""Starts the task's command: in its cgroup, as its user, within its limits; a failure has an exit code and a reason.

Invariant: everything that confines the task is in force before its first instruction.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import signal
from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn

from gosched.agent.supervisor.binding import BOUND, bind_all
from gosched.agent.supervisor.control_group import ControlGroup
from gosched.agent.supervisor.launch import Launch, secret_variables
from gosched.agent.supervisor.own_view import VIEW, enter_view
from gosched.core.reasons import Reason

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

EXEC, EXEC_FOUND = "exec", "exec of a file that is there"  # steps
FAILURE_BYTES = 4096
SHOWN = 200  # characters of a command in a line for people

libc = ctypes.CDLL(None, use_errno=True)


class NotStarted(Exception):
    """Why the task could not be started. `blames_node`: by no fault of its own."""

    def __init__(self, exit_code: int, reason: Reason, detail: str, blames_node: bool = False) -> None:
        super().__init__(detail)
        self.exit_code = exit_code
        self.reason = reason
        self.detail = detail
        self.blames_node = blames_node


def start_task(launch: Launch, writers: list[int]) -> int:
    """Start it and return the pid of its main process. `writers`: its stdout and stderr. Raises NotStarted."""
    read_end, write_end = os.pipe()  # closed by a successful exec
    parent = os.getpid()
    group, ignored = ControlGroup(launch.cgroup), ignored_signals()
    pid = group.fork()
    if pid == 0:
        become_task(launch, group, writers, write_end, parent, ignored)
    for fd in (write_end, *writers):
        os.close(fd)
    failure = os.read(read_end, FAILURE_BYTES)
    os.close(read_end)
    if failure:
        os.waitpid(pid, 0)
        raise explain(launch, *json.loads(failure))
    return pid


def become_task(
    launch: Launch, group: ControlGroup, writers: list[int], failure_fd: int, parent: int, ignored: list[int]
) -> None:
    """Become the task. What is written to until then is copied from the supervisor's memory page by page, so little is
    done here. `ignored`: signals that it would ignore."""
    at = ["start"]
    try:
        os.setsid()
        at[0] = "cgroup"
        group.join()
        if launch.binds:
            bind_all(launch.binds, at)
        if launch.variables:
            at[0] = "secrets"
            launch = replace(launch, env={**launch.env, **secret_variables(launch)})
        if launch.view:
            at[0] = VIEW
            enter_view(launch.view)
        at[0] = "start"
        reset_signals(ignored)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(writers[0], 1)
        os.dup2(writers[1], 2)
        run_confined(launch, at, parent)
    except BaseException as error:
        tell_failure(failure_fd, at, error)
    os._exit(1)


def run_confined(launch: Launch, at: list[str], parent: int) -> NoReturn:
    """Confine this process, and turn it into the command. `at`: its only item names the step."""
    confine(launch, at)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)
    at[0] = "cwd"
    os.chdir(launch.cwd)
    at[0] = EXEC
    try:
        os.execvpe(launch.command[0], launch.command, launch.env)
    except Exception:
        # Looked for with the user's own rights: root would tell of files that are not the user's to know of.
        at[0] = EXEC_FOUND if is_there(launch) else EXEC
        raise


def tell_failure(failure_fd: int, at: list[str], error: BaseException) -> None:
    """Write the failure for `explain`, which runs in the process that forked this one."""
    number = error.errno if isinstance(error, OSError) and error.errno else 0
    os.write(failure_fd, json.dumps([at[0], number, str(error)[:200]]).encode())


def confine(launch: Launch, at: list[str]) -> None:
    """Set limits, CPUs, user and privileges of the calling process, for good. `at`: as in run_confined."""
    at[0] = "rlimits"
    for name, (soft, hard) in launch.rlimits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (soft, hard))
    at[0] = "cpus"
    if launch.cpus:
        os.sched_setaffinity(0, launch.cpus)
    at[0] = "user"
    os.umask(launch.umask)
    if launch.account is not None:
        os.setgroups(launch.account.groups)
        os.setresgid(launch.account.gid, launch.account.gid, launch.account.gid)
        os.setresuid(launch.account.uid, launch.account.uid, launch.account.uid)
    at[0] = "start"
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user clears it, so it comes last


def ignored_signals() -> list[int]:
    """Return the signals that this process ignores. An exec resets all others."""
    with open("/proc/self/status", "rb") as file:
        mask = next(int(line.split()[1], 16) for line in file if line.startswith(b"SigIgn:"))
    return [number for number in range(1, signal.NSIG) if mask >> (number - 1) & 1]


def reset_signals(ignored: Iterable[int]) -> None:
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in ignored:  # by libc: Python's own makes objects of each, in the task's memory
        libc.signal(number, None)  # SIG_DFL


def explain(launch: Launch, step: str, number: int, text: str) -> NotStarted:
    """Return why it did not start, with the exit codes that shells and container tools give."""
    command = launch.command[0]
    message = os.strerror(number) if number else text
    if step == "cgroup":
        return NotStarted(
            125, Reason.CGROUP_LOST, f"cannot join the cgroup {launch.cgroup}: {message}", blames_node=True
        )
    if step in BOUND:
        return NotStarted(125, Reason(f"BAD_{step.upper()}"), f"{step}: the node cannot bind it for the task: {text}")
    if step == VIEW:
        return NotStarted(125, Reason.USER_REFUSED, f"the node cannot make its account's view: {text}", True)
    if step == "secrets":
        detail = f"the node cannot read its secret variables: {message}"
        return NotStarted(125, Reason.SECRET_NOT_AVAILABLE, detail, blames_node=True)
    if step == "rlimits":
        return NotStarted(125, Reason.BAD_LIMIT, f"the node cannot set its rlimits {sorted(launch.rlimits)}: {message}")
    if step == "cpus":
        return NotStarted(125, Reason.BAD_CPUS, f"the node cannot keep it to CPUs {list(launch.cpus)}: {message}", True)
    if step == "user":
        return NotStarted(125, Reason.USER_REFUSED, f"the node cannot run it as another user: {message}")
    if step == "cwd":
        return NotStarted(125, Reason.BAD_WORKING_DIR, f"working directory {launch.cwd}: {message}")
    if step == EXEC or (step == EXEC_FOUND and number in (errno.ENOENT, errno.ENOTDIR)):
        found = step == EXEC_FOUND and "/" in command
        missing = "its interpreter does not exist" if found else "no such command on this node"
        return NotStarted(127, Reason.COMMAND_NOT_FOUND, f"{command[:SHOWN]}: {missing}")
    if step == EXEC_FOUND and number in (errno.EACCES, errno.ENOEXEC, errno.EISDIR, errno.ELOOP):
        return NotStarted(126, Reason.NOT_EXECUTABLE, f"{command[:SHOWN]}: {message}")
    if step == EXEC_FOUND and number == errno.E2BIG:
        return NotStarted(126, Reason.TOO_LONG, f"{command[:SHOWN]}: {message}: its command or its environment")
    return NotStarted(125, Reason.START_FAILED, f"{command[:SHOWN]}: {message}")


def is_there(launch: Launch) -> bool:
    """Return whether the file exists, where exec has failed: exec fails the same for a directory in PATH that is closed
    to the task's user."""
    command = launch.command[0]
    places = [launch.cwd] if "/" in command else os.get_exec_path(launch.env)
    return any(os.path.lexists(os.path.join(launch.cwd, place, command)) for place in places)


def become_subreaper() -> None:
    """Make orphans of the task children of this process."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    if libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")
