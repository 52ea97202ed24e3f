"""One allocation's directory: its order, its supervisor's records, its logs. Everything the agent knows survives here.

The one rule: the order is stored and synced before anything starts; what has a stored order is never started again.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

from gosched.agent.files import replace, reserve, sync_directory, write_synced
from gosched.agent.logic.reconcile import StopWish
from gosched.agent.orders import Order, encode_order, parse_order
from gosched.agent.runtimes.interface import Account, Launch
from gosched.agent.supervisor import records
from gosched.agent.tasks.nursery import Nursery
from gosched.agent.tasks.processes import boot_id, open_process
from gosched.agent.tasks.removal import remove_tree
from gosched.core.records.task import TaskState
from gosched.core.records.usage import NO_USAGE, Usage
from gosched.wire.v1 import worker_pb2

STORES_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a task ended. `exit_code` is None where none is known."""

    state: TaskState
    exit_code: int | None = None
    reason: str = ""
    detail: str = ""
    started_at_ms: int = 0
    ended_at_ms: int = 0
    usage: Usage = NO_USAGE
    blames_node: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorRecord:
    """`start_time` in clock ticks since boot. The three together name one process for good."""

    pid: int
    start_time: int
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """Of a task that runs, or ran: its main process."""

    pid: int
    started_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingRecord:
    """When a task was asked to save itself, and when it had, or its time was over; 0: not yet."""

    signalled_at_ms: int = 0
    saved_at_ms: int = 0
    over_at_ms: int = 0

    @property
    def is_over(self) -> bool:
        return bool(self.saved_at_ms or self.over_at_ms)


NOT_SAVING = SavingRecord()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolSettings:
    """What a supervisor needs beside its Launch. Of each of the two streams: size of a log file, and how many stay.
    `cpus`, `lease`, `lease_grace_ms` as in supervisor.records.Launch."""

    log_max_bytes: int
    log_files: int
    cpus: tuple[int, ...] = ()
    lease: str = ""
    lease_grace_ms: int = 0


class Spool:
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

    def store(self, order: Order) -> None:
        """The order is on the disk afterwards, but for the sync of the parent directory."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        write_synced(self.path / "order", encode_order(order))

    def start(self, launch: Launch, settings: SpoolSettings, nursery: Nursery) -> tuple[int, int] | None:
        """Starts the supervisor, which holds the allocation's lock from before its first instruction to its end. Its
        pid and start time; None where only the lock tells whether it lives. Raises OSError."""
        self.logs.mkdir(mode=0o700, exist_ok=True)
        record = {**launch.record(), "boot_id": boot_id(), **asdict(settings)}
        for name in records.BY_SUPERVISOR + records.BY_AGENT:
            reserve(self.path / name)
        replace(self.path / records.LAUNCH, json.dumps(record).encode())
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return nursery.spawn(self.path, lock)
        finally:
            os.close(lock)

    def prepare(self, account: Account | None) -> Path:
        """The working directory, which is the account's own. Others may pass through, and see nothing."""
        self.path.chmod(0o711)
        work = self.path / "work"
        work.mkdir(mode=0o700, exist_ok=True)
        if account is not None:
            os.chown(work, account.uid, account.gid, follow_symlinks=False)
        return work

    def order_stop(self, wish: StopWish) -> None:
        """Stays in force until the task has ended; the supervisor reads it when it is signalled."""
        stop = asdict(wish)
        del stop["allocation_id"]
        replace(self.path / records.STOP, json.dumps(stop).encode())

    def order_freeze(self, frozen: bool) -> None:
        replace(self.path / records.FREEZE, json.dumps({"frozen": frozen}).encode())

    def record_ending(self, ending: Ending) -> None:
        write_synced(self.path / records.EXIT, json.dumps({**asdict(ending), "state": ending.state.name}).encode())

    def mark_forgotten(self) -> None:
        (self.path / "forgotten").touch()

    def unmark_forgotten(self) -> None:
        (self.path / "forgotten").unlink(missing_ok=True)

    def remove(self, trash: Path) -> None:
        """Out of sight at once, so that a crash halfway leaves no half of an allocation."""
        target = trash / f"{self.path.name[:200]}-{time.monotonic_ns()}"
        self.path.rename(target)
        sync_directory(self.path.parent)
        remove_tree(target)

    # Read by the agent

    def order(self) -> Order | None:
        """None where a crash came before the order was stored: then nothing ran."""
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
        """Its supervisor lives, even if it has not written its record yet."""
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
        """The directory of which this one is a copy: there the supervisor lives that is recorded here. Empty: none, or
        it has been removed, so that nobody can take the task up again."""
        record = self.supervisor()
        pidfd = open_process(record.pid, record.start_time) if record and record.boot_id == boot_id() else -1
        if record is None or pidfd < 0:
            return ""
        try:
            found = os.stat(f"/proc/{record.pid}/cwd")
            if found.st_nlink == 0 or os.path.samestat(found, os.stat(self.path)):
                return ""
            return os.readlink(f"/proc/{record.pid}/cwd")
        except OSError:  # it has ended meanwhile
            return ""
        finally:
            os.close(pidfd)

    def stop_ordered(self) -> StopWish | None:
        data = _read(self.path / records.STOP)
        if not data:
            return None
        return StopWish(allocation_id="", **json.loads(data))

    def saving(self) -> SavingRecord:
        data = _read(self.path / records.SAVING)
        return SavingRecord(**json.loads(data)) if data else NOT_SAVING

    def checkpoint_at_ms(self) -> int:
        """When the task last saved itself, as it says; 0: never."""
        try:
            return os.lstat(self._checkpoint).st_ctime_ns // 1_000_000
        except OSError:
            return 0

    def ending(self) -> Ending | None:
        data = _read(self.path / records.EXIT)
        if not data:
            return None
        record = json.loads(data)
        usage = Usage(**record.pop("usage", {}))
        return Ending(**{**record, "state": TaskState[record["state"]], "usage": usage})

    def launch(self) -> Launch | None:
        data = _read(self.path / records.LAUNCH)
        return Launch.of(json.loads(data)) if data else None

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
    """The directory's name is readable where it can be, and always one name within the limit of file systems."""
    name = quote(allocation_id, safe="")
    if len(name) > 200:
        name = f"{name[:160]}~{blake2b(allocation_id.encode(), digest_size=16).hexdigest()}"
    return Spool(tasks / name)


def store_all(tasks: Path, orders: Sequence[Order]) -> None:
    """On the disk when it returns; many at once share the disk's turns."""
    with ThreadPoolExecutor(STORES_AT_ONCE) as pool:
        list(pool.map(lambda order: spool_for(tasks, order.allocation_id).store(order), orders))
    sync_directory(tasks)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
