"""One allocation's directory: its order, its supervisor's records, its logs. Everything the agent knows survives here.

The one rule: the order is stored and synced before anything starts; what has a stored order is never started again.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

from gosched.agent import supervisor
from gosched.agent.files import replace, reserve, sync_directory, write_synced
from gosched.agent.orders import Order, encode_order, parse_order
from gosched.agent.processes import MARK, boot_id
from gosched.core.job import TaskState
from gosched.node_logic.reconcile import StopWish
from gosched.wire.v1 import worker_pb2

# What a task gets from the agent's own environment when its order does not say otherwise.
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ")
CHECKPOINT_VARIABLE = "GOSCHED_CHECKPOINT_FILE"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a task ended. `exit_code` is None where none is known."""

    state: TaskState
    exit_code: int | None = None
    reason: str = ""
    detail: str = ""
    started_at_ms: int = 0
    ended_at_ms: int = 0


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
class LogLimits:
    """For each of the two streams: size of a file, and how many files stay."""

    max_bytes: int
    files: int


class Spool:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._checkpoint = str(path / supervisor.CHECKPOINT_FILE)

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    # Written by the agent

    def store(self, order: Order) -> None:
        """The order is on the disk afterwards, but for the sync of the parent directory."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        write_synced(self.path / "order", encode_order(order))

    def start(self, order: Order, limits: LogLimits) -> subprocess.Popen[bytes]:
        """Starts the supervisor, which holds the allocation's lock from before its first instruction to its end."""
        self.logs.mkdir(mode=0o700, exist_ok=True)
        work = self.path / "work"
        work.mkdir(mode=0o700, exist_ok=True)
        launch = {
            "command": list(order.command),
            "env": _environment(order) | {CHECKPOINT_VARIABLE: self._checkpoint},
            "cwd": str(work / order.working_dir),
            "boot_id": boot_id(),
            "log_max_bytes": limits.max_bytes,
            "log_files": limits.files,
        }
        for name in ("supervisor.json", "task.json", "stop.json", "saving.json", "exit.json"):
            reserve(self.path / name)
        replace(self.path / "launch.json", json.dumps(launch).encode())
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with (self.path / "supervisor.log").open("wb") as log:
                return subprocess.Popen(
                    [sys.executable, "-I", "-S", supervisor.__file__, str(lock)],
                    cwd=self.path,
                    env={},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(lock,),
                    start_new_session=True,
                )
        finally:
            os.close(lock)

    def order_stop(self, wish: StopWish) -> None:
        """Stays in force until the task has ended; the supervisor reads it when it is signalled."""
        stop = asdict(wish)
        del stop["allocation_id"]
        replace(self.path / "stop.json", json.dumps(stop).encode())

    def record_ending(self, ending: Ending) -> None:
        write_synced(self.path / "exit.json", json.dumps({**asdict(ending), "state": ending.state.name}).encode())

    def mark_forgotten(self) -> None:
        (self.path / "forgotten").touch()

    def remove(self, trash: Path) -> None:
        """Out of sight at once, so that a crash halfway leaves no half of an allocation."""
        target = trash / f"{self.path.name[:200]}-{time.monotonic_ns()}"
        self.path.rename(target)
        sync_directory(self.path.parent)
        shutil.rmtree(target)

    # Read by the agent

    def order(self) -> Order | None:
        """None where a crash came before the order was stored: then nothing ran."""
        try:
            data = (self.path / "order").read_bytes()
        except FileNotFoundError:
            return None
        return parse_order(worker_pb2.TaskOrder.FromString(data))

    def supervisor(self) -> SupervisorRecord | None:
        data = _read(self.path / "supervisor.json")
        return SupervisorRecord(**json.loads(data)) if data else None

    def task(self) -> TaskRecord | None:
        data = _read(self.path / "task.json")
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

    def stop_ordered(self) -> StopWish | None:
        data = _read(self.path / "stop.json")
        if not data:
            return None
        return StopWish(allocation_id="", **json.loads(data))

    def saving(self) -> SavingRecord:
        data = _read(self.path / "saving.json")
        return SavingRecord(**json.loads(data)) if data else NOT_SAVING

    def checkpoint_at_ms(self) -> int:
        """When the task last saved itself, as it says; 0: never."""
        try:
            return os.lstat(self._checkpoint).st_ctime_ns // 1_000_000
        except OSError:
            return 0

    def ending(self) -> Ending | None:
        data = _read(self.path / "exit.json")
        if not data:
            return None
        record = json.loads(data)
        return Ending(**{**record, "state": TaskState[record["state"]]})

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
    for order in orders:
        spool_for(tasks, order.allocation_id).store(order)
    sync_directory(tasks)


def _environment(order: Order) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {"PATH": DEFAULT_PATH, **inherited, **dict(order.env), MARK: order.allocation_id}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
