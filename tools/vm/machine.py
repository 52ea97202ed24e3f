"""Boots a guest, runs one command in it, and brings back its exit code, its output and its files.

Invariant: it ends, with a result or with an error that shows the console's last words; nothing of it is left.

Each CPU of a guest has a beat (start.sh), which comes on its second serial line, whatever the command does. Where one
stays away, the guest's kernel or its emulator hangs: that was seen once, for 45 minutes, in the middle of a test.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.vm.image import REPO, Parts, make_file_system, parts

CPUS = 2
MEMORY_MB = 1024  # of each of the two NUMA nodes
RESULTS_MB = 64
SCRATCH_MB = 1024
STILL_S = 300.0  # without a beat of a CPU; one is due each five seconds, but hosts are busy
BEATS = "beats"  # what came on the second serial line
MONITOR = "monitor"
_SCRATCH = "gosched-vm-"  # and the maker's process, in the name of a guest's directory
# No mitigations and no address randomness: they cost time under emulation and protect nobody here.
KERNEL_LINE = (
    "console=ttyS0 quiet loglevel=4 panic=-1 cgroup_no_v1=all psi=1 hugepages=8"
    " mitigations=off nokaslr random.trust_cpu=on"
)


class GuestFailed(Exception):
    """The guest did not come to an end; the message shows why, as far as the console tells."""


class GuestStandsStill(GuestFailed):
    """A CPU of the guest does not even beat any more. It is no fault of the command's: another guest may run it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`console` is what the command wrote; `files` what it left in /out, by name."""

    exit_code: int
    console: str
    files: dict[str, bytes]


def run_in_guest(command: Sequence[str], *, limit_s: float, systemd: bool = False, still_s: float = STILL_S) -> Result:
    """Runs the command in the checkout's directory of a fresh guest: as a child of its process 1, or as a service where
    that is systemd. `limit_s` is of the guest, not of making it. Raises GuestFailed, and GuestStandsStill after
    `still_s` without a beat of a CPU."""
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
                trouble = _await_end(machine, scratch, limit_s, still_s)
            finally:
                machine.kill()
                machine.wait(30)
        text = console.read_bytes().decode(errors="replace").replace("\r", "")
        files = _results(scratch / "results")
        if "exit_code" not in files:
            trouble = trouble or GuestFailed("the guest ended without a result")
            raise type(trouble)(f"{trouble}; its last words:\n{text[-3000:]}")
        return Result(exit_code=int(files.pop("exit_code")), console=text, files=files)


def _await_end(machine: subprocess.Popen[bytes], scratch: Path, limit_s: float, still_s: float) -> GuestFailed | None:
    """Returns what went wrong, None if it ended by itself."""
    began = time.monotonic()
    beats, heard = [0] * CPUS, [began] * CPUS
    while machine.poll() is None:
        now = time.monotonic()
        if now - began >= limit_s:
            return GuestFailed(f"the guest was not done within {limit_s:g} s")
        said = (scratch / BEATS).read_bytes() if (scratch / BEATS).exists() else b""
        for cpu in range(CPUS):
            if (count := said.count(b"%d" % cpu)) > beats[cpu]:
                beats[cpu], heard[cpu] = count, now
            elif now - heard[cpu] >= still_s:
                return GuestStandsStill(f"CPU {cpu} has stood still for {still_s:g} s; all CPUs: {_cpus(scratch)}")
        time.sleep(0.5)
    return None


def _cpus(scratch: Path) -> str:
    """Where each CPU of the guest is, twice, as the emulator's monitor tells: a loop, an idle one, or no answer."""
    seen = []
    for _ in range(2):
        try:
            with socket.socket(socket.AF_UNIX) as monitor:
                monitor.settimeout(10)
                monitor.connect(str(scratch / MONITOR))
                monitor.sendall(b"info registers -a\n")
                told = b""
                while told.count(b"RIP=") < CPUS:
                    told += monitor.recv(65536) or b"RIP=" * CPUS
        except OSError as error:
            return f"the monitor does not answer ({error})"
        seen.append(" ".join(re.findall(r"RIP=\S+|HLT=\d", told.decode(errors="replace"))))
        time.sleep(1)
    return ", then ".join(seen)


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
    words += ["-serial", f"file:{scratch / BEATS}", "-monitor", f"unix:{scratch / MONITOR},server=on,wait=off"]
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
