"""Makes what goes into an image, in two layers.

    image_root.py base LOCK [--with-system]    to /image: an environment with the locked packages; with the system that
                                               Python runs on, for an image without a base
    image_root.py gosched [--config FILE]      to /gosched: gosched in that environment, and its config

Runs in the Dockerfile's first stages, which have the wheels. Invariant: the same wheels on the same base make the same
files, down to their times.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import py_compile
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

PREFIX = Path("/opt/gosched")
DATA = Path("/data")  # what becomes the user's that a master runs as
UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))

# Of the standard library: what no program of ours imports, and what would bring libraries along.
STDLIB_WITHOUT = (
    "__pycache__", "config-3*", "curses", "dbm", "dist-packages", "distutils", "ensurepip", "idlelib", "lib2to3",
    "msilib", "pydoc_data", "site-packages", "test", "tests", "tkinter", "turtle*", "xmlrpc", "*.a",
    "*_test*.so", "_curses*.so", "_dbm*.so", "_gdbm*.so", "nis*.so", "ossaudiodev*.so", "readline*.so",
    "xxlimited*.so",
)  # fmt: skip
# Of packages: their tests, what serves compilers and editors, and the lexers of languages that no output of ours is in.
PACKAGES_WITHOUT = (
    "tests", "*.a", "*.c", "*.h", "*.pxd", "*.pyi", "*.pyx", "numpy/f2py", "numpy/distutils", "numpy/_core/_simd*.so",
    "pygments/lexers/[!_]*", "pygments/lexers/_*_builtins.py", "pydantic/v1", "pycparser",
)  # fmt: skip
ZONES_WITHOUT = ("posix", "right")
SYSTEM_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/usr/share/zoneinfo")
LINKS = ("bin", "lib", "lib64")  # of a merged /usr
USERS = {
    "etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\ngosched:x:10001:10001::/var/lib/gosched:/sbin/nologin\n",
    "etc/group": "root:x:0:\ngosched:x:10001:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def main() -> None:
    words = argparse.ArgumentParser()
    layers = words.add_subparsers(dest="layer", required=True)
    base = layers.add_parser("base")
    base.add_argument("lock")
    base.add_argument("--with-system", action="store_true")
    layers.add_parser("gosched").add_argument("--config")
    asked = words.parse_args()
    if asked.layer == "base":
        make_base(Path("/image"), asked.lock, with_system=asked.with_system)
    else:
        make_gosched(Path("/gosched"), asked.config)


def make_base(root: Path, lock: str, *, with_system: bool) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(PREFIX)], check=True)
    # Without the hashes, which are of what was fetched: a wheel that was built from a source has another.
    pins = [line.removesuffix(" \\") for line in Path(lock).read_text().splitlines() if line[:1].isalnum()]
    Path("pins").write_text("\n".join(pins))
    install("/wheels", "--requirement", "pins")
    for pattern in PACKAGES_WITHOUT:
        for found in sorted(site_packages().glob(f"**/{pattern}")):
            shutil.rmtree(found) if found.is_dir() else found.unlink()
    compile_all(site_packages(), keep_source=False)
    for script in PREFIX.glob("bin/[!p]*"):  # but python
        script.unlink()
    shutil.copytree(PREFIX, below(root, PREFIX), symlinks=True)
    for place in (root / "var/lib/gosched", DATA / "gosched"):
        place.mkdir(parents=True)
    if with_system:
        copy_system(root)
    set_times(root)
    set_times(DATA)


def make_gosched(root: Path, config: str | None) -> None:
    before = set(site_packages().iterdir())
    install("/wheel", "gosched")
    compile_all(site_packages() / "gosched", keep_source=True)
    for new in (*(set(site_packages().iterdir()) - before), *PREFIX.glob("bin/gosched*")):
        place = below(root, new)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(new, place) if new.is_dir() else shutil.copy2(new, place)
    if config is not None:
        place = root / "etc/gosched" / config
        place.parent.mkdir(parents=True)
        shutil.copyfile(config, place)
    set_times(root)


def install(wheels: str, *what: str) -> None:
    """Into the environment at its final place: its scripts name it."""
    pip = ["/tools/bin/pip", "--python", str(PREFIX / "bin/python"), "install", "--quiet", "--no-deps", "--no-compile"]
    subprocess.run([*pip, "--no-index", "--find-links", wheels, *what], check=True)


def site_packages() -> Path:
    return next(PREFIX.glob("lib/python3.*/site-packages"))


def copy_system(root: Path) -> None:
    for name in LINKS:
        if Path("/", name).is_symlink():
            root.joinpath(name).symlink_to(os.readlink(f"/{name}"))
    for name, content in USERS.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    for name in SYSTEM_FILES:
        copy(root, Path(name))
    copy(root, Path(sys.base_prefix, "bin", Path(sys.executable).name))
    stdlib = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(stdlib, below(root, stdlib), symlinks=True, ignore=shutil.ignore_patterns(*STDLIB_WITHOUT))
    compile_all(below(root, stdlib), keep_source=False)
    for library in shared_libraries(root):
        copy(root, library)
    for name in ("tmp", "run"):
        root.joinpath(name).mkdir()
    root.joinpath("tmp").chmod(0o1777)


def shared_libraries(root: Path) -> list[Path]:
    """Return the libraries that what is below `root` loads, and the loader."""
    loading = [p for p in root.rglob("*") if p.is_file() and not p.is_symlink() and p.read_bytes()[:4] == b"\x7fELF"]
    said = subprocess.run(["ldd", *loading], check=True, capture_output=True, text=True).stdout
    words = {word for line in said.splitlines() if not line.endswith(":") for word in line.split()}
    if "found" in words:
        sys.exit("a library is missing:\n" + "\n".join(line for line in said.splitlines() if "not found" in line))
    return sorted(Path(word) for word in words if word.startswith("/") and not Path(word).is_relative_to(root))


def copy(root: Path, path: Path) -> None:
    """Copy a file or directory to its real place below `root`; of a link, also what it leads to."""
    path = Path(os.path.realpath(path.parent), path.name)
    place = below(root, path)
    if place.is_symlink() or place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        place.symlink_to(os.readlink(path))
        copy(root, Path(os.path.join(path.parent, os.readlink(path))))
    elif path.is_dir():
        shutil.copytree(path, place, symlinks=True, ignore=shutil.ignore_patterns(*ZONES_WITHOUT))
    else:
        shutil.copy2(path, place)


def compile_all(directory: Path, *, keep_source: bool) -> None:
    """Nothing can be written where the programs run. By hash, since times say nothing there. Sources of others go:
    they are a sixth of an image, and a traceback needs ours."""
    files = sorted(directory.rglob("*.py"))
    with ProcessPoolExecutor() as workers:
        list(workers.map(partial(compile_one, keep_source=keep_source), files, chunksize=50))


def compile_one(file: Path, *, keep_source: bool) -> None:
    target = None if keep_source else str(file.with_suffix(".pyc"))
    with contextlib.suppress(py_compile.PyCompileError):  # for another version of Python, or a template
        shown = str(file).removeprefix("/image")  # in tracebacks
        py_compile.compile(str(file), target, shown, doraise=True, invalidation_mode=UNCHECKED)
        if not keep_source:
            file.unlink()


def set_times(root: Path) -> None:
    for directory, _, names in os.walk(root, topdown=False):
        for name in (*names, "."):
            os.utime(os.path.join(directory, name), (EPOCH, EPOCH), follow_symlinks=False)
        for name in os.listdir(directory):
            os.utime(os.path.join(directory, name), (EPOCH, EPOCH), follow_symlinks=False)


def below(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


if __name__ == "__main__":
    main()
