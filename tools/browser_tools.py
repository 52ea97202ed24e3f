"""axe-core, which checks pages for accessibility, for the tests of the web page; kept outside the checkout.

Invariant: what is returned has the hash that is written here.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tools.chart_tools import cache

AXE = "axe-core@4.14.1"  # from the npm registry
AXE_SHA512 = (
    "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b73"
    "4f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5"
)
_INSTALL_LIMIT_S = 120


def axe_core() -> str:
    """Return axe-core's script, fetched now if it is not kept yet. Raises OSError or CalledProcessError."""
    package = cache() / f"{AXE.replace('@', '-')}.tgz"
    if not package.exists():
        _fetch(package)
    found = hashlib.sha512(package.read_bytes()).hexdigest()
    if found != AXE_SHA512:
        raise OSError(f"{package} is not {AXE}: its SHA-512 is {found}; remove it, and run this again")
    with tarfile.open(package) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None, "it is a file"
        return script.read().decode()


def _fetch(package: Path) -> None:
    package.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=package.parent) as scratch:
        words = ("npm", "pack", "--silent", "--pack-destination", scratch, AXE)
        subprocess.run(words, check=True, timeout=_INSTALL_LIMIT_S, cwd=scratch, stdout=sys.stderr)
        next(Path(scratch).glob("*.tgz")).rename(package)


if __name__ == "__main__":
    axe_core()
