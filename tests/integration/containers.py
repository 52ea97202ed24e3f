"""What the tests of containers share: a small root filesystem, a Docker daemon of their own, and a supervisor's part:
a Launch from its start to what is left of it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker

from gosched.agent.cgroups import files as cgroup_files
from gosched.agent.orders import Order
from gosched.agent.runtimes.environment import environment
from gosched.agent.runtimes.interface import Account, Launch, Place, TaskRuntime
from gosched.cli.local_cluster import LocalCluster
from gosched.core.resources import ZERO, Resources
from gosched.core.spec import PLAIN, Isolation, Runtime
from tests.integration.support import PATIENCE_S, goschedctl, until

_APPLETS = (
    "sh cat chmod chroot cp dd echo env false grep hostname id ip kill ln ls mkdir mkfifo mknod mount ps rm sleep stat "
    "stty touch true tty umount uname unshare wc yes"
)

# PR_SET_PDEATHSIG, SIGTERM
_END_WITH_PARENT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"

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
) -> Order:
    task_id = f"j1/worker/{number}"
    return Order(
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


def make_place(base: Path, order: Order, *, account: Account | None = None, cgroup: bool = True) -> Place:
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


def start(runtime: TaskRuntime, order: Order, place: Place) -> Running:
    env = environment(order, place.account, str(place.work / ".gosched-checkpoint"))
    launch = runtime.launch(order, place, env)
    words = launch.command
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


@contextlib.contextmanager
def docker_daemon(base: Path) -> Iterator[str]:
    """A daemon of its own; yields its address. `base` is short: a socket's path has a limit."""
    needs("dockerd", "containerd", "runc")
    address = f"unix://{base}/docker.sock"
    (base / "daemon.json").write_text("{}")  # this machine's own may not suit
    words = ["dockerd", "--iptables=false", "--bridge=none", "--host", address, "--group", "root"]
    for option, name in (
        ("config-file", "daemon.json"),
        ("data-root", "data"),
        ("exec-root", "exec"),
        ("pidfile", "pid"),
    ):
        words.append(f"--{option}={base / name}")
    with _service(words, base) as daemon:
        _await_socket(base / "docker.sock", daemon)
        yield address


@contextlib.contextmanager
def podman_service(base: Path) -> Iterator[str]:
    """Podman's socket, with storage of its own; yields its address. With runc: crun refuses hybrid hosts."""
    needs("podman", "runc")
    words = ["podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "file"]
    for option in ("root", "runroot", "tmpdir"):
        words += [f"--{option}", str(base / option)]
    # Root without CAP_SYS_RESOURCE cannot raise limits, as podman would by itself. Locks in files, below tmpdir: those
    # in memory all podmans of the machine share, and a new one frees them all.
    (base / "containers.conf").write_text(
        '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n[engine]\nlock_type = "file"\n'
    )
    words += ["--storage-driver", "vfs", "system", "service", "--time", "0", f"unix://{base}/podman.sock"]
    with _service(words, base, CONTAINERS_CONF=str(base / "containers.conf")) as service:
        _await_socket(base / "podman.sock", service)
        yield f"unix://{base}/podman.sock"


@contextlib.contextmanager
def _service(words: list[str], base: Path, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """It ends with these tests, however they end, and what it has mounted below `base` is unmounted."""
    with (base / "service.log").open("wb") as log:
        service = subprocess.Popen(
            [sys.executable, "-c", _END_WITH_PARENT, *words],
            env={**os.environ, **env},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield service
    except BaseException:
        print((base / "service.log").read_text(errors="replace")[-3000:])
        raise
    finally:
        service.terminate()
        try:
            service.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(service.pid, signal.SIGKILL)
            service.wait(PATIENCE_S)
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for mount in reversed(mounts):
            if Path(mount).is_relative_to(base):
                subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)


def _await_socket(path: Path, service: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        assert service.poll() is None, f"{path.name}: its daemon has ended"
        with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(OSError):
            line.settimeout(PATIENCE_S)
            line.connect(str(path))
            line.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b"OK" in line.recv(4096)
        return False

    until(answers, f"the daemon at {path} answers")


class Gate(socketserver.ThreadingUnixStreamServer):
    """A daemon's socket before the daemon's own. There one kind of request waits until the gate is `open`; or, with
    `together`, its answer, until that text is in it: then all of it comes at once."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, daemon: str, request: bytes, together: bytes = b"") -> None:
        self.daemon = daemon.removeprefix("unix://")
        self.request = request
        self.together = together
        self.seen = b""
        self.open = threading.Event()
        self.address = f"unix://{self.daemon}.gate"
        super().__init__(f"{self.daemon}.gate", socketserver.BaseRequestHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *error: object) -> None:
        self.open.set()
        self.shutdown()
        super().__exit__(*error)
        os.unlink(f"{self.daemon}.gate")

    def finish_request(self, request: Any, client_address: Any) -> None:
        held = threading.Event()
        with socket.socket(socket.AF_UNIX) as daemon:
            daemon.connect(self.daemon)
            answering = threading.Thread(target=self._answer, args=(daemon, request, held), daemon=True)
            answering.start()
            while data := request.recv(65536):
                self.seen += data
                if self.request in data and self.together:
                    held.set()
                elif self.request in data:
                    self.open.wait(PATIENCE_S)
                daemon.sendall(data)
            daemon.shutdown(socket.SHUT_WR)
            answering.join(PATIENCE_S)

    def _answer(self, daemon: socket.socket, caller: socket.socket, held: threading.Event) -> None:
        waiting = b""
        with contextlib.suppress(OSError):
            while data := daemon.recv(65536):
                waiting += data
                if not held.is_set() or self.together in waiting:
                    caller.sendall(waiting)
                    waiting = b""
                    held.clear()


def import_image(address: str, rootfs: Path, name: str) -> None:
    client = docker.APIClient(base_url=address, version="auto", timeout=PATIENCE_S)
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        tar_of(rootfs, Path(file.name))
        client.import_image_from_file(file.name, repository=name, tag="latest")
    client.close()


def exec_once_adopted(cluster: LocalCluster, job: str, line: str) -> list[str]:
    """What a shell beside the job's task writes, line by line, once an agent that came back has taken the task up."""
    said: list[str] = []

    def ran() -> bool:
        done = goschedctl(cluster.endpoints, "exec", job, "--", "sh", "-c", line)
        said[:] = done.stdout.splitlines()
        return done.returncode == 0

    until(ran, "it is adopted")
    return said
