"""An S3 server for the tests of the archive: versitygw, built from its Go module once and kept outside the checkout.

Invariant: what is kept is named by its version, and complete.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSITYGW = "v1.8.0"
_MODULE = "github.com/versity/versitygw/cmd/versitygw"
_BUILD_LIMIT_S = 900


class S3ServerError(Exception):
    """One line for people: why there is no S3 server, and what to do."""


def s3_server() -> Path:
    """Return the program, built now if it is not there. Raises S3ServerError."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gosched"
    folder = cache / f"versitygw-{VERSITYGW}"
    if not folder.exists():
        if shutil.which("go") is None:
            raise S3ServerError(
                "there is no Go to build an S3 server with: install Go 1.24 or newer (https://go.dev/dl)"
            )
        cache.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=folder.name, dir=cache))
        try:
            _build(fresh)
            fresh.rename(folder)
        except OSError:  # the folder is not empty
            if not folder.exists():  # else another one was faster
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder / "versitygw"


def _build(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        environment = {
            **os.environ,
            "CGO_ENABLED": "0",
            "GOBIN": str(folder),
            "GOCACHE": f"{scratch}/build",
            "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip(),
            "GOMODCACHE": f"{scratch}/modules",
        }
        words = ("go", "install", "-trimpath", "-ldflags=-s -w", f"{_MODULE}@{VERSITYGW}")
        try:
            subprocess.run(words, check=True, timeout=_BUILD_LIMIT_S, env=environment, stdout=sys.stderr)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise S3ServerError(f"cannot build {_MODULE}@{VERSITYGW}: {error}") from error


if __name__ == "__main__":
    s3_server()
