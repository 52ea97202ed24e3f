"""The root of a rootfs task: a layer over its image, or a copy where the kernel has no overlayfs; and the view of the
host's mounts that the task's runtime is started in.

Invariant: a layer is mounted in a mount namespace of the task's own, so it goes with the last process of the task.
"""

from __future__ import annotations

import functools
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gosched.agent.beneath import opened
from gosched.agent.runtimes.faults import one_line
from gosched.agent.runtimes.interface import CannotRun
from gosched.core.reasons import Reason

CGROUPS = Path("/sys/fs/cgroup")
# In the bundle: the image, by a name that mount options can have.
LOWER = "lower"
MOUNT_LAYER = f"mount -t overlay overlay -o lowerdir={LOWER},upperdir=upper,workdir=scratch rootfs"
_PROBE_S = 10
_COPY_S = 3600
_TAR = ("tar", "--file=-", "--numeric-owner")
_CHANGED = 1  # tar's exit code where the image was written to meanwhile
_MAX_SAID = 64 * 1024


def lay_over(image: int, bundle: Path) -> None:
    """Make what MOUNT_LAYER needs, but for what is found at `lower`; it is mounted when the task starts. `image`: a
    descriptor."""
    for name in ("upper", "scratch", "rootfs"):
        (bundle / name).mkdir(exist_ok=True)
    # The layer's own root is what the task sees as /: it takes owner and mode of the image's.
    seen = os.fstat(image)
    os.chown(bundle / "upper", seen.st_uid, seen.st_gid)
    (bundle / "upper").chmod(stat.S_IMODE(seen.st_mode))


def link_lower(image: Path, bundle: Path) -> None:
    """Link the agent's own image at `lower`. One of the host's is bound there when the task starts."""
    if not (bundle / LOWER).is_symlink():
        (bundle / LOWER).symlink_to(image)


def copy(bundle: Path) -> None:
    """Copy what is found at `lower`, which takes its time. Raises CannotRun.

    By tar, which goes down a tree by descriptors: cp follows what the image's owner links there meanwhile.
    """
    (bundle / "rootfs").mkdir(exist_ok=True)
    with tempfile.TemporaryFile() as said:
        read = subprocess.Popen(
            [*_TAR, "--create", "-C", str(bundle / LOWER), "."], stdout=subprocess.PIPE, stderr=said
        )
        try:
            words = [*_TAR, "--extract", "--same-permissions", "-C", str(bundle / "rootfs")]
            written = subprocess.run(words, stdin=read.stdout, capture_output=True, check=False, timeout=_COPY_S)
        finally:
            read.kill()  # if it has not ended: what it says is not read any more
            read.wait()
        said.seek(0)
        why = said.read(_MAX_SAID)
    if written.returncode:
        detail = f"this node cannot copy the image: {_last_line(written.stderr)}"
        raise CannotRun(Reason.CANNOT_STORE, detail, blames_node=True)
    if read.returncode not in (0, _CHANGED):
        raise CannotRun(Reason.BAD_IMAGE, f"the image cannot be copied: {_last_line(why)}")


def _last_line(words: bytes) -> str:
    return one_line(words.decode(errors="replace").strip().rpartition("\n")[2])


@functools.cache
def has_overlay(directory: Path) -> bool:
    """Return whether the kernel lays one directory over another, on the file system of this one."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, suffix=".probe") as probe:
        with opened(probe) as image:
            lay_over(image, Path(probe))
        link_lower(Path(probe), Path(probe))
        words = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", MOUNT_LAYER]
        return subprocess.run(words, cwd=probe, capture_output=True, check=False, timeout=_PROBE_S).returncode == 0


@functools.cache
def hierarchy() -> Path:
    """Return where cgroup v2 is: on a hybrid host not at the place where the runtimes look for it."""
    unified = CGROUPS / "unified"
    hybrid = not (CGROUPS / "cgroup.controllers").exists() and (unified / "cgroup.controllers").exists()
    return unified if hybrid else CGROUPS


def in_own_view(words: Sequence[str], *steps: str) -> tuple[str, ...]:
    """Return the command, after the steps, in a mount namespace of its own; unmounting on the host reaches it."""
    if hierarchy() != CGROUPS:
        steps = (f"mount --bind {hierarchy()} {CGROUPS}", *steps)
    script = "; ".join([*steps, 'exec "$@"'])
    return ("unshare", "--mount", "--propagation", "slave", "--", "sh", "-ec", script, "sh", *words)


def missing_program() -> str:
    """Return one that is needed here and missing; empty: none."""
    return next((name for name in ("unshare", "mount", "sh", "tar", "rm") if shutil.which(name) is None), "")
