"""What a container of either kind shows its task: the working directory, volumes, an environment; and where, for the
node, a path of the task's is.

The one rule: what is looked up in an image is looked up as the task would, and never outside of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gosched.agent.orders import Order
from gosched.agent.runtimes.environment import OF_THE_USER
from gosched.agent.runtimes.faults import one_line
from gosched.agent.runtimes.interface import CannotRun, Place
from gosched.agent.runtimes.program_file import interpreter

WORK = "/work"  # where a task in a container finds its working directory
SHM_BYTES = 64 << 20  # of /dev/shm, where the task asks for no memory
_OF_THE_NODE = ("PATH", *OF_THE_USER)
_OWN_PATHS = ("/proc", "/sys", "/dev", WORK)
_MAX_LINKS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A file or directory of the node, absolute, at an absolute path of the task's."""

    host: str
    to: str
    read_only: bool = False


def inner_env(order: Order, place: Place, env: Mapping[str, str], *, path: str) -> dict[str, str]:
    """Of the task: paths below its working directory as they are inside, and nothing of the agent's own. `path`: its
    PATH where the order has none; empty: the image's."""
    own = dict(order.env)
    work = str(place.work)
    inner = {"PATH": path} if path else {}
    for name, value in env.items():
        if name in own or name not in _OF_THE_NODE:
            inner[name] = WORK + value[len(work) :] if value == work or value.startswith(f"{work}/") else value
    return inner


def inner_cwd(order: Order) -> str:
    """A relative one is below the task's working directory."""
    return str(PurePosixPath(WORK, order.working_dir))


def binds(order: Order, place: Place) -> list[Bind]:
    """The working directory, then the volumes. Raises CannotRun: VOLUME_NOT_FOUND, BAD_VOLUME."""
    found = [Bind(host=str(place.work), to=WORK)]
    for volume in order.isolation.volumes:
        if not Path(volume.host).exists():
            raise CannotRun("VOLUME_NOT_FOUND", f"volume {volume.host} is not on this node")
        to = os.path.normpath(volume.to)
        if to == "/" or to.startswith(("/proc/", "/sys/")) or to in _OWN_PATHS:
            raise CannotRun("BAD_VOLUME", f"volume {volume.host}: it cannot stand at {to}, a task has its own there")
        found.append(Bind(host=volume.host, to=to, read_only=volume.read_only))
    return found


def find_command(command: Sequence[str], cwd: str, path: str, mounts: Sequence[Bind], image: Path) -> None:
    """Raises CannotRun where the command is none: the OCI runtime would only tell it in the task's log."""
    if not command or not command[0]:
        raise CannotRun("COMMAND_NOT_FOUND", "the command is empty", exit_code=127)
    name = command[0]
    is_there = False
    for place in [cwd] if "/" in name else path.split(":"):
        program = resolve(str(PurePosixPath(place or "/", name)), mounts, image)
        if program is not None and program.is_file() and program.stat().st_mode & 0o111:
            _find_interpreter(name, program, cwd, mounts, image)
            return
        is_there = is_there or program is not None
    if is_there:
        raise CannotRun("NOT_EXECUTABLE", f"{name} cannot be executed: its mode does not allow it", exit_code=126)
    if not any(os.path.lexists(image / top) for top in ("bin", "usr", "sbin")):
        saved = " (of `docker save`? it takes that of `docker export`)" if (image / "manifest.json").exists() else ""
        raise CannotRun("BAD_IMAGE", f"the image is no root filesystem: it has neither /bin nor /usr{saved}")
    raise CannotRun("COMMAND_NOT_FOUND", f"{name} is not in the image", exit_code=127)


def _find_interpreter(name: str, program: Path, cwd: str, mounts: Sequence[Bind], image: Path) -> None:
    """Without it the kernel says of the program itself that there is no such file."""
    wanted = interpreter(name, program)
    if wanted and resolve(str(PurePosixPath(cwd, wanted)), mounts, image) is None:
        shown = one_line(os.fsencode(wanted).decode(errors="replace"))  # an image may hold anything
        detail = f"{name}: what runs it, {shown}, is not in the image"
        raise CannotRun("COMMAND_NOT_FOUND", detail, exit_code=127)


def resolve(path: str, mounts: Sequence[Bind], image: Path) -> Path | None:
    """Where a task's absolute path is on the node, links followed as the task would; None: nowhere."""
    rest = _parts(path)
    here: list[str] = []
    links = 0
    while rest:
        part = rest.pop()
        if part == "..":
            here = here[:-1]
            continue
        at = _on_node(mounts, image, [*here, part])
        try:
            target = os.readlink(at) if at.is_symlink() else None
        except OSError:
            return None
        if target is None:
            here.append(part)
            continue
        links += 1
        if links > _MAX_LINKS:
            return None
        here = [] if target.startswith("/") else here
        rest.extend(_parts(target))
    at = _on_node(mounts, image, here)
    return at if os.path.lexists(at) else None


def _on_node(mounts: Sequence[Bind], image: Path, parts: Sequence[str]) -> Path:
    """Through the innermost mount that covers it."""
    inner = PurePosixPath("/", *parts)
    covering = [bind for bind in mounts if inner.is_relative_to(bind.to)]
    if not covering:
        return image.joinpath(*parts)
    bind = max(covering, key=lambda bind: len(PurePosixPath(bind.to).parts))
    return Path(bind.host) / inner.relative_to(bind.to)


def _parts(path: str) -> list[str]:
    """The last one first."""
    return [part for part in path.split("/") if part not in ("", ".")][::-1]
