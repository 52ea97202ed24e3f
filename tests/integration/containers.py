"""What the tests of containers share: a small root filesystem, and a supervisor's part: a Launch from its start to what
is left of it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import docker

from gosched.agent.cgroups import files as cgroup_files
from gosched.agent.runtimes.docker import Docker
from gosched.agent.runtimes.environment import environment
from gosched.agent.runtimes.inside import AllowedPaths
from gosched.agent.runtimes.interface import Place, TaskRuntime
from gosched.agent.supervisor.launch import Account, Launch
from gosched.cli.local_cluster import LocalCluster
from gosched.config.agent_settings import Registry
from gosched.core.orders import TaskOrder
from gosched.core.resources import ZERO, Resources
from gosched.core.spec.isolation import PLAIN, Isolation
from gosched.core.spec.task_group import Runtime
from tests.integration.support import PATIENCE_S, goschedctl, until

_APPLETS = (
    "sh cat chmod chroot cp dd echo env false grep hostname id ip kill ln ls mkdir mkfifo mknod mount ps rm sleep stat "
    "stty touch true tty umount uname unshare wc yes"
)

# The supervisor's part before it starts the command, and what it says where it cannot.
_BIND_AND_RUN = """
import json, os, sys
from types import SimpleNamespace
from gosched.agent.supervisor import binding, launch, launching, records
at = [""]
try:
    binding.bind_all(launch.launch_of(json.loads(sys.argv[1])).binds, at)
except OSError as error:
    why = launching.explain(SimpleNamespace(command=sys.argv[2:]), at[0], error.errno or 0, str(error))
    os.chdir("..")
    records.write(records.RESULT, {"reason": why.reason, "detail": why.detail, "blames_node": why.blames_node})
    sys.exit(why.exit_code)
os.execvp(sys.argv[2], sys.argv[2:])
"""

EVERYWHERE = AllowedPaths(volumes=("/",), images=("/",))
NOBODY = Account(uid=65534, gid=65534, groups=(4,), name="nobody")

UNIFIED = next(
    (p for p in map(Path, ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")) if (p / "cgroup.procs").exists()), None
)


def needs(*programs: str) -> None:
    missing = [name for name in programs if shutil.which(name) is None]
    assert not missing, f"install {', '.join(missing)} (Debian: apt-get install crun runc docker.io busybox-static)"
    assert os.geteuid() == 0, "these tests need root"


def make_rootfs(path: Path) -> Path:
    """A root filesystem of one program that is many."""
    needs("busybox")
    busybox = shutil.which("busybox")
    assert busybox is not None
    for name in ("bin", "etc", "tmp", "data"):
        (path / name).mkdir(parents=True)
    (path / "tmp").chmod(0o1777)
    shutil.copy(busybox, path / "bin" / "busybox")
    for name in _APPLETS.split():
        (path / "bin" / name).symlink_to("/bin/busybox")
    (path / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (path / "etc" / "not-executable").write_text("data")
    for name, content in (("no-program", "data"), ("script", "#!/bin/no-such-interpreter -x\n")):
        (path / "etc" / name).write_text(content)
        (path / "etc" / name).chmod(0o755)
    return path


def tar_of(rootfs: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:gz" if archive.suffix == ".gz" else "w") as tar:
        tar.add(rootfs, arcname=".")
    return archive


def order(
    *command: str,
    runtime: Runtime,
    image: str,
    number: int = 0,
    env: dict[str, str] | None = None,
    isolation: Isolation = PLAIN,
    resources: Resources = ZERO,
    working_dir: str = "",
    gpus: tuple[int, ...] = (),
    cpus: str = "",
) -> TaskOrder:
    task_id = f"j1/worker/{number}"
    return TaskOrder(
        allocation_id=f"{task_id}.1",
        task_id=task_id,
        job_id="j1",
        runtime=runtime,
        image=image,
        command=command,
        env=tuple(sorted((env or {}).items())),
        isolation=isolation,
        resources=resources,
        working_dir=working_dir,
        gpus=gpus,
        cpus=cpus,
    )


@dataclass
class Running:
    """A launched task, and what a supervisor does to it."""

    launch: Launch
    place: Place
    process: subprocess.Popen[bytes]
    ended: bool = False

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        if self.place.cgroup is not None:
            (self.place.cgroup / "cgroup.kill").write_text("1")
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)

    def result(self) -> dict[str, Any]:
        """What its runtime said of its end; empty: nothing."""
        file = self.place.path / "result.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def stdout(self) -> str:
        return (self.place.path / "stdout").read_text()

    def await_output(self, text: str) -> None:
        """Waits until it has written so."""

        def written() -> bool:
            has_ended = self.process.poll() is not None
            if text in self.stdout():
                return True
            assert not has_ended, f"it has ended without {text!r}: {(self.place.path / 'stderr').read_text()}"
            return False

        until(written, f"it writes {text!r}")

    def pids(self) -> list[int]:
        """All in its cgroup and below."""
        assert self.place.cgroup is not None
        found: list[int] = []
        for folder, _, _ in os.walk(self.place.cgroup):
            # One that has threads below it lists their processes itself; those below cannot be read.
            with contextlib.suppress(OSError):
                found += [int(pid) for pid in Path(folder, "cgroup.procs").read_text().split()]
        return found

    def beside(self, *words: str, flags: tuple[str, ...] = ()) -> list[str]:
        """The words that run a command beside it."""
        *program, container = self.launch.exec
        return [*program, *flags, container, *words]

    def end(self, timeout_s: float = PATIENCE_S) -> tuple[int, str, str]:
        """Waits for it. Exit code (128 + n for a signal), stdout and stderr; nothing of the task is left afterwards."""
        code = self.process.wait(timeout_s)
        self.ended = True
        for words in self.launch.cleanup:
            done = subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=False)
            assert done.returncode == 0, (words, done.stderr)
        if self.place.cgroup is not None:
            assert cgroup_files.remove(self.place.cgroup, PATIENCE_S), f"processes stay: {self.pids()}"
        text = [(self.place.path / name).read_text(errors="replace") for name in ("stdout", "stderr")]
        return (code if code >= 0 else 128 - code), text[0], text[1]


def make_place(base: Path, order: TaskOrder, *, account: Account | None = None, cgroup: bool = True) -> Place:
    path = base / "tasks" / order.allocation_id.replace("/", "%2F")
    (path / "work").mkdir(parents=True)
    if account is not None:
        os.chown(path / "work", account.uid, account.gid)
    leaf = None
    if cgroup:
        assert UNIFIED is not None, "there is no cgroup v2 here"
        # By a name that no other test has, of this run or of one that was killed: directories have the same in all.
        leaf = UNIFIED / f"container-test-{secrets.token_hex(4)}-{path.name}"
        leaf.mkdir()
    return Place(path=path, work=path / "work", cgroup=leaf, account=account)


def start(runtime: TaskRuntime, order: TaskOrder, place: Place) -> Running:
    env = environment(order, place.account, str(place.work / ".gosched-checkpoint"))
    launch = runtime.launch(order, place, env)
    words = launch.command
    if launch.binds:
        words = (sys.executable, "-c", _BIND_AND_RUN, json.dumps(asdict(launch)), *words)
    if launch.cgroup:
        # By a shell: this process has threads, among which no Python code should run between fork and exec.
        words = ("/bin/sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', launch.cgroup, *words)
    with (place.path / "stdout").open("wb") as out, (place.path / "stderr").open("wb") as err:
        process = subprocess.Popen(
            words,
            env=launch.env,
            cwd=launch.cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    return Running(launch=launch, place=place, process=process)


class Node:
    """Tasks of one runtime, each with a number of its own. `image`: of those that name none."""

    def __init__(self, base: Path, runtime: TaskRuntime, kind: Runtime, image: Path | str) -> None:
        self.base = base
        self.runtime = runtime
        self.kind = kind
        self.image = str(image)
        self.started: list[Running] = []
        self.ordered = 0

    def order(self, *command: str, image: Path | str = "", **more: object) -> TaskOrder:
        self.ordered += 1
        number = self.ordered - 1
        return order(*command, runtime=self.kind, image=str(image or self.image), number=number, **more)  # type: ignore[arg-type]

    def start(self, *command: str, account: Account | None = None, **more: object) -> Running:
        wanted = self.order(*command, **more)  # type: ignore[arg-type]
        running = start(self.runtime, wanted, make_place(self.base, wanted, account=account))
        self.started.append(running)
        return running

    def run(self, *command: str, account: Account | None = None, **more: object) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        return self.start(*command, account=account, **more).end()

    def result(self) -> dict[str, Any]:
        """Of the task that was started last."""
        return self.started[-1].result()

    def close(self) -> None:
        for running in self.started:
            if not running.ended:
                running.kill()
                running.end()


class DockerNode(Node):
    def __init__(self, base: Path, address: str, registries: Mapping[str, Registry] | None = None) -> None:
        super().__init__(
            base, Docker(address, registries or {}, pids_max=4096, paths=EVERYWHERE), Runtime.DOCKER, "busy"
        )
        self.address = address
        self.client = docker.APIClient(base_url=address, version="auto", timeout=PATIENCE_S)

    def containers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.containers(all=True)
        return found

    def close(self) -> None:
        super().close()
        assert self.containers() == [], "nothing is left"
        self.client.close()


def exec_once_adopted(cluster: LocalCluster, job: str, line: str) -> list[str]:
    """What a shell beside the job's task writes, line by line, once an agent that came back has taken the task up."""
    said: list[str] = []

    def ran() -> bool:
        done = goschedctl(cluster.endpoints, "exec", job, "--", "sh", "-c", line)
        said[:] = done.stdout.splitlines()
        return done.returncode == 0

    until(ran, "it is adopted")
    return said
