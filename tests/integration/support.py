"""What the cluster tests share: job texts, a ledger that tasks write to, the command line as a user runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from gosched.cli.local_cluster import LocalCluster, Program
from gosched.replication.applier import Applier
from gosched.replication.disk import PosixDisk
from gosched.replication.journal import Journal
from gosched.replication.peer_messages import REGULAR
from gosched.replication.snapshot import FILE as SNAPSHOT
from gosched.replication.snapshot import decode, restored


def until(condition: Callable[[], object], what: str, timeout_s: float = 20.0) -> None:
    ends = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < ends, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.02)


def ledger_job(
    name: str, ledger: Path, *, count: int = 1, cpu: str = "100m", then: str = "true", more: str = ""
) -> str:
    """Each task appends one line when it starts: task id, attempt, pid."""
    line = "$GOSCHED_TASK_ID $GOSCHED_ATTEMPT $$"
    return (
        f"name: {name}\ncount: {count}\nresources: {{cpu: {cpu}, memory: 1Mi}}\nstop_grace: 1s\n{more}\n"
        f"run: 'echo \"{line}\" >> {ledger}; {then}'\n"
    )


def starts(ledger: Path) -> list[tuple[str, int, int]]:
    """Task id, attempt and pid of each start."""
    if not ledger.exists():
        return []
    found = (line.split() for line in ledger.read_text().splitlines())
    return [(task, int(attempt), int(pid)) for task, attempt, pid in found]


def goschedctl(endpoints: str, *words: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("goschedctl")), *words],
        env={**os.environ, "GOSCHED_ENDPOINTS": endpoints, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def family(program: Program) -> list[psutil.Process]:
    """A master and its replica."""
    process = psutil.Process(program.pid)
    return [*process.children(recursive=True), process]


def kill_whole(program: Program) -> None:
    """SIGKILL to the master and its replica at once, as when the machine dies."""
    for process in family(program):
        process.send_signal(signal.SIGKILL)
    program.wait(10)


def state_digest_at(cluster: LocalCluster, master: str, revision: int) -> str:
    """What a master's own disk says the state was: its snapshot, if it is not newer, and then its log."""
    disk = PosixDisk(cluster.data_dir / master / "raft")
    applier = Applier()
    if (data := disk.read(SNAPSHOT)) is not None:
        applier.state = restored(decode(data))
    journal = Journal(disk)
    for at in range(len(journal)):
        entry = journal[at]
        assert isinstance(entry, tuple)
        if applier.state.revision >= revision:
            break
        if entry[0][:1] == REGULAR:
            applier.apply(entry[0][1:])
    assert applier.state.revision == revision, f"{master} holds no state of revision {revision}"
    return applier.state.digest()


def all_alive(pids: Sequence[int]) -> bool:
    return all(psutil.pid_exists(pid) for pid in pids)
