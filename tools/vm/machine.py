"""Boots a guest, runs one command in it, and brings back its exit code, its output and its files.

Invariant: it ends, with a result or with an error that shows the console's last words; nothing of it is left.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.vm.image import REPO, Parts, make_file_system, parts

CPUS = 2
MEMORY_MB = 1024  # of each of the two NUMA nodes
RESULTS_MB = 64
SCRATCH_MB = 1024
_SCRATCH = "gosched-vm-"  # and the maker's process, in the name of a guest's directory
# No mitigations and no address randomness: they cost time under emulation and protect nobody here.
KERNEL_LINE = (
    "console=ttyS0 quiet loglevel=3 panic=-1 cgroup_no_v1=all psi=1 hugepages=8"
    " mitigations=off nokaslr random.trust_cpu=on"
)


class GuestFailed(Exception):
    """The guest did not come to an end; the message shows why, as far as the console tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`console` is what the command wrote; `files` what it left in /out, by name."""

    exit_code: int
    console: str
    files: dict[str, bytes]


def run_in_guest(command: Sequence[str], *, limit_s: float, systemd: bool = False) -> Result:
    """Runs the command in the checkout's directory of a fresh guest: as a child of its process 1, or as a service where
    that is systemd. `limit_s` is of the guest, not of making it. Raises GuestFailed."""
    _remove_abandoned()
    with tempfile.TemporaryDirectory(prefix=f"{_SCRATCH}{os.getpid()}-") as directory:
        scratch = Path(directory)
        made = parts(scratch)
        _add(made.sources, "command", f"cd {shlex.quote(str(REPO))}\n{shlex.join(command)}\n")
        if systemd:
            _add(made.sources, "with-systemd", "")
        for name, size_mb in (("results", RESULTS_MB), ("disk", SCRATCH_MB)):
            with (scratch / name).open("wb") as disk:
                disk.truncate(size_mb << 20)
        make_file_system(scratch / "disk")
        console = scratch / "console"
        with console.open("wb") as output:
            machine = subprocess.Popen(
                _qemu(made, scratch), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=scratch
            )
            try:
                machine.wait(limit_s)
                ended = "ended without a result"
            except subprocess.TimeoutExpired:
                ended = f"was not done within {limit_s:g} s"
            finally:
                machine.kill()
                machine.wait(30)
        text = console.read_bytes().decode(errors="replace").replace("\r", "")
        files = _results(scratch / "results")
        if "exit_code" not in files:
            raise GuestFailed(f"the guest {ended}; its last words:\n{text[-3000:]}")
        return Result(exit_code=int(files.pop("exit_code")), console=text, files=files)


def _remove_abandoned() -> None:
    """The disks of guests whose maker was killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*-*"):
        maker = left.name.removeprefix(_SCRATCH).partition("-")[0]
        if not Path(f"/proc/{maker}").exists():
            shutil.rmtree(left, ignore_errors=True)


def _add(sources: Path, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(text.encode())
    with tarfile.open(sources, "a", format=tarfile.USTAR_FORMAT) as packed:
        packed.addfile(entry, io.BytesIO(text.encode()))


def _qemu(made: Parts, scratch: Path) -> list[str]:
    """Always emulated: a KVM device may be there and hang. It ends with this process, even if that is killed."""
    words = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "qemu-system-x86_64",
        "-machine",
        "q35",
        "-accel",
        "tcg,thread=multi,tb-size=256",
        "-cpu",
        "max",
    ]
    words += ["-smp", str(CPUS), "-m", f"{2 * MEMORY_MB}M"]
    for node in range(2):
        words += ["-object", f"memory-backend-ram,id=m{node},size={MEMORY_MB}M"]
        words += ["-numa", f"node,nodeid={node},cpus={node},memdev=m{node}"]
    words += ["-nodefaults", "-no-user-config", "-display", "none", "-nic", "none", "-no-reboot", "-serial", "stdio"]
    words += ["-kernel", str(made.kernel), "-initrd", str(made.initramfs), "-append", KERNEL_LINE]
    drives = [
        (made.root, "snapshot=on"),
        (made.sources, "readonly=on"),
        (scratch / "results", ""),
        (scratch / "disk", ""),
    ]
    for path, more in drives:
        words += ["-drive", f"file={path},format=raw,if=virtio,cache=unsafe" + (f",{more}" if more else "")]
    return words


def _results(disk: Path) -> dict[str, bytes]:
    """Empty when the guest wrote none, or not to the end."""
    try:
        with tarfile.open(disk) as packed:
            return {
                entry.name.removeprefix("./"): found.read()
                for entry in packed
                if entry.isfile() and (found := packed.extractfile(entry)) is not None
            }
    except tarfile.TarError:
        return {}
