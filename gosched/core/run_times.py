"""How long jobs run, learned from those like them: the time that half of them take, and the time that nine of ten take.

A job is like those of the same user (of the same tenant, where the name of its user is not known for certain) with the
same name (whatever its digits), shape, command and limits; where these
are too few, like those with the same name; then, like those with the same shape; at last, like all of the user's. Of
users who have run few jobs nothing is known.

That nine of ten keep within what is predicted does not follow from a rank of a few past run times: those of one user
come in bursts, and change. So the rank is itself learned, for each user, from whether earlier predictions were kept: it
goes up by nine steps where a job ran for longer, and down by one where it did not. At rest one of ten does (Gibbs and
Candes, "Adaptive conformal inference under distribution shift", 2021).

Invariant: what is predicted follows from the histories and the job alone, in integers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from gosched.core.limits import RUN_TIMES_KEPT
from gosched.core.records.job import Job
from gosched.core.records.run_history import FIRST_RANK_MILLI, RunHistory
from gosched.core.replace import replace
from gosched.core.spec.job_spec import JobSpec

ENOUGH = 4  # run times of a kind; with fewer, a wider kind tells more, and if there is none, nothing is known
NEWEST = 8  # run times, whose median is expected
STEP_MILLI = 10
LEAST_RANK_MILLI, MOST_RANK_MILLI = 500, 5000

_MILLI = 1000
_PER_MISS = 9  # steps up, for each of which nine jobs go one step down
_TENTH_MILLI = 100  # of rank beyond the longest run time: each adds as much again
_DIGITS = re.compile("[0-9]+")
_KEY_BYTES = 12

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """What is known of how long a job runs."""

    #: Run times of jobs like it, ascending; never empty.
    known_ms: tuple[int, ...]
    #: Half of such jobs run no longer.
    expected_ms: int
    #: Nine of ten such jobs run no longer.
    likely_ms: int

    def expected_after(self, age_ms: int) -> int:
        """Return the same for a job that has run for so long already; 0: all like it had ended by then."""
        shorter, count = bisect_right(self.known_ms, age_ms), len(self.known_ms)
        return max(self.expected_ms, self.known_ms[(shorter + count - 1) // 2]) if shorter < count else 0

    def likely_after(self, age_ms: int) -> int:
        """Return the same; a job that has outrun all like it has `likely_ms` at most, which may be over."""
        shorter, count = bisect_right(self.known_ms, age_ms), len(self.known_ms)
        if shorter == count:
            return self.likely_ms
        return max(self.likely_ms, self.known_ms[shorter + (9 * (count - shorter) + 9) // 10 - 1])


def keys_of(job: Job) -> Keys:
    """Return the keys of the histories that tell of the job, the most special one first; the last is its user's."""
    spec = job.spec
    who = f"{spec.tenant}/{job.user if job.authenticated else ''}"
    name = _DIGITS.sub("#", spec.name.removesuffix(f".{job.element}") if job.parent else spec.name)
    shape, commands = _shape(spec), "\0".join([_command(spec), f"{spec.timeout_ms} {spec.estimate_ms}"])
    return (
        _key("alike", who, name, shape, commands),
        _key("named", who, name),
        _key("shaped", who, shape),
        _key("user", who),
    )


def predict(histories: Mapping[str, RunHistory], keys: Keys, timeout_ms: int = 0) -> RunTimes | None:
    """Return what the histories tell of a job with these keys; None: nothing. `timeout_ms`: what ends it; 0: nothing
    does."""
    tried = [histories[key] for key in keys if key in histories]
    found = next((history for history in tried if len(history.run_ms) >= ENOUGH), None)
    if found is None:
        return None
    users = histories.get(keys[-1])
    known = tuple(sorted(found.run_ms))
    likely_ms = _at_rank(known, users.rank_milli if users is not None else FIRST_RANK_MILLI)
    if timeout_ms:
        likely_ms = min(likely_ms, timeout_ms)
    return RunTimes(known_ms=known, expected_ms=min(_median(found.run_ms[-NEWEST:]), likely_ms), likely_ms=likely_ms)


def taught(history: RunHistory, run_ms: int) -> RunHistory:
    """Return the history with one run time more."""
    return replace(history, run_ms=(*history.run_ms, run_ms)[-RUN_TIMES_KEPT:])


def judged(history: RunHistory, *, kept: bool) -> RunHistory:
    """Return the history of a user after a job has kept to what was likely, or has run for longer."""
    moved = history.rank_milli + (-STEP_MILLI if kept else _PER_MISS * STEP_MILLI)
    return replace(history, rank_milli=min(max(moved, LEAST_RANK_MILLI), MOST_RANK_MILLI))


def _at_rank(known: tuple[int, ...], rank_milli: int) -> int:
    """Return the run time at a rank among those that are known and one that is not: as in conformal prediction,
    n known ones divide the line into n + 1 parts that are equally likely. Between two it is interpolated."""
    position = (len(known) + 1) * rank_milli
    place, part = position // _MILLI, position % _MILLI
    if place < 1:
        return known[0]
    if place < len(known):
        return known[place - 1] + (known[place] - known[place - 1]) * part // _MILLI
    beyond_milli = max(rank_milli - _MILLI * len(known) // (len(known) + 1), 0)
    return known[-1] + known[-1] * beyond_milli // _TENTH_MILLI


def _median(run_ms: tuple[int, ...]) -> int:
    ordered = sorted(run_ms)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) // 2


def _shape(spec: JobSpec) -> str:
    parts = []
    for group in spec.groups:
        each = group.resources
        custom = " ".join([f"{name}={amount}" for name, amount in each.custom])
        amounts = f"{each.cpu_millis} {each.memory_bytes} {each.storage_bytes} {each.gpu_millis} {custom}"
        parts.append(f"{group.count} {amounts} {group.gpu_model}")
    return "\0".join(parts)


def _command(spec: JobSpec) -> str:
    return "\0".join([word for group in spec.groups for word in (group.image, *group.command)])


def _key(*parts: str) -> str:
    return blake2b("\0\0".join(parts).encode(), digest_size=_KEY_BYTES).hexdigest()
