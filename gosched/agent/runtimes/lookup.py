"""Looks up a path of a task's, and whether its command can run, in its image and volumes before they are mounted.

Invariant: what is looked up is looked up as the task would, with its user's rights, and never outside of what the task
will see, whatever is swapped there meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

from gosched.agent.acting import as_account
from gosched.agent.beneath import open_beneath, open_file, reopen
from gosched.agent.runtimes.faults import one_line
from gosched.agent.runtimes.interface import CannotRun
from gosched.agent.runtimes.program_file import interpreter
from gosched.agent.supervisor.launch import Account
from gosched.core.reasons import Reason

_MAX_LINKS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """What stands at the path `to` of a task's view: an O_PATH descriptor, and with whose rights it is looked at (None:
    the agent's own, for what no user can change)."""

    to: str
    fd: int
    account: Account | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A path without links, `path` below `root`, as it was seen."""

    root: Root
    path: str
    mode: int
    target: str = ""  # of a link


def find_command(command: Sequence[str], cwd: str, path: str, roots: Sequence[Root]) -> None:
    """Look for the command as the task would; `roots`: the image at `/`, and what is mounted above it.

    Raises CannotRun where the command is none: the OCI runtime would only tell it in the task's log.
    """
    if not command or not command[0]:
        raise CannotRun(Reason.COMMAND_NOT_FOUND, "the command is empty", exit_code=127)
    with contextlib.suppress(PermissionError):  # what its user may not look at is for the kernel to say
        _find_command(command[0], cwd, path, roots)


def _find_command(name: str, cwd: str, path: str, roots: Sequence[Root]) -> None:
    """Look along the PATH. Raises CannotRun, PermissionError."""
    is_there = False
    for place in [cwd] if "/" in name else path.split(":"):
        program = resolve(str(PurePosixPath(place or "/", name)), roots)
        if program is not None and stat.S_ISREG(program.mode) and program.mode & 0o111:
            _find_interpreter(name, program, cwd, roots)
            return
        is_there = is_there or program is not None
    if is_there:
        raise CannotRun(Reason.NOT_EXECUTABLE, f"{name} cannot be executed: its mode does not allow it", exit_code=126)
    image = next(root for root in roots if root.to == "/")
    if not any(_look(image, top) for top in ("bin", "usr", "sbin")):
        saved = " (of `docker save`? it takes that of `docker export`)" if _look(image, "manifest.json") else ""
        raise CannotRun(Reason.BAD_IMAGE, f"the image is no root filesystem: it has neither /bin nor /usr{saved}")
    raise CannotRun(Reason.COMMAND_NOT_FOUND, f"{name} is not in the image", exit_code=127)


def resolve(path: str, roots: Sequence[Root]) -> Found | None:
    """Return where a task's absolute path is, links followed as the task would; None: nowhere. Raises
    PermissionError."""
    rest = _parts(path)
    here: list[str] = []
    links = 0
    while rest:
        part = rest.pop()
        if part == "..":
            here = here[:-1]
            continue
        found = _look(*_place(roots, [*here, part]))
        if found is None or not stat.S_ISLNK(found.mode):
            here.append(part)  # what is not in the image may be made for a volume that stands below it
            continue
        links += 1
        if links > _MAX_LINKS:
            return None
        here = [] if found.target.startswith("/") else here
        rest.extend(_parts(found.target))
    return _look(*_place(roots, here))


def _find_interpreter(name: str, program: Found, cwd: str, roots: Sequence[Root]) -> None:
    """Look for the interpreter: without it the kernel says of the program itself that there is no such file."""
    try:
        with _read(program) as file:
            wanted = interpreter(name, file)
    except OSError:  # it may be executed and not be read, or is another one by now: the kernel says so
        return
    if wanted and resolve(str(PurePosixPath(cwd, wanted)), roots) is None:
        shown = one_line(os.fsencode(wanted).decode(errors="replace"))  # an image may hold anything
        detail = f"{name}: what runs it, {shown}, is not in the image"
        raise CannotRun(Reason.COMMAND_NOT_FOUND, detail, exit_code=127)


def _read(found: Found) -> BinaryIO:
    with as_account(found.root.account):
        fd = open_file(found.root.fd, found.path) if found.path else reopen(found.root.fd, os.O_RDONLY)
    return open(fd, "rb")


def _look(root: Root, path: str) -> Found | None:
    """Look at one name; None: it is not there. Raises PermissionError."""
    if not path:
        return Found(root=root, path=path, mode=os.fstat(root.fd).st_mode)
    try:
        with as_account(root.account):
            fd = open_beneath(root.fd, path, os.O_PATH | os.O_NOFOLLOW)
    except PermissionError:
        raise
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    try:
        mode = os.fstat(fd).st_mode
        return Found(root=root, path=path, mode=mode, target=os.readlink("", dir_fd=fd) if stat.S_ISLNK(mode) else "")
    finally:
        os.close(fd)


def _place(roots: Sequence[Root], parts: Sequence[str]) -> tuple[Root, str]:
    """Return the innermost mount that covers it, and the path below that."""
    inner = PurePosixPath("/", *parts)
    root = max((r for r in roots if inner.is_relative_to(r.to)), key=lambda r: len(PurePosixPath(r.to).parts))
    below = str(inner.relative_to(root.to))
    return root, "" if below == "." else below


def _parts(path: str) -> list[str]:
    """Return the names of a path, the last one first."""
    return [part for part in path.split("/") if part not in ("", ".")][::-1]
