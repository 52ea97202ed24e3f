"""Dependencies: jobs that must end before another one starts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Condition(IntEnum):
    """How the job that another one waits for has to end."""

    UNSPECIFIED = 0
    SUCCESS = 1
    FAILURE = 2
    ANY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """`job`: a name or an id in a spec, an id in a Job."""

    job: str
    condition: Condition
