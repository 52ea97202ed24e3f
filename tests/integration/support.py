"""What the cluster tests share: job texts, a ledger that tasks write to, the command line as a user runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from gosched.cli.local_cluster import LocalCluster
from gosched.cli.local_program import Program
from gosched.client import GoSchedClient
from gosched.core.records.job import JobState
from gosched.replication.applier import Applier
from gosched.replication.disk.journal_format import FILE as JOURNAL
from gosched.replication.disk.log_files import entries_in
from gosched.replication.peer_messages import BATCHES
from gosched.replication.snapshots.snapshot import FILE as SNAPSHOT
from gosched.replication.snapshots.snapshot import decode, restored

PATIENCE_S = 90.0  # for what takes a second: a slow machine may be doing a dozen other things
#: Settings of masters that count on a node however long its agent is away.
PATIENT = {"lease": {"node_timeout": "10m", "first_lease": "10m"}}


def until(condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> None:
    ends = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < ends, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.02)


@contextmanager
def left_empty(cluster: LocalCluster) -> Iterator[GoSchedClient]:
    """A client of a cluster that is empty, and is left so."""
    with cluster.client() as client:
        yield client
        for job in client.list_jobs(states=[JobState.PENDING, JobState.RUNNING]):
            client.cancel(job.id)
        until(lambda: client.get_status().used.cpu_millis == 0, "the tasks of the test have ended")


def ledger_job(
    name: str, ledger: Path, *, count: int = 1, cpu: str = "100m", then: str = "true", more: str = ""
) -> str:
    """Each task appends one line when it starts: task id, attempt, pid."""
    line = "$GOSCHED_TASK_ID $GOSCHED_ATTEMPT $$"
    return (
        f"name: {name}\ncount: {count}\nresources: {{cpu: {cpu}, memory: 1Mi}}\nstop_grace: 1s\n{more}\n"
        f"run: 'echo \"{line}\" >> {ledger}; {then}'\n"
    )


def until_there(file: Path) -> str:
    """The line of a task that goes on once the test has made this file."""
    return f"until [ -e {file} ]; do sleep 0.05; done"


def starts(ledger: Path) -> list[tuple[str, int, int]]:
    """Task id, attempt and pid of each start."""
    if not ledger.exists():
        return []
    found = (line.split() for line in ledger.read_text().splitlines())
    return [(task, int(attempt), int(pid)) for task, attempt, pid in found]


def goschedctl(endpoints: str, *words: str, timeout_s: float = 2 * PATIENCE_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("goschedctl")), *words],
        env={**os.environ, "GOSCHED_ENDPOINTS": endpoints, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def family(program: Program) -> list[psutil.Process]:
    """A master, its replica, and the relay of its log."""
    process = psutil.Process(program.pid)
    return [*process.children(recursive=True), process]


def replica_of(master: Program) -> psutil.Process:
    """The process that keeps a master's log."""
    (found,) = [p for p in psutil.Process(master.pid).children() if "gosched.replication.replica" in p.cmdline()]
    return found


def kill_whole(program: Program) -> None:
    """SIGKILL to the master and its replica at once, as when the machine dies."""
    processes = family(program)
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # it ends by itself when the other one has gone
            process.send_signal(signal.SIGKILL)
    program.wait(PATIENCE_S)
    until(lambda: not any(lives(process) for process in processes), f"{program.id} is gone, and nothing of it writes")


def lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until_all_serve(cluster: LocalCluster) -> None:
    """Wait until each master answers over HTTP, and follows a leader: one that was started again needs a moment."""
    until(lambda: all(applied_index(m) > 0 for m in cluster.masters.values()), "all masters serve HTTP")


def applied_index(master: Program) -> int:
    """How far it has come, by its own word: so much is in its log on the disk. -1 while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{master.http}/metrics", timeout=PATIENCE_S) as answer:
            text = answer.read()
    except OSError:
        return -1
    return int(float(re.findall(rb"^gosched_raft_applied_index (\S+)", text, re.MULTILINE)[0]))


def state_digest_at(cluster: LocalCluster, master: str, revision: int) -> str:
    """What a master's own disk says the state was: its snapshot, if it is not newer, and then its log."""
    folder = cluster.data_dir / master / "raft"
    applier = Applier()
    if (folder / SNAPSHOT).exists():
        applier.state = restored(decode((folder / SNAPSHOT).read_bytes()))
    for entry in entries_in((folder / JOURNAL).read_bytes()):
        if applier.state.revision >= revision:
            break
        if entry[0][:1] in BATCHES:
            applier.apply(entry[0][1:])
    assert applier.state.revision == revision, f"{master} holds no state of revision {revision}"
    return applier.state.digest()


def all_alive(pids: Sequence[int]) -> bool:
    return all(psutil.pid_exists(pid) for pid in pids)
