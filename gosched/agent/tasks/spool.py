"""One allocation's directory: its order, its supervisor's records, its logs. Everything the agent knows survives here.

Invariant: the order is stored and synced before anything starts; what has a stored order is never started again.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

from gosched.agent.files import replace, sync_directory, write_synced
from gosched.agent.logic.reconcile import LocalStop
from gosched.agent.orders import parse_order
from gosched.agent.supervisor import records
from gosched.agent.supervisor.launch import LAUNCH, Account, Launch, launch_of
from gosched.agent.tasks.nursery import Nursery
from gosched.agent.tasks.processes import boot_id, open_process
from gosched.agent.tasks.removal import remove_tree
from gosched.core.commands.nodes import TaskReport
from gosched.core.orders import StopOrder, TaskOrder
from gosched.core.records.task import TaskState
from gosched.core.records.usage import Usage
from gosched.wire.codec import to_message
from gosched.wire.v1 import worker_pb2

STORES_AT_ONCE = 16

# What of a report is not recorded of an end: the directory is the allocation's, and the rest is of live tasks.
_NOT_OF_AN_ENDING = ("allocation_id", "checkpoint_at_ms", "frozen")


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorRecord:
    """A supervisor's process. The three fields together name it for good."""

    pid: int
    #: In clock ticks since boot.
    start_time: int
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """The main process of a task that runs, or ran."""

    pid: int
    started_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingRecord:
    """A task's checkpoint before its end; times by the wall clock, 0: not yet."""

    #: When the task was asked to save itself.
    signalled_at_ms: int = 0
    #: When it had.
    saved_at_ms: int = 0
    #: When its time for that was over.
    over_at_ms: int = 0

    @property
    def is_over(self) -> bool:
        return bool(self.saved_at_ms or self.over_at_ms)


NOT_SAVING = SavingRecord()


class Spool:
    """The directory of one allocation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._checkpoint = str(path / records.CHECKPOINT_FILE)

    @property
    def checkpoint_file(self) -> str:
        return self._checkpoint

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    # Written by the agent

    def store(self, order: TaskOrder) -> None:
        """Store the order. It is on the disk on return, but for the sync of the parent directory."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        write_synced(self.path / "order", to_message(order, worker_pb2.TaskOrder).SerializeToString())

    def start(self, launch: Launch, nursery: Nursery, *, line: int = -1) -> tuple[int, int] | None:
        """Start the supervisor, which holds the allocation's lock, and the end `line` of a pipe, from before its first
        instruction to the end of the task. Return its pid and start time; None where only the lock says whether it
        lives. Raises OSError."""
        self.logs.mkdir(mode=0o700, exist_ok=True)
        replace(self.path / LAUNCH, json.dumps(asdict(launch)).encode())
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return nursery.spawn(self.path, [lock, line] if line >= 0 else [lock])
        finally:
            os.close(lock)

    def prepare(self, account: Account | None) -> Path:
        """Make the working directory, which is the account's own, and return it. Others may pass through, and see
        nothing."""
        self.path.chmod(0o711)
        work = self.path / "work"
        work.mkdir(mode=0o700, exist_ok=True)
        if account is not None:
            os.chown(work, account.uid, account.gid, follow_symlinks=False)
        return work

    def order_stop(self, order: StopOrder) -> None:
        """Write the order to stop. It stays in force until the task has ended; the supervisor reads it when it is
        signalled."""
        stop = asdict(order)
        del stop["allocation_id"]
        replace(self.path / records.STOP, json.dumps(stop).encode())

    def order_freeze(self, frozen: bool) -> None:
        replace(self.path / records.FREEZE, json.dumps({"frozen": frozen}).encode())

    def record_ending(self, ending: TaskReport) -> None:
        record = {name: value for name, value in asdict(ending).items() if name not in _NOT_OF_AN_ENDING}
        write_synced(self.path / records.EXIT, json.dumps({**record, "state": ending.state.name}).encode())

    def mark_forgotten(self) -> None:
        """Mark an ended task by a file, which its lock becomes: to make one costs more."""
        mark = f"{self.path}/forgotten"
        try:
            os.rename(f"{self.path}/lock", mark)
            os.utime(mark)
        except FileNotFoundError:  # it never started, or was forgotten and recalled
            Path(mark).touch()

    def unmark_forgotten(self) -> None:
        (self.path / "forgotten").unlink(missing_ok=True)

    def remove(self, trash: Path) -> None:
        """Remove the directory: out of `tasks` at once, so that a crash halfway leaves no part of an allocation."""
        target = trash / f"{self.path.name[:200]}-{time.monotonic_ns()}"
        self.path.rename(target)
        sync_directory(self.path.parent)
        remove_tree(target)

    # Read by the agent

    def order(self) -> TaskOrder | None:
        """Return the order; None where a crash came before it was stored: then nothing ran."""
        try:
            data = (self.path / "order").read_bytes()
        except FileNotFoundError:
            return None
        return parse_order(worker_pb2.TaskOrder.FromString(data))

    def supervisor(self) -> SupervisorRecord | None:
        data = _read(self.path / records.SUPERVISOR)
        return SupervisorRecord(**json.loads(data)) if data else None

    def task(self) -> TaskRecord | None:
        data = _read(self.path / records.TASK)
        return TaskRecord(**json.loads(data)) if data else None

    def is_supervised(self) -> bool:
        """Return whether its supervisor lives, even if that has not written its record yet."""
        try:
            lock = os.open(self.path / "lock", os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def runs_elsewhere(self) -> str:
        """Return the directory of which this one is a copy: there the supervisor lives that is recorded here. Empty:
        there is none, or it was removed, so that no agent can adopt the task."""
        record = self.supervisor()
        pidfd = open_process(record.pid, record.start_time) if record and record.boot_id == boot_id() else -1
        if record is None or pidfd < 0:
            return ""
        try:
            found = os.stat(f"/proc/{record.pid}/cwd")
            if found.st_nlink == 0 or os.path.samestat(found, os.stat(self.path)):
                return ""
            elsewhere = os.readlink(f"/proc/{record.pid}/cwd")
            # Its supervisor leaves the directory of a task that has ended, and goes on with another one.
            return "" if (self.path / records.EXIT).exists() else elsewhere
        except OSError:  # it has ended meanwhile
            return ""
        finally:
            os.close(pidfd)

    def stop_ordered(self) -> LocalStop | None:
        data = _read(self.path / records.STOP)
        if not data:
            return None
        return LocalStop(allocation_id="", **json.loads(data))

    def saving(self) -> SavingRecord:
        data = _read(self.path / records.SAVING)
        return SavingRecord(**json.loads(data)) if data else NOT_SAVING

    def checkpoint_at_ms(self) -> int:
        """Return when the task last saved itself, by its own word; 0: never."""
        try:
            return os.lstat(self._checkpoint).st_ctime_ns // 1_000_000
        except OSError:
            return 0

    def ending(self, allocation_id: str) -> TaskReport | None:
        """Return how the task ended, as its supervisor or the agent recorded it. None: it has not, or there is no
        record."""
        data = _read(self.path / records.EXIT)
        if not data:
            return None
        record = json.loads(data)
        # A supervisor that a later agent started may have recorded more than is known here.
        known = {each.name: record[each.name] for each in fields(TaskReport) if each.name in record}
        known["state"], known["usage"] = TaskState[record["state"]], Usage(**record.get("usage", {}))
        return TaskReport(allocation_id=allocation_id, **known)

    def launch(self) -> Launch | None:
        data = _read(self.path / LAUNCH)
        return launch_of(json.loads(data)) if data else None

    def freeze_ordered(self) -> bool:
        data = _read(self.path / records.FREEZE)
        return bool(data and json.loads(data)["frozen"])

    def is_frozen(self) -> bool:
        data = _read(self.path / records.FROZEN)
        return bool(data and json.loads(data)["frozen"])

    def forgotten_at(self) -> float | None:
        try:
            return (self.path / "forgotten").stat().st_mtime
        except FileNotFoundError:
            return None


def spool_for(tasks: Path, allocation_id: str) -> Spool:
    """Return the allocation's directory. Its name is readable where it can be, and always one name within the limit of
    file systems."""
    name = quote(allocation_id, safe="")
    if len(name) > 200:
        name = f"{name[:160]}~{blake2b(allocation_id.encode(), digest_size=16).hexdigest()}"
    return Spool(tasks / name)


def store_all(tasks: Path, orders: Sequence[TaskOrder]) -> None:
    """Store the orders; they are on the disk on return. Many at once share the disk's syncs."""
    with ThreadPoolExecutor(STORES_AT_ONCE) as pool:
        list(pool.map(lambda order: spool_for(tasks, order.allocation_id).store(order), orders))
    sync_directory(tasks)


def _read(path: Path) -> bytes:
    return records.contents(str(path)) or b""
