"""The process that forks the supervisors, as its agent sees it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from gosched.agent.supervisor import records
from gosched.agent.supervisor.commands import run
from gosched.agent.supervisor.family import start_time
from gosched.agent.supervisor.launch import Launch
from gosched.agent.tasks import nursery
from gosched.agent.tasks.processes import boot_id
from gosched.agent.tasks.spool import Spool
from gosched.core.records.task import TaskState
from tests.agent.conftest import wait_for

# It gets no CPU between the fork and its look at the supervisor.
_SLOW = """
import os, sys, time
sys.path.insert(0, sys.argv.pop(1))
from gosched.agent.supervisor import nursery
look = nursery.start_time
def start_time(pid):
    while os.path.exists(f"/proc/{pid}"):
        time.sleep(0.001)
    return look(pid)
nursery.start_time = start_time
nursery.main()
"""


@pytest.mark.parametrize("program", [nursery._PROGRAM, _SLOW], ids=["usual", "slow"])
def test_a_task_that_ended_before_anyone_looked_has_run(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nursery, "_PROGRAM", program)
    spool = Spool(tmp_path / "task")
    spool.path.mkdir()
    ran = tmp_path / "ran"
    launch = Launch(
        command=("touch", str(ran)), env={"PATH": os.defpath}, cwd=str(tmp_path), log_max_bytes=1000, log_files=1
    )
    forks = nursery.Nursery(lambda pid: None, tmp_path)
    try:
        supervisor = spool.start(launch, forks)
    finally:
        forks.close()
    assert supervisor is None or program != _SLOW
    wait_for(lambda: not spool.is_supervised())
    assert ran.exists()
    ending = spool.ending("j/w/0.1")
    assert ending is not None
    assert ending.state is TaskState.SUCCEEDED


class Started:
    """A task that was started in a directory of its own, by a command, with a line to its supervisor."""

    def __init__(self, forks: nursery.Nursery, path: Path, *command: str) -> None:
        path.mkdir()
        self.spool = Spool(path)
        launch = Launch(
            command=command, env={"PATH": os.defpath}, cwd=str(path), log_max_bytes=1000, log_files=1, boot_id="b"
        )
        self.line, far_end = os.pipe()
        try:
            self.spool.start(launch, forks, line=far_end)
        finally:
            os.close(far_end)

    def supervisor(self) -> int:
        return wait_for(self.spool.supervisor).pid

    def end(self) -> tuple[bytes, int | None]:
        """Return what came by the line to its end, and the exit code, which is recorded then."""
        said = b""
        while news := os.read(self.line, 100):
            said += news
        os.close(self.line)
        assert not self.spool.is_supervised()
        ending = self.spool.ending("j/w/0.1")
        assert ending is not None
        return said, ending.exit_code


def is_free(supervisor: int) -> bool:
    """Return whether it attends to no task; it may have ended."""
    try:
        return os.readlink(f"/proc/{supervisor}/cwd") == "/"
    except FileNotFoundError:
        return True


@pytest.fixture
def forks(tmp_path: Path) -> Iterator[nursery.Nursery]:
    made = nursery.Nursery(lambda pid: None, tmp_path)
    yield made
    made.close()


def test_a_free_supervisor_goes_on_with_the_next_task_and_keeps_nothing_of_the_last(
    forks: nursery.Nursery, tmp_path: Path
) -> None:
    pids, descriptors = set(), set()
    for number in range(8):
        waits = f"while [ ! -e {tmp_path}/go-{number} ]; do sleep 0.02; done"
        task = Started(forks, tmp_path / str(number), "sh", "-c", f"{waits}; pwd; ls /proc/self/fd; exit {number}")
        pids.add(task.supervisor())
        assert os.read(task.line, 1) == b"+"
        descriptors.add(len(os.listdir(f"/proc/{task.supervisor()}/fd")))
        (tmp_path / f"go-{number}").touch()
        assert task.end() == (b"", number)
        told = [path.read_text().split() for path in task.spool.logs.glob("stdout-*.log")]
        assert told == [[str(tmp_path / str(number)), "0", "1", "2", "3"]]
        wait_for(partial(is_free, task.supervisor()))
    assert len(pids) < 8, "now and then the nursery has not heard yet that it is free"
    assert len(descriptors) == 1


def test_a_busy_supervisor_gets_no_other_task_and_outlives_its_nursery(forks: nursery.Nursery, tmp_path: Path) -> None:
    long = Started(forks, tmp_path / "long", "sh", "-c", f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 3")
    short = Started(forks, tmp_path / "short", "true")
    assert long.supervisor() != short.supervisor()
    assert short.end() == (b"+", 0)
    forks.close()
    wait_for(lambda: not psutil.pid_exists(short.supervisor()), why="a free one ends with the nursery")
    (tmp_path / "go").touch()
    assert long.end() == (b"+", 3)
    wait_for(lambda: not psutil.pid_exists(long.supervisor()), why="nobody can give it another task")


def test_a_free_supervisor_that_was_killed_costs_no_task(forks: nursery.Nursery, tmp_path: Path) -> None:
    first = Started(forks, tmp_path / "first", "true")
    first.end()
    wait_for(lambda: os.readlink(f"/proc/{first.supervisor()}/cwd") == "/", why="it is free")
    os.kill(first.supervisor(), signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(first.supervisor()))
    second = Started(forks, tmp_path / "second", "sh", "-c", "exit 4")
    assert second.end() == (b"+", 4)


def test_the_line_of_a_killed_supervisor_ends(forks: nursery.Nursery, tmp_path: Path) -> None:
    task = Started(forks, tmp_path / "task", "sleep", "300")
    assert os.read(task.line, 1) == b"+"
    os.kill(task.supervisor(), signal.SIGKILL)
    assert os.read(task.line, 1) == b""
    wait_for(lambda: not task.spool.is_supervised())
    assert task.spool.ending("j/w/0.1") is None
    os.close(task.line)


def test_a_supervisor_that_waits_in_vain_ends(forks: nursery.Nursery, tmp_path: Path) -> None:
    task = Started(forks, tmp_path / "task", "true")
    task.end()
    wait_for(lambda: not psutil.pid_exists(task.supervisor()))


def test_no_task_is_lost_where_a_supervisor_has_had_its_last(
    forks: nursery.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = "supervisor import nursery; nursery.MAX_TASKS = 2; nursery.main()"
    program = nursery._PROGRAM.replace("supervisor.nursery import main; main()", few)
    assert few in program
    monkeypatch.setattr(nursery, "_PROGRAM", program)
    pids = set()
    for number in range(6):
        task = Started(forks, tmp_path / str(number), "true")
        pids.add(task.supervisor())
        assert task.end() == (b"+", 0)
        wait_for(partial(is_free, task.supervisor()))
    assert len(pids) >= 3


def test_a_supervisor_that_a_task_has_changed_attends_to_no_other(forks: nursery.Nursery, tmp_path: Path) -> None:
    changes = ("renice -n 19 -p $PPID", "prlimit --core=0 --pid $PPID", "taskset -p 1 $PPID")
    for number, change in enumerate(changes):
        first = Started(forks, tmp_path / f"first-{number}", "sh", "-c", f"sleep 0.2; {change}")
        changed = first.supervisor()
        assert first.end() == (b"+", 0)
        wait_for(lambda pid=changed: not psutil.pid_exists(pid), why=change)


def test_commands_run_where_a_full_disk_has_no_place_for_their_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / records.LOG).mkdir()  # so that it cannot be made
    monkeypatch.setattr(records.Output, "is_file", True)
    assert run(("touch", "ran"))
    assert (tmp_path / "ran").exists()


def test_a_directory_whose_task_has_ended_is_no_copy_though_its_supervisor_is_elsewhere(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "task")
    spool.path.mkdir()
    me = {"pid": os.getpid(), "start_time": start_time(os.getpid()), "boot_id": boot_id()}
    (spool.path / records.SUPERVISOR).write_text(json.dumps(me))
    assert spool.runs_elsewhere() == str(Path.cwd())
    (spool.path / records.EXIT).write_text("{}")
    assert spool.runs_elsewhere() == ""
