"""Removes what a task has left, however deep, wide or closed it is.

The one rule: nothing outside is touched: no link is followed, no mount entered.
"""

from __future__ import annotations

import os
from pathlib import Path

BATCH = 1000  # directories that are taken out of one, so that memory stays bounded


def remove_tree(path: Path) -> None:
    """Directories are moved beside `path` before they are emptied: so no name gets too long, and no stack too deep.
    Raises OSError where something cannot be removed; then there may be PATH.1, PATH.2, ... beside it."""
    os.chmod(path, 0o700)
    pending, moved = [str(path)], 0
    while pending:
        found, is_empty = [], True
        with os.scandir(pending[-1]) as entries:
            for entry in entries:
                is_empty = False
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                    continue
                moved += 1
                found.append(f"{path}.{moved}")
                os.chmod(entry.path, 0o700)  # its owner, too, may move and empty it only then
                os.rename(entry.path, found[-1])
                if len(found) == BATCH:
                    break
        if is_empty:
            os.rmdir(pending.pop())
        pending += found
