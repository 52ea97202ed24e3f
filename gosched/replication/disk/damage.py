"""What is said when the files of a master cannot be trusted."""

from __future__ import annotations


class DamagedLog(Exception):
    """The files on disk cannot be trusted, or do not belong together. The message says what to do."""


def advice(what: str) -> str:
    return (
        f"{what}. Nothing was changed. Check the disk. If a majority of the masters is well, move this data directory "
        "away and start this master with an empty one: it copies their state. If not, keep it: "
        "docs/operations/masters.md says how to restore the cluster from one directory"
    )
