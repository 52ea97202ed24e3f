"""The images of this checkout as one archive, and a Docker daemon that has them in a network namespace of its own.

What a test calls "the host" is that namespace: published ports are on its loopback, and its rules of iptables are not
this machine's.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.integration.containers import needs
from tests.integration.daemons import docker_daemon
from tests.integration.support import PATIENCE_S

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gosched"
DOCKER = "/usr/bin/docker"  # Debian's, which builds with BuildKit by itself
IMAGES = ("gosched-master:dev", "gosched-agent:dev", "goschedctl:dev", "gosched-kube:dev")
BUILD_S = 500
ARCHIVES_KEPT = 2
LAYERS_KEPT = "3GB"  # of the builder, from run to run: most of an image changes with the locks alone
# What the images are made from; .dockerignore keeps all else from them.
SOURCES = (
    "Dockerfile", ".dockerignore", "LICENSE", "README.md", "deploy/docker", "gosched", "pyproject.toml", "requirements",
    "requirements.lock", "tools/image_base.sh", "tools/image_root.py",
)  # fmt: skip


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
        done = self.try_goschedctl(*words, endpoints=endpoints)
        assert done.returncode == 0, f"goschedctl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def try_goschedctl(self, *words: str, endpoints: str) -> subprocess.CompletedProcess[str]:
        program = str(Path(sys.executable).with_name("goschedctl"))
        return self.run(program, *words, timeout_s=2 * PATIENCE_S, GOSCHED_ENDPOINTS=endpoints)

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
    needs("dockerd", "containerd", "runc", "iptables", "ip", "nsenter")
    network = f"gosched-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", network], check=True)
    try:
        subprocess.run(["ip", "-n", network, "link", "set", "lo", "up"], check=True)
        with docker_daemon(base, network=network) as address:
            host = DockerHost(address=address, network=network, base=base)
            with image_archive() as archive:
                host.docker("load", "--quiet", "--input", str(archive))
            yield host
    finally:
        subprocess.run(["ip", "netns", "del", network], check=True)


@contextlib.contextmanager
def image_archive() -> Iterator[Path]:
    """Yield a `docker save` of the images; built unless there is one that was made from the same sources. It stays at
    least as long as this context: whoever builds others waits."""
    with builder() as make:
        archive = CACHE / f"image-archive-{_digest()}.tar"
        if not archive.exists():
            for old in sorted(CACHE.glob("image-archive-*.tar"), key=os.path.getmtime)[:-ARCHIVES_KEPT]:
                old.unlink()
            began = time.monotonic()
            make.images()
            make.docker("save", "--output", str(archive.with_suffix(".part")), *IMAGES)
            archive.with_suffix(".part").rename(archive)
            print(f"the images were built in {time.monotonic() - began:.0f} s")
        yield archive


class Builder:
    """Builds images with a daemon of this machine's network, since packages are fetched."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._address = ""
        self._running = contextlib.ExitStack()

    @property
    def base(self) -> str:
        return f"gosched-base:{self._base_tar().stem.rpartition('-')[2]}"

    def images(self) -> None:
        if not self.docker("images", "--quiet", self.base):
            trusted = "ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt"
            self.docker("import", "-c", trusted, str(self._base_tar()), self.base)
        self._run("make", "docker", f"BASE={self.base}", f"DOCKER={DOCKER}", "DOCKER_BUILD_FLAGS=--network=host")

    def docker(self, *words: str) -> str:
        """Return what it writes. The daemon is started for the first call."""
        if not self._address:
            self._address = self._running.enter_context(docker_daemon(self._folder))
        return self._run(DOCKER, *words)

    def close(self) -> None:
        if self._address:
            self.docker("image", "prune", "--force")
            self.docker("builder", "prune", "--force", "--keep-storage", LAYERS_KEPT)
        self._running.close()

    def _base_tar(self) -> Path:
        return Path(self._run(str(ROOT / "tools/image_base.sh")))

    def _run(self, *words: str) -> str:
        env = {"DOCKER_HOST": self._address, "DOCKER_BUILDKIT": "1", "BUILDKIT_PROGRESS": "plain"}
        done = subprocess.run(
            words, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
        assert done.returncode == 0, f"{' '.join(words)}: {(done.stdout + done.stderr)[-3000:]}"
        return done.stdout.strip()


@contextlib.contextmanager
def builder() -> Iterator[Builder]:
    """One at a time has it on this machine."""
    folder = CACHE / "image-builder"
    folder.mkdir(parents=True, exist_ok=True)
    with (CACHE / "image-builder.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.closing(Builder(folder)) as make:
            yield make


def compose() -> str:
    """Return the path of Docker's compose plugin, which is built first where it has to be."""
    done = subprocess.run([ROOT / "tools/docker_compose.sh"], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _digest() -> str:
    digest = hashlib.sha256()
    for source in SOURCES:
        path = ROOT / source
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]
