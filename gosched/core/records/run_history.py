"""Histories of run times: how long the newest jobs of one kind have run."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.replace import quickly_made

#: Of what is expected of a user's jobs before any has shown whether it covers nine of ten.
FIRST_RANK_MILLI = 900


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class RunHistory:
    """How long the newest attempts of one kind of jobs ran that ended by themselves."""

    #: Names what the jobs have in common (`core.run_times.keys_of`).
    key: str
    #: The newest last, RUN_TIMES_KEPT at most. One that a timeout ended would have run for at least as long.
    run_ms: tuple[int, ...] = ()
    #: The rank, in thousandths, up to which run times are read as "with 90 %", so that nine of ten were within it. Only
    #: in the history of all jobs of a user.
    rank_milli: int = FIRST_RANK_MILLI
