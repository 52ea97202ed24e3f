"""What the tests of hostile tasks share: an agent as root has it, or as a person on a laptop, and what is left behind.

Needs root, cgroup v2 (on a hybrid host without controllers, too), setpriv, crun and busybox.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import yaml

from gosched.wire.v1 import types_pb2, worker_pb2
from tests.agent.conftest import AGENT, NAMES, Agent, FakeMaster, wait_for
from tests.integration.containers import UNIFIED
from tests.integration.support import PATIENCE_S

LAPTOP_UID = 65534
USERS = {"allowed": ["daemon", "games"], "own": False}
SETTINGS: dict[str, object] = {
    "users": USERS,
    "heartbeat": "200ms",
    "keep_finished": "100ms",
    "log_max": "1Mi",
    "log_files": 2,
    "docker_host": "unix:///nowhere/docker.sock",
}


class Node:
    """One agent, its master, and every allocation that it was ordered to run. `laptop`: nobody's agent, not root's."""

    def __init__(self, base: Path, name: str, *, laptop: bool = False, **settings: object) -> None:
        self.master = FakeMaster()
        self.master.serve()
        self.base = base
        self.laptop = laptop
        self.ordered: list[str] = []
        self.mark = secrets.token_hex(3)  # the same tests may run twice on a machine
        self.numbers = count()
        config = base / f"{name}.yaml"
        config.write_text(yaml.safe_dump({**SETTINGS, **settings}))
        data = base / name
        if laptop:
            data.mkdir(exist_ok=True)
            os.chown(data, LAPTOP_UID, LAPTOP_UID)
        kind = LaptopAgent if laptop else Agent
        self.agent = kind(data, self.master.address, f"--config={config}", "--resources=cpu=4,memory=4Gi")

    def start(self) -> Node:
        self.agent.start(self.master)
        return self

    def close(self) -> None:
        if self.agent.process is not None and self.agent.process.poll() is None:
            self.agent.end(signal.SIGTERM)
        self.master.vanish()
        for allocation_id in self.ordered:  # of a test that failed
            for pid, _ in _processes(allocation_id.encode(), bytes(self.agent.spool(allocation_id))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not self.tree(), why=f"left over: {self.tree()}")

    # Orders

    def order(self, name: str, *command: str, **more: Any) -> Any:
        """`more`: fields of the order, or of its isolation."""
        fields = {key: more.pop(key) for key in ("env", "working_dir", "image") if key in more}
        runtime = types_pb2.Runtime.Value(f"RUNTIME_{more.pop('runtime', 'process').upper()}")
        task_id = f"{name}-{self.mark}-{next(self.numbers)}/main/0"
        return worker_pb2.TaskOrder(
            allocation_id=f"{task_id}.1",
            task_id=task_id,
            job_id=task_id.partition("/")[0],
            runtime=runtime,
            command=command,
            isolation=types_pb2.Isolation(**more),
            **fields,
        )

    def run(self, name: str, *command: str, **more: Any) -> str:
        """Orders it; returns its allocation id. One word alone is a line for the shell."""
        words = command if len(command) > 1 else ("/bin/sh", "-c", *command)
        return self.send(self.order(name, *words, **more))

    def send(self, order: Any) -> str:
        self.ordered.append(order.allocation_id)
        self.agent.run(order)
        return str(order.allocation_id)

    def await_running(self, allocation_id: str) -> None:
        self.master.await_state(allocation_id, "RUNNING")

    def end_of(self, allocation_id: str) -> Any:
        return self.master.await_state(allocation_id, "SUCCEEDED", "FAILED", "KILLED", "LOST", limit_s=PATIENCE_S)

    def outcome(self, allocation_id: str) -> tuple[str, int | None, str]:
        end = self.end_of(allocation_id)
        return NAMES[end.state], (end.exit_code if end.HasField("exit_code") else None), end.reason

    def stdout(self, allocation_id: str) -> str:
        return self.agent.stdout(allocation_id).decode(errors="replace")

    def said(self, allocation_id: str, text: bytes) -> None:
        """Waits until it has said so."""
        wait_for(lambda: text in b"".join(c.data for c in self.agent.logs(allocation_id, follow=False)), why=str(text))

    # Processes and cgroups

    def supervisor(self, allocation_id: str) -> psutil.Process:
        """Of a task that runs."""
        record = wait_for(lambda: self.record(allocation_id, "supervisor.json"))
        return psutil.Process(record["pid"])

    def main_process(self, allocation_id: str) -> psutil.Process:
        record = wait_for(lambda: self.record(allocation_id, "task.json"))
        return psutil.Process(record["pid"])

    def nursery(self) -> psutil.Process:
        """That is there since the first task."""
        assert self.agent.process is not None
        children = psutil.Process(self.agent.process.pid).children()
        (found,) = [
            child
            for child in children
            if child.status() != psutil.STATUS_ZOMBIE and any("nursery" in word for word in child.cmdline())
        ]
        return found

    def record(self, allocation_id: str, name: str) -> Any:
        path = self.agent.spool(allocation_id) / name
        return yaml.safe_load(path.read_text()) if path.exists() else None

    def tree(self) -> list[Path]:
        """This agent's cgroups, from the top of its tree."""
        assert UNIFIED is not None, "there is no cgroup v2 here"
        if self.agent.identity is None:
            return []
        return [path for path in [UNIFIED / self.agent.cgroup] if path.exists()]

    def cgroup(self, allocation_id: str) -> Path:
        (tree,) = self.tree()
        return tree / "tasks" / allocation_id.replace("/", "%2F")

    # What is left

    def traces(self, allocation_id: str) -> list[str]:
        """Of a task, beside its record: processes, cgroups, mounts."""
        spool = str(self.agent.spool(allocation_id))
        found = [f"process {pid} {name}" for pid, name in _processes(allocation_id.encode(), spool.encode())]
        found += [f"cgroup {path}" for tree in self.tree() for path in tree.glob(f"tasks/{Path(spool).name}")]
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        return found + [f"mount {line}" for line in mounts if spool in line]

    def end_test(self) -> None:
        try:
            self.assert_nothing_left()
        except BaseException:  # the next test has a clean start
            for allocation_id in self.ordered:
                self.agent.stop(allocation_id, 0)
            self.master.forget += self.ordered
            self.ordered.clear()
            raise

    def assert_nothing_left(self) -> None:
        """Of all that was ordered so far; the masters forget it, and the agent cleans up."""
        for allocation_id in self.ordered:
            self.end_of(allocation_id)
            left = self.traces(allocation_id)
            assert left == [], left
        self.master.forget += self.ordered
        kept = [self.agent.data_dir / "tasks", self.agent.data_dir / "trash"]
        try:
            wait_for(lambda: not any(os.listdir(path) for path in kept), limit_s=PATIENCE_S)
        except AssertionError:
            left = [str(file) for path in kept for file in path.rglob("*")][:50]
            raise AssertionError(f"left over: {left}; its agent says: {self.agent.lines[-30:]}") from None
        self.ordered.clear()
        assert self.agent.process is not None
        assert self.agent.process.poll() is None, self.agent.lines
        bad = [line for line in self.agent.lines if '"level": "error"' in line or "Traceback" in line]
        assert not bad, bad


class LaptopAgent(Agent):
    """Of a person who is not root; `nobody`'s here."""

    def launch(self) -> None:
        flags = [f"--master={self.masters}", f"--data-dir={self.data_dir}", *self.flags]
        flags += ["--config", str(self._config())]
        become = ["setpriv", f"--reuid={LAPTOP_UID}", f"--regid={LAPTOP_UID}", "--clear-groups", "--", str(AGENT)]
        view = self.data_dir.with_suffix(".view")
        view.mkdir(exist_ok=True)
        words = ["unshare", "--mount", "sh", "-ec", "\n".join([*_openings(view), 'exec "$@"']), "sh"]
        self.process = subprocess.Popen([*words, *become, *flags], stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True)
        self.reader.start()


def _openings(view: Path) -> list[str]:
    """Shell lines that let anybody reach the program, in a view of its own, where it lies in somebody's closed home."""
    closed: dict[Path, list[Path]] = {}
    for needed in map(Path, (sys.base_prefix, sys.prefix, Path(__file__).parents[2])):
        shut = [parent for parent in needed.parents if not parent.stat().st_mode & stat.S_IXOTH]
        if shut:
            closed.setdefault(shut[-1], []).append(needed)
    lines = []
    for home, needs in closed.items():
        lines.append(f"mount -t tmpfs -o mode=755 view {view}")
        for needed in needs:
            place = view / needed.relative_to(home)
            lines.append(f"mkdir -p {place}; mount --bind {needed} {place}")
        lines.append(f"mount --rbind {view} {home}")
    return lines


def kill_all_below(base: Path) -> None:
    """What a failed test left."""
    for process in psutil.process_iter():
        entry = Path(f"/proc/{process.pid}")
        with contextlib.suppress(OSError, psutil.Error):
            words = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            if bytes(base) in words + os.fsencode(os.readlink(entry / "cwd")):
                process.kill()


def _processes(allocation_id: bytes, place: bytes) -> Iterator[tuple[int, str]]:
    """Those that carry the allocation's id in their environment, have its id for an argument, or stand in the place."""
    mark = b"GOSCHED_ALLOCATION_ID=" + allocation_id
    for process in psutil.process_iter():
        entry = Path(f"/proc/{process.pid}")
        try:
            words = (entry / "environ").read_bytes().split(b"\0")
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            if arguments == [b""]:  # what is about to become a zombie has no memory, but a directory still
                continue
            if mark in words or allocation_id in arguments or os.readlink(entry / "cwd").encode().startswith(place):
                yield process.pid, process.name()
        except (OSError, psutil.Error):
            continue
