"""The search for what makes the planner raise: plans are tried without this or that until one comes through.

It is a generator: it yields what a plan is to be tried without, and is sent what became of the trial. So its caller may
spread the trials of a large cluster over several cycles.

Invariant: what is returned as certain was needed: with everything else that is known to be bad left out, the planner
raises with it, and does not without it. Each search ends after MAX_TRIALS.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gosched.scheduling import Plan
from gosched.scheduling.suspects import Given, Kind, Suspect, at_hand, named

MAX_TRIALS = 64
MAX_ROUNDS = 8  # culprits that are found one after the other
MAX_HINTS = 4  # things at hand that are tried in one round
MAX_CHECKED = 16  # things that the same cycle stumbled over, each tried alone
MAX_DETAILED = 8  # failures of one cycle with their tracebacks
_SHARED = (Kind.ACCOUNT, Kind.RUNNING, Kind.RESERVATION, Kind.WINDOW)  # what jobs that wait may meet


class Failure(NamedTuple):
    """An exception, without its frames: they would keep the whole view."""

    text: str
    #: What functions had at hand, the innermost one first; empty beyond the first MAX_DETAILED.
    at_hand: Sequence[tuple[Suspect, ...]] = ()
    #: The traceback; empty beyond the first MAX_DETAILED.
    where: str = ""


@dataclass(slots=True)
class Trial:
    """What became of one plan."""

    #: None: the cycle raised outside of any single thing, and ended there.
    plan: Plan | None = None
    #: What it stumbled over, the first one first. After the first what follows may be its doing.
    stumbles: dict[Suspect, Failure] = field(default_factory=dict)
    #: What it raised at the end.
    failure: Failure | None = None

    def stumble(self, suspect: Suspect, error: Exception) -> None:
        self.stumbles.setdefault(suspect, _failure(error, detailed=len(self.stumbles) < MAX_DETAILED))

    def fail(self, error: Exception) -> None:
        self.failure = _failure(error, detailed=True)

    @property
    def is_clean(self) -> bool:
        return self.plan is not None and not self.stumbles

    def is_better_than(self, other: Trial) -> bool:
        """Return whether it failed at less: at a part of the same things, and at nothing else."""
        if self.failure is not None:
            return other.failure is not None and self.stumbles.keys() < other.stumbles.keys()
        if other.failure is not None:  # it came further, and may have met more there
            return True
        return self.stumbles.keys() < other.stumbles.keys()

    @property
    def first(self) -> Failure:
        """Return what came first; there is one."""
        return next(iter(self.stumbles.values()), None) or self.failure or Failure("")


Culprits = dict[Suspect, Failure]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, each with its failure."""

    #: What the planner fails at for certain.
    certain: Culprits
    #: What it failed at after something else, and which was not tried alone.
    doubtful: Culprits
    #: What it failed at only because it had failed at something else before.
    innocent: Culprits
    #: Of the cluster without all of these.
    plan: Plan


@dataclass(frozen=True, slots=True)
class Try:
    """A plan to be tried. `alone`: this job is the only one that waits, and nothing else is to be done."""

    without: Collection[Suspect]
    alone: Suspect | None = None


Search = Generator[Try, Trial, Found | None]


def search(given: Callable[[], Given], first: Trial) -> Search:
    """Find what must be left out so that the planner comes through; None: it was not found. `given`: what is planned
    now. `first`: the trial with all of it."""
    certain: Culprits = {}
    doubtful: Culprits = {}
    trial = first
    for _ in range(MAX_ROUNDS):
        if trial.is_clean and trial.plan is not None:
            return (yield from _sorted_out(certain, doubtful, trial.plan))
        out = [*certain, *doubtful]
        if (shared := (yield from _shared(given(), out, trial))) is not None:
            certain[shared] = trial.first
        elif trial.stumbles:
            (culprit, failure), *others = trial.stumbles.items()
            certain[culprit] = failure
            doubtful.update(others)
        elif (alone := (yield from _narrowed(given(), out, trial, [*Kind]))) is not None:
            certain[alone] = trial.first
        else:
            return None
        trial = yield Try([*certain, *doubtful])
    return None


def _sorted_out(certain: Culprits, doubtful: Culprits, plan: Plan) -> Generator[Try, Trial, Found]:
    """Try the first of the doubtful ones alone: those that fail are certain, the others are innocent."""
    guilty: Culprits = {}
    innocent: Culprits = {}
    for suspect in [*doubtful][:MAX_CHECKED]:
        trial = yield Try([other for other in (*certain, *doubtful) if other != suspect], alone=suspect)
        (innocent if trial.is_clean else guilty)[suspect] = doubtful[suspect]
    rest = {suspect: failure for suspect, failure in doubtful.items() if suspect not in (innocent | guilty)}
    return Found(certain | guilty, rest, innocent, plan)


def _shared(given: Given, out: Sequence[Suspect], trial: Trial) -> Generator[Try, Trial, Suspect | None]:
    """Return something without which the cycle fails at less than it stumbled over: jobs that wait may all have met the
    same running one. One that failed alone, with no other record as near at hand, is the culprit itself."""
    failures = [*trial.stumbles.values(), *([trial.failure] if trial.failure is not None else [])]
    if len(failures) == 1 and _was_about(given, [*trial.stumbles], failures[0]):
        return None
    hints = dict.fromkeys([s for failure in failures for own in failure.at_hand for s in _known(given, own)])
    for hint in [hint for hint in hints if hint not in trial.stumbles and hint not in out][:MAX_HINTS]:
        rest = yield Try([*out, hint])
        if rest.is_better_than(trial):
            return hint
    if len(trial.stumbles) > 1 and (found := (yield from _narrowed(given, out, trial, _SHARED))) is not None:
        rest = yield Try([*out, found])
        return found if rest.is_better_than(trial) else None
    return None


def _was_about(given: Given, stumbles: Sequence[Suspect], failure: Failure) -> bool:
    nearest = _known(given, failure.at_hand[0]) if failure.at_hand else []
    names = [suspect.name for suspect in stumbles]
    return bool(stumbles) and all(suspect.name in names or suspect.kind is Kind.PLUGIN for suspect in nearest)


def _known(given: Given, suspects: Collection[Suspect]) -> list[Suspect]:
    """Return those that can be left out. A gang that is no pending one may be about to be repaired."""
    found = []
    for suspect in suspects:
        repair = Suspect(Kind.REPAIR, suspect.name)
        if suspect.name in named(given, suspect.kind):
            found.append(suspect)
        elif suspect.kind is Kind.JOB and repair.name in named(given, Kind.REPAIR):
            found.append(repair)
    return found


def _narrowed(
    given: Given, out: Sequence[Suspect], trial: Trial, kinds: Sequence[Kind]
) -> Generator[Try, Trial, Suspect | None]:
    """Return one thing without which the cycle fails at less: of the first kind without which it does, by halves."""
    for kind in kinds:
        group = [suspect for name in named(given, kind) if (suspect := Suspect(kind, name)) not in out]
        rest = (yield Try([*out, *group])) if group else None
        if rest is None or not rest.is_better_than(trial):
            continue
        base = [*out]
        while len(group) > 1:
            half, other = group[: len(group) // 2], group[len(group) // 2 :]
            rest = yield Try([*base, *half])
            if rest.is_better_than(trial):
                group = half
            else:  # it fails without the one half: something in the other one is enough for that
                base += half
                group = other
        return group[0]
    return None


def _failure(error: Exception, *, detailed: bool) -> Failure:
    text = f"{type(error).__name__}: {error}"
    if not detailed:
        return Failure(text)
    return Failure(text, at_hand(error), "".join(traceback.format_exception(error)))
