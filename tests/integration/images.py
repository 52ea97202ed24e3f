"""The images as `make docker` builds them, in a Docker daemon whose network is a namespace of its own.

What a test calls "the host" is that namespace: published ports are on its loopback, and its rules of iptables are not
this machine's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.integration.containers import needs
from tests.integration.daemons import docker_daemon
from tests.integration.support import PATIENCE_S

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gosched"
BUILD_S = 360
LAYERS_KEPT = "3GB"  # between two runs
DOCKER = "/usr/bin/docker"  # Debian's, which builds with BuildKit by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerHost:
    """`address`: of the daemon. `network`: the namespace that is its host's. `base`: a directory that both see."""

    address: str
    network: str
    base: Path

    def docker(self, *words: str, timeout_s: float = PATIENCE_S) -> str:
        """Return what it writes."""
        done = self.try_docker(*words, timeout_s=timeout_s)
        assert done.returncode == 0, f"docker {' '.join(words)}: {done.stderr}"
        return done.stdout.strip()

    def try_docker(self, *words: str, timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        return self.run(DOCKER, *words, timeout_s=timeout_s)

    def run(self, *words: str, timeout_s: float = PATIENCE_S, **env: str) -> subprocess.CompletedProcess[str]:
        """A program on the host."""
        return subprocess.run(
            ["nsenter", f"--net=/run/netns/{self.network}", *words],
            env={**os.environ, "DOCKER_HOST": self.address, "DOCKER_BUILDKIT": "1", "NO_COLOR": "1", **env},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=ROOT,
        )

    def goschedctl(self, *words: str, endpoints: str = "127.0.0.1:9090") -> str:
        """Return what it writes; as a user of the host runs it."""
        program = str(Path(sys.executable).with_name("goschedctl"))
        done = self.run(program, *words, timeout_s=2 * PATIENCE_S, GOSCHED_ENDPOINTS=endpoints)
        assert done.returncode == 0, f"goschedctl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def address_of(self, container: str) -> str:
        return self.docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container)

    def logs(self, container: str) -> str:
        done = self.try_docker("logs", container)
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def container(self, *words: str) -> Iterator[str]:
        """`docker run -d` with these words; removed at the end, and its log shown if the test failed."""
        name = self.docker("run", "-d", *words)
        try:
            yield name
        except BaseException:
            print(self.logs(name)[-3000:])
            raise
        finally:
            self.docker("rm", "--force", "--volumes", name)


@contextlib.contextmanager
def docker_host(base: Path) -> Iterator[DockerHost]:
    """With the images built. Layers are kept for the next run: most of an image changes with the locks alone."""
    needs("dockerd", "containerd", "runc", "mmdebstrap", "iptables", "ip", "nsenter")
    network = f"gosched-{os.getpid()}"
    with _layers(base) as data_root:
        with docker_daemon(base, data_root=data_root) as address:  # with this machine's network: packages are fetched
            _build(address)
        subprocess.run(["ip", "netns", "add", network], check=True)
        try:
            subprocess.run(["ip", "-n", network, "link", "set", "lo", "up"], check=True)
            with docker_daemon(base, data_root=data_root, network=network) as address:
                host = DockerHost(address=address, network=network, base=base)
                try:
                    yield host
                finally:
                    host.docker("image", "prune", "--force")
                    host.docker("builder", "prune", "--force", "--keep-storage", LAYERS_KEPT)
        finally:
            subprocess.run(["ip", "netns", "del", network], check=True)


def compose() -> str:
    """Return the path of Docker's compose plugin, which is built first where it has to be."""
    done = subprocess.run([ROOT / "tools/docker_compose.sh"], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _build(address: str) -> None:
    base = subprocess.run([ROOT / "tools/image_base.sh"], capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert base.returncode == 0, base.stderr
    tar = base.stdout.strip()
    tag = f"gosched-base:{Path(tar).stem.rpartition('-')[2]}"
    env = {**os.environ, "DOCKER_HOST": address, "DOCKER_BUILDKIT": "1", "BUILDKIT_PROGRESS": "plain"}
    if subprocess.run([DOCKER, "image", "inspect", tag], env=env, capture_output=True, check=False).returncode:
        trusted = "ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt"
        subprocess.run([DOCKER, "import", "-c", trusted, tar, tag], env=env, check=True, timeout=BUILD_S)
    began = time.monotonic()
    words = ["make", "docker", f"BASE={tag}", f"DOCKER={DOCKER}", "DOCKER_BUILD_FLAGS=--network=host"]
    built = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert built.returncode == 0, (built.stdout + built.stderr)[-3000:]
    print(f"the images were built in {time.monotonic() - began:.0f} s")


@contextlib.contextmanager
def _layers(base: Path) -> Iterator[Path]:
    """Yield the data root that is kept between runs, or one of this run if another one has that."""
    kept = CACHE / "docker"
    kept.mkdir(parents=True, exist_ok=True)
    with (CACHE / "docker.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with tempfile.TemporaryDirectory(dir=base, ignore_cleanup_errors=True) as own:
                yield Path(own)
            return
        yield kept
