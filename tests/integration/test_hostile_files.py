"""A task's user who swaps directories, links and pipes while root works there: nothing of anybody else's is touched.

Each attacker is a process of that user which does nothing else; the agent's own code runs against it hundreds of times.
Needs root.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gosched.agent.hardware.disk import measure
from gosched.agent.runtimes.interface import CannotRun, Place
from gosched.agent.runtimes.spark import Spark
from gosched.agent.supervisor.launch import Account
from gosched.agent.tasks.removal import remove_tree
from gosched.agent.tasks.spool import Spool
from gosched.core.orders import TaskOrder
from gosched.core.spec.task_group import Runtime
from tests.integration.containers import needs

USER = Account(uid=65534, gid=65534, name="nobody")
ROUNDS = 300
LIMIT_S = 60.0

# Puts a link in the place of each directory in its own, and the directory back, as fast as it can. It stands there
# itself, so it finds its way whatever the directory is called by now.
SWAP = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.chdir(sys.argv[1])
print("ready", flush=True)
while True:
    for name in sys.argv[3:]:
        try:
            os.rename(name, name + "~")
            os.symlink(sys.argv[2], name)
        except OSError:
            pass
        try:
            os.unlink(name)
            os.rename(name + "~", name)
        except OSError:
            pass
"""


@pytest.fixture
def ground() -> Iterator[Path]:
    """Where every user may pass through."""
    needs()
    with tempfile.TemporaryDirectory(prefix="gosched-files-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def victim(ground: Path) -> Path:
    """Root's own, with something in it."""
    path = ground / "victim"
    (path / "inner").mkdir(parents=True)
    path.chmod(0o700)
    (path / "inner" / "file").write_text("precious")
    (path / "file").write_text("precious")
    return path


def assert_untouched(victim: Path) -> None:
    seen = victim.stat()
    assert (seen.st_uid, stat.S_IMODE(seen.st_mode)) == (0, 0o700)
    assert sorted(path.name for path in victim.rglob("*")) == ["file", "file", "inner"]


@contextmanager
def attacker(script: str, *words: str | Path) -> Iterator[subprocess.Popen[str]]:
    words = tuple(map(str, words))
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", script, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def users_directory(path: Path, *names: str) -> Path:
    """A task's working directory with directories of its user in it."""
    for each in (path, *[path / name for name in names]):
        each.mkdir()
        os.chown(each, USER.uid, USER.gid)
    return path


def test_a_user_who_swaps_directories_for_links_makes_root_remove_nothing_else(ground: Path, victim: Path) -> None:
    names = [f"d{number}" for number in range(40)]
    ends = time.monotonic() + LIMIT_S
    for number in range(ROUNDS):
        spool = ground / f"task-{number}"
        spool.mkdir(mode=0o711)
        work = users_directory(spool / "work", *names)
        with attacker(SWAP, work, victim, *names[:4]):
            remove_tree(spool)
        assert_untouched(victim)
        if time.monotonic() > ends:
            break
    assert not list(ground.glob("task-*"))


# Puts a link where Spark's own directory will be, in each working directory as soon as there is one.
FORESTALL = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print("ready", flush=True)
number = 0
while True:
    try:
        os.symlink(sys.argv[2], f"{sys.argv[1]}/task-{number}/work/spark")
    except FileExistsError:
        number += 1
    except OSError:
        pass
    else:
        number += 1
"""


def test_a_user_who_forestalls_spark_with_a_link_becomes_owner_of_nothing(
    ground: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = ground / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "bin").mkdir()
    for name in ("spark-class", "spark-submit", "java"):
        (home / "bin" / name).write_text("#!/bin/sh\n")
        (home / "bin" / name).chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    forestalled = 0
    with attacker(FORESTALL, ground, victim):
        for number in range(ROUNDS):
            spool = Spool(ground / f"task-{number}")
            spool.path.mkdir(mode=0o700)
            place = Place(path=spool.path, work=spool.prepare(USER), cgroup=None, account=USER)
            order = TaskOrder(allocation_id="j/w/0.1", task_id="j/w/0", job_id="j", runtime=Runtime.SPARK)
            with contextlib.suppress(CannotRun):
                Spark(str(home)).launch(order, place, {})
            forestalled += (place.work / "spark").is_symlink()
            assert_untouched(victim)
    assert forestalled, "the attacker was never first: this shows nothing"


def test_the_size_of_a_directory_is_its_own_whatever_its_user_links_meanwhile(ground: Path, victim: Path) -> None:
    """Root would see into what is closed to the user, and stop the task for what is not its own."""
    (victim / "inner" / "big").write_bytes(bytes(8 << 20))
    work = users_directory(ground / "work", *[f"d{number}" for number in range(20)])
    with attacker(SWAP, work, victim / "inner", *[f"d{number}" for number in range(4)]):
        sizes = [measure(work, 1 << 40).held_bytes for _ in range(2000)]
    assert max(sizes) < 4 << 20
