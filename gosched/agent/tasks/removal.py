"""Removes what a task has left, however deep, wide or closed it is.

Invariant: nothing outside is touched, though processes of the task's user live on: no link is followed, no mount
entered, and no path of more than one name is looked up in a directory that the user may change.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from gosched.agent.beneath import opened, reopen

BATCH = 1000  # directories that are taken out of one, so that memory stays bounded


def remove_tree(path: Path) -> None:
    """Empty the directory `path` and remove it; only the agent may write to the one that it is in.

    Directories are moved beside `path` before they are emptied: so no name gets too long, no stack too deep, and the
    user has no name for them any more. Raises OSError where something cannot be removed, and FileNotFoundError where
    there is nothing; then there may be PATH.XXXX.1, PATH.XXXX.2, ... beside it."""
    with opened(path.parent, os.O_RDONLY | os.O_DIRECTORY) as beside:
        os.stat(path.name, dir_fd=beside, follow_symlinks=False)
        pending, moved = [path.name], 0
        prefix = f"{path.name[:200]}.{secrets.token_hex(4)}"  # an earlier removal may have left others
        while pending:
            try:
                found = _empty(pending[-1], beside, prefix, moved)
            except NotADirectoryError:  # a link that took the place of a directory just before that was moved here
                os.unlink(pending.pop(), dir_fd=beside)
                continue
            if found is None:
                os.rmdir(pending.pop(), dir_fd=beside)
                continue
            moved += len(found)
            pending += found


def _empty(name: str, beside: int, prefix: str, moved: int) -> list[str] | None:
    """Remove the files of a directory, and move up to BATCH directories of it to `prefix`.NUMBER beside it. Return
    where they are now, and None once nothing is left."""
    found: list[str] = []
    is_empty = True
    with _taken(name, beside) as directory, os.scandir(directory) as entries:
        for entry in entries:
            is_empty = False
            try:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=directory)
                    continue
                to = f"{prefix}.{moved + len(found) + 1}"
                _let_move(entry.name, directory)
                os.rename(entry.name, to, src_dir_fd=directory, dst_dir_fd=beside)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                continue  # it is something else by now: the next look tells what
            found.append(to)
            if len(found) == BATCH:
                break
    return None if is_empty else found


@contextlib.contextmanager
def _taken(name: str, beside: int) -> Iterator[int]:
    """Yield a descriptor of the directory, in which from now on only the agent can make or move anything."""
    with opened(name, os.O_PATH | os.O_DIRECTORY, dir_fd=beside) as seen:
        if os.geteuid() == 0:
            os.chown(f"/proc/self/fd/{seen}", 0, 0)
        os.chmod(f"/proc/self/fd/{seen}", 0o700)
        directory = reopen(seen, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield directory
    finally:
        os.close(directory)


def _let_move(name: str, directory: int) -> None:
    """Let a directory be moved: its owner, where that is not root, may do so only if its mode lets it write there."""
    if os.geteuid() != 0:
        with opened(name, os.O_PATH | os.O_DIRECTORY, dir_fd=directory) as seen:
            os.chmod(f"/proc/self/fd/{seen}", 0o700)
