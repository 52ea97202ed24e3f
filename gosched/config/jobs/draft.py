"""Jobs as people write them, before they are read: a job file with flags over it, or flags alone.

Invariant: imports nothing slow. The command line makes a draft at each start; what is in it is found by `jobfile`, here
or at a master.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One key of a job, and what stands there instead."""

    #: From the top of the document, as a Path of `config.tree`.
    path: tuple[str | int, ...]
    #: As in a Document; None: the key is left out.
    value: Any
    #: The flag, as errors name it.
    origin: str
    #: A mapping or a list that is added to that of the file; an equal key is replaced.
    adds: bool = False
    #: `path` begins with a key of a task group, wherever the file has its groups.
    of_group: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDraft:
    """A job file and what stands over it."""

    #: Of the file; None: the flags alone describe one job.
    text: bytes | None = None
    #: What errors call the file; empty without one.
    source: str = ""
    overrides: tuple[Override, ...] = ()
    #: `KEY=VALUE` of --set, which go over the overrides.
    sets: tuple[str, ...] = ()
