"""What a guest starts from: Debian's kernel, an initramfs that loads its modules, a root file system, and this
checkout as a tar file. What is slow to make stays in build/vm, under a name that says what it was made from.

Invariant: what is in the cache is whole (it is renamed into place), and made anew when what it is made from changes.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
CACHE = REPO / "build" / "vm"
LIMIT_S = 300  # of each command that makes a part

KERNEL = "linux-image-cloud-amd64"
MODULES = ("virtio_pci", "virtio_blk", "ext4", "overlay", "virtio_rng")
PROGRAMS = ("crun", "runc", "dockerd", "containerd", "containerd-shim-runc-v2", "docker-init", "systemctl")
SYSTEMD = Path("/lib/systemd")
TARGETS = "basic local-fs multi-user network network-online paths shutdown slices sockets swap sysinit timers umount"
BUSYBOX = "/bin/busybox"
DIRECTORIES = "bin dev disk etc/systemd/system out proc root run sbin sys tmp usr/bin var/tmp"
# Of the environment, what no agent, no master and no test of them imports.
LEFT_OUT = re.compile(
    r"(?i)(\d\w+__mypyc|_?setuptools|ast_serialize|grimp|grpc_tools|grpcio_tools|hatchling|hypothesis|import_?linter|librt|mypy"
    r"|graphql|harfile|jsonschema_rs|pip|pkg_resources|py4j|pyrate_limiter|pyspark|ruff|schemathesis|selenium|trio"
    r"|trove_classifiers|werkzeug|types_|\w+-stubs$)"
)
STDLIB_LEFT_OUT = {"test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages", "pydoc_data"}
INIT = Path(__file__).with_name("init.sh")
START = Path(__file__).with_name("start.sh")
FINISH = Path(__file__).with_name("finish.sh")
UNIT = Path(__file__).with_name("guest.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Files a machine boots from."""

    kernel: Path
    initramfs: Path
    root: Path
    sources: Path


def parts(scratch: Path) -> Parts:
    """All there is; makes what is missing. `scratch` takes the sources, which are packed anew each time."""
    kernel = _kernel()
    return Parts(
        kernel=next((kernel / "boot").glob("vmlinuz-*")),
        initramfs=_kept(
            "initramfs",
            [kernel.name, *map(_stamp, (INIT, Path(BUSYBOX), Path(__file__)))],
            lambda to: _initramfs(kernel, to),
        ),
        root=_root(),
        sources=_sources(scratch / "sources.tar"),
    )


def make_file_system(image: Path, *more: str | Path) -> None:
    _run("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E", "root_owner=0:0", *more, image)


def _kept(name: str, made_from: Iterable[str], make: Callable[[Path], None]) -> Path:
    """The file or directory in the cache that was made from just this; older ones of the name go."""
    key = hashlib.sha256("\n".join(made_from).encode()).hexdigest()[:16]
    place = CACHE / f"{name}-{key}"
    if place.exists():
        return place
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:  # another process may be making the same
        fcntl.flock(lock, fcntl.LOCK_EX)
        return place if place.exists() else _made(name, place, make)


def _made(name: str, place: Path, make: Callable[[Path], None]) -> Path:
    for old in CACHE.iterdir():
        if old.name.startswith(f"{name}-") or _is_abandoned(old.name):
            _remove(old)
    half = CACHE / f".{place.name}.{os.getpid()}"
    try:
        make(half)
        half.rename(place)
    finally:
        _remove(half)
    return place


def _is_abandoned(name: str) -> bool:
    """Half made, by a process that was killed."""
    maker = re.fullmatch(r"\..*\.(\d+)(\.tree)?", name)
    return maker is not None and not Path(f"/proc/{maker[1]}").exists()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _run(*words: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(w) for w in words], cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(map(str, words[:6]))}: exit code {done.returncode}: {done.stderr.strip()[-500:]}"
        )
    return done.stdout


def _stamp(path: Path) -> str:
    about = path.stat()
    return f"{path} {about.st_size} {about.st_mtime_ns}"


def _kernel() -> Path:
    """The unpacked package; never installed here."""
    names = re.findall(r"Depends: (linux-image-\S+)", _run("apt-cache", "depends", KERNEL))
    if not names:
        raise RuntimeError(f"apt knows no {KERNEL}: run apt-get update, on Debian")
    version = re.search(r"Candidate: (\S+)", _run("apt-cache", "policy", names[0]))

    def unpack(to: Path) -> None:
        to.mkdir()
        _run("apt-get", "download", names[0], cwd=to)
        (package,) = to.glob("*.deb")
        _run("dpkg", "-x", package, to)
        package.unlink()

    return _kept("kernel", [names[0], version[1] if version else ""], unpack)


def _initramfs(kernel: Path, to: Path) -> None:
    """Loads the modules in order and goes on to the root file system."""
    tree = to.with_name(f"{to.name}.tree")
    try:
        for name in ("bin", "modules", "dev", "proc", "sys", "root"):
            (tree / name).mkdir(parents=True)
        shutil.copy2(BUSYBOX, tree / "bin/busybox")
        shutil.copy2(INIT, tree / "init")
        (tree / "init").chmod(0o755)
        for place, module in enumerate(_modules(kernel)):
            shutil.copy2(module, tree / "modules" / f"{place:02}-{module.name}")
        listing = "\n".join(str(p.relative_to(tree)) for p in [tree, *sorted(tree.rglob("*"))])
        packed = subprocess.run(
            [BUSYBOX, "cpio", "-o", "-H", "newc"],
            cwd=tree,
            input=listing.encode(),
            capture_output=True,
            check=True,
            timeout=LIMIT_S,
        )
        to.write_bytes(gzip.compress(packed.stdout, 1))
    finally:
        _remove(tree)


def _modules(kernel: Path) -> list[Path]:
    """Each after those it depends on. What is built into the kernel is not among them."""
    there = {path.stem.replace("-", "_"): path for path in kernel.rglob("*.ko")}
    order: dict[str, Path] = {}

    def add(name: str) -> None:
        if name in there and name not in order:
            found = re.search(rb"\0depends=([^\0]*)\0", there[name].read_bytes())
            for other in found[1].decode().split(",") if found else ():
                add(other.replace("-", "_"))
            order[name] = there[name]

    for name in MODULES:
        add(name)
    return list(order.values())


def _root() -> Path:
    """An ext4 image with this interpreter, this environment and the programs, each at the path that it has here."""
    files = [*_interpreter(), *_environment(), *_programs(), *_systemd()]
    files = sorted({*files, *map(Path, _libraries(files))})
    lasting = [path for path in files if not path.is_symlink() and path.suffix != ".pyc"]
    made_from = map(_stamp, (START, FINISH, UNIT, Path(__file__), *lasting))

    def make(to: Path) -> None:
        tree = to.with_name(f"{to.name}.tree")
        try:
            _furnish(tree, files)
            size_mb = 96 + sum(2 + p.stat().st_size // 1000 for p in files if not p.is_symlink()) // 1000
            with to.open("wb") as image:
                image.truncate(size_mb << 20)
            make_file_system(to, "-d", tree)
        finally:
            _remove(tree)

    return _kept("root", made_from, make)


def _interpreter() -> Iterator[Path]:
    base = Path(sys.base_prefix)
    yield from {Path(os.path.realpath(sys.executable)), *base.glob("bin/python3*")}
    stdlib = Path(sysconfig.get_path("stdlib", vars={"installed_base": str(base), "base": str(base)}))
    yield from _below(stdlib, lambda top: top not in STDLIB_LEFT_OUT and not top.startswith("config-"))


def _environment() -> Iterator[Path]:
    if sys.prefix == sys.base_prefix:
        raise RuntimeError("run this with the environment's Python: .venv/bin/python")
    prefix = Path(sys.prefix)
    yield from (p for p in prefix.iterdir() if p.is_symlink() or p.is_file())
    yield from (p for p in (prefix / "bin").iterdir() if p.is_symlink() or (p.is_file() and p.stat().st_size < 100_000))
    yield from _below(Path(sysconfig.get_path("purelib")), lambda top: not LEFT_OUT.match(top))


def _below(root: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    for top in sorted(root.iterdir()):
        if wanted(top.name):
            yield from (p for p in ([top, *top.rglob("*")] if top.is_dir() else [top]) if p.is_symlink() or p.is_file())


def _programs() -> Iterator[Path]:
    for name in PROGRAMS:
        found = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
        if found is None:
            raise RuntimeError(f"there is no {name}: run tools/integration_tools.sh as root")
        yield Path(found)


def _systemd() -> Iterator[Path]:
    """The manager, and of its units only those that others wait for."""
    yield SYSTEMD / "systemd"
    yield from (SYSTEMD / "system" / f"{name}.target" for name in TARGETS.split())


def _libraries(files: list[Path]) -> set[str]:
    """What the binaries among the files load, by the name that they load it by."""
    binaries = [p for p in files if re.search(r"\.so[.\d]*$", p.name) or p.parent.name in ("bin", "sbin", "systemd")]
    elf = [str(p) for p in binaries if p.read_bytes()[:4] == b"\x7fELF"]
    told = subprocess.run(["ldd", *elf], capture_output=True, text=True, timeout=LIMIT_S, check=False).stdout
    found = set(re.findall(r"(?:=> |^\t)(/\S+) \(0x", told, re.MULTILINE))
    extra = [Path(p).parent / name for p in found if "libc.so" in p for name in ("libgcc_s.so.1", "libnss_files.so.2")]
    return {path for path in found | {str(p) for p in extra if p.exists()} if Path(path) not in files}


def _furnish(tree: Path, files: list[Path]) -> None:
    for path in files:
        to = tree / path.relative_to("/")
        # A /lib that is a link to usr/lib here is one there, or a loader would be missed.
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, to, follow_symlinks=not path.is_symlink() or ".so" in path.name)
    for name in (*DIRECTORIES.split(), str(REPO)[1:]):
        (tree / name).mkdir(parents=True, exist_ok=True)
    shutil.copy2(BUSYBOX, tree / "bin/busybox")
    for applet in _run(BUSYBOX, "--list").split():
        if not any((tree / place / applet).exists() for place in ("bin", "usr/bin", "usr/sbin", "sbin")):
            (tree / "bin" / applet).symlink_to("/bin/busybox")
    (tree / "usr/bin/env").symlink_to("/bin/busybox")
    for script in (START, FINISH):
        shutil.copy2(script, tree / "sbin" / script.stem)
        (tree / "sbin" / script.stem).chmod(0o755)
    shutil.copy2(UNIT, tree / "etc/systemd/system" / UNIT.name)
    people = [("root", 0), ("alice", 1000), ("bob", 1001), ("nobody", 65534)]
    (tree / "etc/passwd").write_text("".join(f"{n}:x:{i}:{i}::/tmp:/bin/sh\n" for n, i in people))
    groups = "".join(f"{n}:x:{i}:\n" for n, i in people)
    (tree / "etc/group").write_text(groups + "research:x:2000:alice\n")
    (tree / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
    (tree / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    (tree / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")


def _sources(to: Path) -> Path:
    """This checkout's code and tests, compiled here: emulated, it takes ten times as long."""
    _run(sys.executable, "-m", "compileall", "-q", REPO / "gosched", REPO / "tests")
    with tarfile.open(to, "w", format=tarfile.USTAR_FORMAT) as packed:
        for name in ("gosched", "tests", "examples", "config", "deploy", "pyproject.toml"):
            if (REPO / name).exists():
                _pack(packed, REPO / name)
    return to


def _pack(packed: tarfile.TarFile, top: Path) -> None:
    for path in [top, *sorted(top.rglob("*"))]:
        with suppress(
            FileNotFoundError
        ):  # compiled files come and go when other tests run: the guest compiles by itself
            packed.add(path, str(path)[1:], recursive=False)
