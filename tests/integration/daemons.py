"""Docker's and podman's daemons of the tests' own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker

from tests.integration.containers import needs, tar_of
from tests.integration.support import PATIENCE_S, until

_CAP_SYS_RESOURCE = 24
_RUNC_WITHOUT = """#!/bin/sh
for word; do
    case $before in --bundle) spec=$word/config.json ;; --process) spec=$word ;; esac
    before=$word
done
[ -z "$spec" ] || sed -i 's/"CAP_SYS_RESOURCE",//g' "$spec"
exec runc "$@"
"""
# PR_SET_PDEATHSIG, SIGTERM
_END_WITH_PARENT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"


@contextlib.contextmanager
def docker_daemon(base: Path, *, network: str = "") -> Iterator[str]:
    """A daemon of its own; yields its address. `base` is short: a socket's path has a limit. `network`: the namespace
    in which it makes bridges and publishes ports; without one its containers have this machine's network or none."""
    needs("dockerd", "containerd", "runc")
    address = f"unix://{base}/docker.sock"
    (base / "daemon.json").write_text(json.dumps(_runtime(base)))  # this machine's own may not suit
    words = ["dockerd", "--host", address, "--group", "root"]
    words = (
        ["nsenter", f"--net=/run/netns/{network}", *words] if network else [*words, "--iptables=false", "--bridge=none"]
    )
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


def _runtime(base: Path) -> dict[str, object]:
    """Return the settings of runc for privileged containers: they get all capabilities, and this machine's root may
    have fewer."""
    bounds = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapBnd"))
    if int(bounds.split()[1], 16) >> _CAP_SYS_RESOURCE & 1:
        return {}
    (base / "runc").write_text(_RUNC_WITHOUT)
    (base / "runc").chmod(0o755)
    return {"runtimes": {"fewer": {"path": str(base / "runc")}}, "default-runtime": "fewer"}


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
