"""Ends tasks of this host that no agent can adopt any more, before this agent offers what they use.

A supervisor shows which agent's it is without any file: its command line names the data directory of its agent, its
working directory is the allocation's. No agent can adopt it once that directory was removed, or once the data directory
was moved away and another one, this agent's, stands in its place.

Invariant: nothing is touched that a living agent, which holds the lock of its data directory, can reach, nor what an
agent that is down finds again when it is started.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from gosched.agent.cgroups.files import CgroupError
from gosched.agent.cgroups.files import kill as kill_cgroup
from gosched.agent.cgroups.tree import AGENT, TASKS, CgroupTree
from gosched.agent.datadir import DataDir
from gosched.agent.supervisor.control_group import cgroup_of
from gosched.agent.supervisor.family import children_by_pid
from gosched.agent.tasks.processes import MARK, kill_marked

NURSERY = b"gosched.agent.supervisor.nursery"  # in the command line of each supervisor
DELETED = " (deleted)"  # the kernel's word behind a directory's name; an allocation's has no space in it
END_LIMIT_S = 60.0  # for a supervisor to clean up after its task: it may have to ask a daemon
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervisor:
    """A supervisor of some agent of this host."""

    #: Its process.
    pid: int
    #: A descriptor of the process, for this object's user to close.
    pidfd: int
    #: Data directory of the agent that started it; empty: a release that did not say so.
    data_dir: str
    #: Allocation's directory, by the name that it has now.
    directory: str
    #: No such directory exists any more.
    is_removed: bool


def end_orphans(data_dir: DataDir, tree: CgroupTree, place: str) -> None:
    """Return once they are gone, or, after END_LIMIT_S, hang in the kernel with SIGKILL pending. Runs in a worker
    thread. `place`: how the data directory is called in the names of cgroup trees."""
    log = structlog.get_logger().bind(node=data_dir.node_id)
    found = supervisors()
    try:
        held = [(each, _holder(each, data_dir)) for each in found]
        orphans = [each for each, holder in held if _is_orphan(each, holder, data_dir)]
        for orphan in orphans:
            log.warning("a task that no agent can adopt any more is ended", pid=orphan.pid, directory=orphan.directory)
        _end(orphans)
        for each, holder in held:
            if each not in orphans and holder is None:
                log.warning("a task of an agent that does not run goes on", pid=each.pid, directory=each.directory)
    finally:
        for each in found:
            os.close(each.pidfd)
    for former in tree.end_former(place):
        log.warning("the cgroups of a former node are removed", cgroup=str(former))
    for mark in _strays(data_dir.tasks):
        log.warning("processes of a task whose record is gone are ended", task=mark)
        if not kill_marked(mark):
            log.error("processes of a task whose record is gone cannot be killed", task=mark)


def supervisors() -> list[Supervisor]:
    """Return those of all agents of this process' user."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [found for pid in pids if (found := _supervisor(pid)) is not None]


def _supervisor(pid: int) -> Supervisor | None:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    try:  # looked at after the descriptor is open: if it lives afterwards, it was looked at
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        at = next((i for i, word in enumerate(words) if NURSERY in word), -1)
        if at >= 0 and os.stat(f"/proc/{pid}").st_uid == os.geteuid():
            link = os.readlink(f"/proc/{pid}/cwd")
            directory = link.removesuffix(DELETED)
            if Path(directory).parent.name == "tasks":  # otherwise a nursery
                # After the program come where its sources are, the nursery's socket, and the data directory.
                data_dir = os.fsdecode(words[at + 3]) if len(words) > at + 3 else ""
                return Supervisor(
                    pid=pid, pidfd=pidfd, data_dir=data_dir, directory=directory, is_removed=link.endswith(DELETED)
                )
    except OSError:  # it is gone, or another user's
        pass
    os.close(pidfd)
    return None


def _is_orphan(supervisor: Supervisor, holder: str | None, data_dir: DataDir) -> bool:
    if holder == "another":
        return False
    if supervisor.is_removed:
        return True
    # Of the directory that was here before this one.
    was_here = supervisor.data_dir == str(data_dir.path) and _mounts(supervisor.pid) == _mounts(os.getpid())
    return holder is None and was_here


def _holder(supervisor: Supervisor, data_dir: DataDir) -> str | None:
    """Return which agent holds the data directory that the allocation is in: `own`, `another`, or None. It is found
    from the process, wherever the directory is mounted or was moved to."""
    try:
        lock = os.open(f"/proc/{supervisor.pid}/cwd/../../lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if data_dir.is_lock(lock):
            return "own"
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return "another"
    finally:
        os.close(lock)
    return None


def _end(orphans: Iterable[Supervisor]) -> None:
    """Kill what each started: the supervisor itself then kills the rest, removes the task's cgroup and its container,
    and ends. One that does not is killed, with all that it has."""
    deadline = time.monotonic() + END_LIMIT_S
    pending = [orphan for orphan in orphans if not _has_ended(orphan)]
    untouched = list(pending)
    while pending and time.monotonic() < deadline:
        children = children_by_pid()
        for orphan in untouched:
            _signal(orphan.pidfd, signal.SIGCONT)
            for pid in children.get(orphan.pid, []):
                _kill(pid)
        # Once only: what it runs later cleans up. One that is about to start its task has no child yet.
        untouched = [orphan for orphan in untouched if not children.get(orphan.pid)]
        time.sleep(_LOOK_S)
        pending = [orphan for orphan in pending if not _has_ended(orphan)]
    for orphan in pending:
        _end_by_force(orphan)


def _end_by_force(orphan: Supervisor) -> None:
    leaf = Path(cgroup_of(orphan.pid))
    children = children_by_pid()
    family = [orphan.pid]
    for pid in family:
        family.extend(children.get(pid, []))
    for pid in family:
        _kill(pid)
    if leaf.name == AGENT:
        try:
            kill_cgroup(leaf.parent / TASKS / Path(orphan.directory).name)
        except CgroupError as error:
            structlog.get_logger().error("cannot kill an orphan's cgroup", why=str(error))


def _has_ended(supervisor: Supervisor) -> bool:
    ends = select.poll()  # select() takes no descriptor above 1023, and there is one for each task
    ends.register(supervisor.pidfd, select.POLLIN)
    return bool(ends.poll(0))


def _kill(pid: int) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    _signal(pidfd, signal.SIGKILL)
    os.close(pidfd)


def _signal(pidfd: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)


def _strays(tasks: Path) -> set[str]:
    """Return the marks of processes that ran for this data directory's place, whose task has no record here and no
    supervisor either."""
    sheltered = _below([each.pid for each in _closed(supervisors())])
    own_mounts, prefix = _mounts(os.getpid()), f"{MARK}={tasks}/".encode()
    found: set[str] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in sheltered:
            continue
        try:
            words = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        mark = next((word for word in words if word.startswith(prefix)), None)
        if mark is None or _mounts(int(name)) != own_mounts:
            continue
        path = os.fsdecode(mark).partition("=")[2]
        if not (tasks / path.removeprefix(f"{tasks}/").partition("/")[0]).exists():
            found.add(path)
    return found


def _closed(found: list[Supervisor]) -> list[Supervisor]:
    for each in found:
        os.close(each.pidfd)
    return found


def _below(pids: Iterable[int]) -> set[int]:
    children = children_by_pid()
    found = list(pids)
    for pid in found:
        found.extend(children.get(pid, []))
    return set(found)


def _mounts(pid: int) -> str:
    """Return the name of its mount namespace: the same path means the same file only in one. Empty: not known."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""
