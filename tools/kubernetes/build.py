"""Kubernetes, CoreDNS and Helm 3 and 4, built from their Go modules once and kept, by version, outside the checkout.

Invariant: a file under its final name is whole: it is built in a folder beside it, and renamed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

#: The one place that pins what is built. Helm 3 and 4 are tested side by side.
KUBERNETES = "v1.37.1"
COREDNS = "v1.15.0"
HELM3 = "v3.22.0"
HELM4 = "v4.3.1"

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gosched"
BUILD_LIMIT_S = 3600  # Kubernetes takes 15 minutes of two quick cores
DOWNLOAD_LIMIT_S = 600
FREE_BYTES = 24 << 30  # Go's caches of one build take 17 GB for as long as it runs
SOURCES = Path(__file__).parent / "kubeall"


class BuildError(Exception):
    """A tool that could not be built: one line that says why, and what to do."""


def tool(name: str) -> Path:
    """Return the program `name` (kubeall, coredns, helm3 or helm4), built now if it is not in the cache."""
    version, build = _TOOLS[name]
    path = CACHE / f"{name}-{version}"
    if path.exists():
        return path
    CACHE.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(), tempfile.TemporaryDirectory(prefix=f".{name}-", dir=CACHE) as scratch:
        if not path.exists():
            began = time.monotonic()
            print(f"{name} {version}: being built (minutes, once); it is kept as {path}", file=sys.stderr, flush=True)
            built = build(_Go(Path(scratch)))
            built.rename(path)
            print(f"{name} {version}: built in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return path


class _Go:
    """The go command with caches of its own in a scratch folder: they take 17 GB, and nothing else needs them."""

    def __init__(self, scratch: Path) -> None:
        go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
        if go is None:
            raise BuildError("there is no Go to build Kubernetes with: install Go 1.26 or newer (https://go.dev/dl)")
        free = shutil.disk_usage(scratch).free
        if free < FREE_BYTES:
            raise BuildError(
                f"{CACHE} has {free >> 30} GiB free, and a build needs {FREE_BYTES >> 30}: make room there"
            )
        self.go = go
        self.scratch = scratch

    def run(self, *words: str, cwd: Path | None = None, limit_s: int = BUILD_LIMIT_S) -> str:
        env = os.environ | {
            "CGO_ENABLED": "0",
            "GOPATH": str(self.scratch / "path"),
            "GOCACHE": str(self.scratch / "cache"),
            "GOBIN": str(self.scratch / "bin"),
            # Modules that are written read-only could not be removed without go.
            "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip(),
        }
        command = ["nice", "-n", "10", self.go, *words]
        try:
            done = subprocess.run(
                command, cwd=cwd or self.scratch, env=env, capture_output=True, text=True, timeout=limit_s
            )
        except subprocess.TimeoutExpired:
            raise BuildError(f"`go {' '.join(words[:3])}` had not ended after {limit_s} s: try again") from None
        if done.returncode:
            raise BuildError(f"`go {' '.join(words[:3])}` failed:\n{done.stderr[-2000:]}")
        return done.stdout

    def source(self, module: str, version: str) -> Path:
        told = self.run("mod", "download", "-json", f"{module}@{version}", limit_s=DOWNLOAD_LIMIT_S)
        return Path(json.loads(told)["Dir"])


def _kubeall(go: _Go) -> Path:
    """Build all of Kubernetes and etcd as one binary: its parts share most of their code."""
    source = go.source("k8s.io/kubernetes", KUBERNETES)
    module = go.scratch / "kubeall"
    module.mkdir()
    shutil.copy(SOURCES / "main.go", module)
    (module / "go.mod").write_text(module_file((source / "go.mod").read_text(), KUBERNETES))
    (module / "go.sum").write_text((source / "go.sum").read_text())
    go.run("mod", "tidy", "-e", cwd=module, limit_s=DOWNLOAD_LIMIT_S)
    base, minor = "k8s.io/component-base/version", KUBERNETES.split(".")[1]
    stamp = f"-X {base}.gitVersion={KUBERNETES} -X {base}.gitMajor=1 -X {base}.gitMinor={minor}"
    output = go.scratch / "kubeall.out"
    go.run("build", "-trimpath", "-ldflags", f"-s -w {stamp}", "-o", str(output), ".", cwd=module)
    return output


def module_file(theirs: str, version: str) -> str:
    """Return the go.mod of kubeall: what Kubernetes requires, each module of its staging folder as published."""
    published = "v0." + version.removeprefix("v1.")
    lines = ["module kubeall", ""]
    lines += re.findall(r"^(?:go|godebug) .*$", theirs, re.M)
    for block in re.findall(r"^require \(\n.*?^\)$", theirs, re.M | re.S):
        lines.append(re.sub(r"^(\tk8s\.io/[a-z-]+) v0\.0\.0$", rf"\1 {published}", block, flags=re.M))
    lines.append(f"require k8s.io/kubernetes {version}")
    staged = "".join(re.findall(r"^replace \(\n(.*?)^\)$", theirs, re.M | re.S))
    for name in re.findall(r"^\t(\S+) => ", staged, re.M):
        lines.append(f"replace {name} => {name} {published}")
    return "\n".join(lines) + "\n"


def _coredns(go: _Go) -> Path:
    return _installed(go, "github.com/coredns/coredns", COREDNS)


def _helm3(go: _Go) -> Path:
    return _installed(go, "helm.sh/helm/v3/cmd/helm", HELM3, f"-X helm.sh/helm/v3/internal/version.version={HELM3}")


def _helm4(go: _Go) -> Path:
    return _installed(go, "helm.sh/helm/v4/cmd/helm", HELM4, f"-X helm.sh/helm/v4/internal/version.version={HELM4}")


def _installed(go: _Go, package: str, version: str, stamp: str = "") -> Path:
    go.run("install", "-trimpath", "-ldflags", f"-s -w {stamp}", f"{package}@{version}")
    return go.scratch / "bin" / package.rsplit("/", 1)[-1]


_TOOLS: dict[str, tuple[str, Callable[[_Go], Path]]] = {
    "kubeall": (KUBERNETES, _kubeall),
    "coredns": (COREDNS, _coredns),
    "helm3": (HELM3, _helm3),
    "helm4": (HELM4, _helm4),
}
TOOLS = tuple(_TOOLS)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Let one process build: two would take the memory and the disk of both."""
    with (CACHE / ".building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        for each in sys.argv[1:] or TOOLS:
            print(tool(each))
    except BuildError as error:
        sys.exit(f"tools.kubernetes.build: {error}")
