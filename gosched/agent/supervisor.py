"""Runs one task, outlives the agent, and records how the task ended.

    python -I -S supervisor.py LOCK_FD        (in the allocation's directory)

Started on its own file with the standard library alone, so that it is small and starts fast. The one rule: `exit.json`
is written, synced, after the last process of the task's tree is gone, and the lock is held from before the start until
then.

It reads `launch.json` and, whenever SIGURG comes, `stop.json`; it writes `supervisor.json`, `task.json` once the task
runs, `saving.json` when the task is asked to save itself, `exit.json` and the logs. The agent has reserved room on the
disk for each, so a full disk stops none of them.
SIGURG because its default is to be ignored: the agent may send it before the handler is there, since the file is read
after that too.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CHUNK = 65536
DRAIN_BYTES = (
    1 << 20
)  # at most so much is read from a pipe once the task is gone: only a stranger can still write to it
RETRY_S = 1.0
KILL_AGAIN_S = 1.0
LOOK_AGAIN_S = 0.05  # while the task saves itself
CHECKPOINT_FILE = "work/.gosched-checkpoint"  # the task writes it when it has saved itself

TYPE_CHECKING = False
if TYPE_CHECKING:  # the import would cost every task a few milliseconds
    from collections.abc import Mapping

libc = ctypes.CDLL(None, use_errno=True)


class Launch:
    """What to run. `boot_id` only travels on into the records."""

    def __init__(
        self, command: list[str], env: dict[str, str], cwd: str, boot_id: str, log_max_bytes: int, log_files: int
    ) -> None:
        self.command = command
        self.env = env
        self.cwd = cwd
        self.boot_id = boot_id
        self.log_max_bytes = log_max_bytes
        self.log_files = log_files


class StopOrder:
    """First the signal and the time to save itself, unless either is 0; then SIGTERM, its grace, SIGKILL."""

    def __init__(self, grace_ms: int, reason: str, checkpoint_signal: int = 0, checkpoint_ms: int = 0) -> None:
        self.grace_ms = grace_ms
        self.reason = reason
        self.checkpoint_signal = checkpoint_signal
        self.checkpoint_ms = checkpoint_ms


class NotStarted(Exception):
    """Why the task could not be started."""

    def __init__(self, exit_code: int, reason: str, detail: str) -> None:
        self.exit_code = exit_code
        self.reason = reason
        self.detail = detail


def main(lock_fd: int) -> None:
    os.set_inheritable(lock_fd, False)
    try:
        woken = prepare_process()
        with open("launch.json", encoding="utf-8") as file:
            launch = Launch(**json.load(file))
        # Before the task: where this record is missing, nothing ran.
        identity = {"pid": os.getpid(), "start_time": start_time(), "boot_id": launch.boot_id}
        write("supervisor.json", identity, sync=True)
        stop = read_stop()
        if stop is not None:
            record_exit(ending("KILLED", None, stop.reason, "stopped before it started", 0))
            return
        logs, writers = open_logs(launch)
        pid = start_task(launch, writers)
    except NotStarted as failure:
        record_exit(ending("FAILED", failure.exit_code, failure.reason, failure.detail, 0))
        return
    except OSError as error:
        record_exit(ending("FAILED", 125, "START_FAILED", f"the node cannot start the task: {error}", 0))
        return
    started_at_ms = now_ms()
    write("task.json", {"pid": pid, "started_at_ms": started_at_ms})
    status, stop = watch(pid, logs, woken)
    kill_leftovers()
    for log in logs:
        log.drain()
    record_exit(describe(status, stop, started_at_ms))


def prepare_process() -> int:
    """Signals go to the pipe that is returned; orphans of the task come to this process."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGURG):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if prctl(PR_SET_CHILD_SUBREAPER, 1) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")
    return read_end


def start_task(launch: Launch, writers: list[int]) -> int:
    """The task's pid. Raises NotStarted."""
    read_end, write_end = os.pipe()  # closed by a successful exec
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        become_task(launch, writers, write_end, parent)
    for fd in (write_end, *writers):
        os.close(fd)
    with open(read_end, "rb") as file:
        failure = file.read()
    if failure:
        os.waitpid(pid, 0)
        raise explain(launch, *json.loads(failure))
    return pid


def become_task(launch: Launch, writers: list[int], failure_fd: int, parent: int) -> None:
    step = "start"
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for each in signal.valid_signals():
            if each not in (signal.SIGKILL, signal.SIGSTOP) and signal.getsignal(each) is not None:
                signal.signal(each, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(writers[0], 1)
        os.dup2(writers[1], 2)
        step = "cwd"
        os.chdir(launch.cwd)
        step = "exec"
        os.execvpe(launch.command[0], launch.command, launch.env)
    except BaseException as error:
        number = error.errno if isinstance(error, OSError) else 0
        os.write(failure_fd, json.dumps([step, number, str(error)[:200]]).encode())
    os._exit(1)


def explain(launch: Launch, step: str, number: int, text: str) -> NotStarted:
    """Exit codes as shells and container tools give them."""
    command = launch.command[0]
    message = os.strerror(number) if number else text
    if step == "cwd":
        return NotStarted(125, "BAD_WORKING_DIR", f"working directory {launch.cwd}: {message}")
    if step == "exec" and number in (errno.ENOENT, errno.ENOTDIR):
        found = "/" in command and os.path.exists(os.path.join(launch.cwd, command))
        missing = "its interpreter does not exist" if found else "no such command on this node"
        return NotStarted(127, "COMMAND_NOT_FOUND", f"{command}: {missing}")
    if step == "exec" and number in (errno.EACCES, errno.ENOEXEC, errno.EISDIR):
        return NotStarted(126, "NOT_EXECUTABLE", f"{command}: {message}")
    return NotStarted(125, "START_FAILED", f"{command}: {message}")


def watch(pid: int, logs: list[Log], woken: int) -> tuple[int, StopOrder | None]:
    """Returns the task's wait status and the stop order, if one came, once the task's main process has ended."""
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    by_fd = {log.fd: log for log in logs}
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    stop: StopOrder | None = None
    stopping = Stopping(pid)
    look = True  # an order may have come before the handler
    while True:
        if look:
            stop = read_stop() or stop
        wait_s = stopping.go_on(stop) if stop is not None else None
        look = False
        for fd, _ in poll.poll(None if wait_s is None else wait_s * 1000 + 1):
            if fd == woken:
                look = signal.SIGURG in os.read(woken, CHUNK)
            elif not by_fd[fd].pump():
                poll.unregister(fd)
        status = reap().get(pid)
        if status is not None:
            return status, stop


class Stopping:
    """How far the task's way to its end is: it saves itself, has its grace, is killed. A later order may only bring the
    end nearer; what was sent is not sent again."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.saving: Saving | None = None
        self.asked_at: float | None = None  # to end

    def go_on(self, order: StopOrder) -> float:
        """Does what is due. Returns in how many seconds to come again."""
        if self.asked_at is None:
            wait_s = self.save(order)
            if wait_s > 0:
                return wait_s
            self.asked_at = time.monotonic()
            if order.grace_ms > 0:
                send(-self.pid, signal.SIGTERM)  # its process group
        wait_s = self.asked_at + order.grace_ms / 1000 - time.monotonic()
        if wait_s > 0:
            return wait_s
        send(self.pid, signal.SIGKILL)
        return KILL_AGAIN_S

    def save(self, order: StopOrder) -> float:
        if self.saving is None and order.checkpoint_signal and order.checkpoint_ms:
            self.saving = Saving(order.checkpoint_signal)
        return self.saving.go_on(order.checkpoint_ms / 1000) if self.saving is not None else 0.0


class Saving:
    """The task is asked to save itself, and has until then written CHECKPOINT_FILE, or not."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.began_at = time.monotonic()
        self.before = checkpoint_stamp()
        self.record: dict[str, object] = {}

    def go_on(self, limit_s: float) -> float:
        """As Stopping.go_on; 0 when it is over."""
        if not self.record and signal_handlers(self.number):
            self.note("signalled_at_ms")
        left_s = self.began_at + limit_s - time.monotonic()
        if checkpoint_stamp() not in (self.before, None):
            self.note("saved_at_ms")
            return 0.0
        if left_s <= 0:
            self.note("over_at_ms")
            return 0.0
        return min(left_s, LOOK_AGAIN_S)

    def note(self, what: str) -> None:
        """For the agent to tell. A full disk must not keep the task from its end."""
        self.record[what] = now_ms()
        try:
            write("saving.json", self.record)
        except OSError as error:
            print(f"cannot record {what}: {error}", file=sys.stderr, flush=True)


def checkpoint_stamp() -> tuple[int, int] | None:
    """Another one after each write of the file, or rename onto it: nobody can set the time of change of an inode."""
    try:
        found = os.lstat(CHECKPOINT_FILE)
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def signal_handlers(number: int) -> bool:
    """Sends the signal to each process of the task that handles it, and to no other: a shell around the program
    would die of it, and the task with it. False when there is none (yet)."""
    found = False
    family = descendants()
    for pid in family:
        try:
            fd = os.pidfd_open(pid)
        except OSError:  # it is gone
            continue
        try:
            if handles(number, pid, family):  # looked at after the descriptor is open: it is still the same process
                signal.pidfd_send_signal(fd, number)
                found = True
        except (FileNotFoundError, ProcessLookupError):
            pass
        except PermissionError as error:
            print(f"cannot signal {pid}: {error}", file=sys.stderr, flush=True)
        finally:
            os.close(fd)
    return found


def handles(number: int, pid: int, family: set[int]) -> bool:
    """It has a handler. One that waits with sigwait instead cannot be told from one that would die."""
    with open(f"/proc/{pid}/status", "rb") as file:
        status = dict(line.partition(b":")[::2] for line in file)
    if int(status[b"PPid"]) not in {*family, os.getpid()}:
        return False
    return bool(int(status.get(b"SigCgt", b"0"), 16) & 1 << (number - 1))


def reap() -> dict[int, int]:
    """Statuses of the children that have ended, the task's orphans among them."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def kill_leftovers() -> None:
    """Only own children are killed: nobody else can reap them, so their pids can't be another's. What they
    leave behind becomes a child of this process, until there is none."""
    pause_s = 0.002
    while True:
        reap()
        children = own_children()
        if not children:
            return
        for pid in children:
            send(pid, signal.SIGKILL)
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.2)


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except PermissionError as error:  # it runs as another user by now
        print(f"cannot signal {pid}: {error}", file=sys.stderr, flush=True)


def own_children() -> list[int]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    return children_by_pid().get(os.getpid(), [])


def descendants() -> set[int]:
    """The whole task: its orphans are children of this process."""
    children = children_by_pid()
    found = list(children.get(os.getpid(), []))
    for pid in found:
        found.extend(children.get(pid, []))
    return set(found)


def children_by_pid() -> dict[int, list[int]]:
    """Of all processes."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            found.setdefault(parent, []).append(int(name))
    return found


def describe(status: int, stop: StopOrder | None, started_at_ms: int) -> dict[str, object]:
    code = os.waitstatus_to_exitcode(status)
    detail = f"ended with exit code {code}"
    if code < 0:
        detail = (
            f"ended by {signal.Signals(-code).name}" if -code in set(signal.Signals) else f"ended by signal {-code}"
        )
        code = 128 - code
    if stop is not None:
        return ending("KILLED", code, stop.reason, detail, started_at_ms)
    if code == 0:
        return ending("SUCCEEDED", 0, "", "", started_at_ms)
    return ending("FAILED", code, "SIGNALLED" if status & 0x7F else "NONZERO_EXIT", detail, started_at_ms)


def ending(state: str, exit_code: int | None, reason: str, detail: str, started_at_ms: int) -> dict[str, object]:
    return {
        "state": state,
        "exit_code": exit_code,
        "reason": reason,
        "detail": detail,
        "started_at_ms": started_at_ms,
        "ended_at_ms": now_ms(),
    }


def record_exit(record: dict[str, object]) -> None:
    """Tries for as long as there is a place to write to, so that no result is lost."""
    while os.stat(".").st_nlink > 0:
        try:
            write("exit.json", record, sync=True)
            return
        except OSError as error:
            print(f"cannot record the exit yet: {error}", file=sys.stderr, flush=True)
            time.sleep(RETRY_S)


def read_stop() -> StopOrder | None:
    try:
        with open("stop.json", encoding="utf-8") as file:
            return StopOrder(**json.load(file))
    except FileNotFoundError:
        return None


def write(name: str, record: Mapping[str, object], sync: bool = False) -> None:
    """Into the temporary file that is there, if one is: the agent reserved its room on the disk for the end."""
    temporary = name + ".tmp"
    with open(temporary, "r+" if os.path.exists(temporary) else "w", encoding="utf-8") as file:
        json.dump(record, file)
        file.truncate()
        file.flush()
        if sync:
            os.fsync(file.fileno())
    os.rename(temporary, name)
    if sync:
        directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(directory)
        os.close(directory)


def prctl(option: int, value: int) -> int:
    zero = ctypes.c_ulong(0)
    result: int = libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero)
    return result


def start_time() -> int:
    """In clock ticks since boot; with the pid and the boot id it names this process for good."""
    with open("/proc/self/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def now_ms() -> int:
    return int(time.time() * 1000)


class Log:
    """One stream of the task, in files named by the offset of their first byte. The newest `keep` files stay.

    Where a disk is full, bytes are dropped and the next file begins behind them: a reader sees the gap.
    """

    def __init__(self, name: str, fd: int, max_bytes: int, keep: int) -> None:
        self.name = name
        self.fd = fd
        self.max_bytes = max_bytes
        self.keep = keep
        self.offset = 0
        self.file = -1
        self.room = 0
        self.names: list[str] = []
        self.retry_at = 0.0

    def pump(self) -> bool:
        """Moves what is there, at most one chunk; False at the end of the stream."""
        try:
            data = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return True
        self.write(data)
        return bool(data)

    def drain(self) -> None:
        for _ in range(DRAIN_BYTES // CHUNK):
            before = self.offset
            self.pump()
            if self.offset == before:
                return

    def write(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data) and time.monotonic() >= self.retry_at:
                if self.room <= 0:
                    self.rotate(self.offset + written)
                count = os.write(self.file, data[written : written + self.room])
                self.room -= count
                written += count
        except OSError:
            self.room = 0
            self.retry_at = time.monotonic() + RETRY_S
        self.offset += len(data)
        if written < len(data):
            self.room = 0  # what comes next begins a file of its own

    def rotate(self, base: int) -> None:
        name = f"logs/{self.name}-{base:020d}.log"
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        if self.file >= 0:
            os.close(self.file)
        self.file = file
        self.room = self.max_bytes
        if name not in self.names:
            self.names.append(name)
        while len(self.names) > self.keep:
            os.unlink(self.names.pop(0))


def open_logs(launch: Launch) -> tuple[list[Log], list[int]]:
    """The logs of stdout and stderr, and the descriptors for the task to write to."""
    logs: list[Log] = []
    writers: list[int] = []
    for name in ("stdout", "stderr"):
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        logs.append(Log(name, read_end, launch.log_max_bytes, launch.log_files))
        writers.append(write_end)
    return logs, writers


if __name__ == "__main__":
    main(int(sys.argv[1]))
