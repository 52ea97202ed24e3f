"""Calls the planner, and keeps what makes it fail from stopping all others.

What is set aside (a job, a repair, a window ...) is tried again after a while, or once it has changed.

Invariant: a bug of the planner never ends a master, and is never hidden: the log has its traceback, the job its
explanation, a metric its kind. A cycle that has found out what it fails at plans everything else at once.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from gosched.core.reasons import WaitReason
from gosched.core.sharing import lineage
from gosched.core.text import printable
from gosched.logs.failures import exhausted
from gosched.master.planning.culprits import MAX_TRIALS, Failure, Found, Search, Trial, Try, search
from gosched.scheduling import Explanation, Plan, Policy, View, schedule
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.suspects import Given, Kind, Suspect, named, without

SEARCH_S = 2.0  # of one cycle for trials; the search goes on in the next one
FIRST_RETRY_MS, LAST_RETRY_MS = 60_000, 3_600_000  # until something is tried again; doubled each time
CHANGED_MS = 10_000  # something that has changed is tried again after so long
SEARCH_AGAIN_MS = 30_000  # after a search that found nothing
RETRY_MS = 1_000  # after a plan that came to nothing
MAX_DOUBLINGS = 10
MAX_SHOWN = 200  # characters of an exception
UNKNOWN = "unknown"  # the kind of a culprit that was not found

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SetAside:
    """Something that is not planned for now."""

    #: The record in the view; another one means that it has changed.
    thing: object
    since_ms: int
    #: When it is tried again. One that is tried is remembered until a plan comes through.
    until_ms: int
    #: How often in a row the planner failed at it.
    times: int
    #: The exception, as one line.
    why: str
    #: The state machine failed at what the planner made of it.
    is_refused: bool = False


class Planner:
    """The planner, used by one thread at a time. `on_bug` is told the kind of each culprit, and UNKNOWN for each cycle
    whose culprit is not known."""

    def __init__(
        self,
        policy: Policy,
        on_bug: Callable[[str], None] = lambda kind: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._on_bug = on_bug
        self._monotonic = monotonic
        #: It is replaced, never changed: other threads read it.
        self.set_aside: Mapping[Suspect, SetAside] = {}
        self._given: Given | None = None  # what is planned now
        self._search: Search | None = None
        self._next = Try(())  # what the search wants to be tried
        self._trials = 0
        self._search_from_ms = 0

    def reset(self) -> None:
        self.set_aside = {}
        self._search, self._search_from_ms = None, 0

    def plan(self, view: View, now_ms: int, seed: int) -> Plan:
        """Return a plan without what makes the planner fail, an empty one if that is not known. Never raises."""
        try:
            self._look_again((view, self._policy), now_ms)
            plan = self._plan(view, now_ms, seed)
            if self.set_aside or self._search is not None:
                self._explain(plan, view, now_ms)
        except Exception:  # whatever it is: the next cycle tries again
            self._search = None
            self._give_up(now_ms, traceback.format_exc())
            plan = _nothing(view, now_ms, seed, _WHATEVER)
        return plan

    def given(self, view: View, now_ms: int) -> Given:
        """Return what queries are asked about: the view and the policy without what is set aside."""
        return without((view, self._policy), self._out(now_ms), now_ms)

    def why(self, job_id: str) -> Explanation | None:
        """Return what the planner failed at of a job; None: nothing."""
        for kind in (Kind.JOB, Kind.REPAIR, Kind.RUNNING, Kind.RESERVATION):
            if (aside := self.set_aside.get(Suspect(kind, job_id))) is not None:
                return _explanation(Suspect(kind, job_id), aside)
        return None

    def _out(self, now_ms: int) -> list[Suspect]:
        return [suspect for suspect, aside in self.set_aside.items() if aside.until_ms > now_ms]

    def _look_again(self, given: Given, now_ms: int) -> None:
        """Forget what is not there any more; what has changed is tried again, but not at each change."""
        if not self.set_aside:
            return
        there = {kind: named(given, kind) for kind in dict.fromkeys([suspect.kind for suspect in self.set_aside])}
        kept: dict[Suspect, SetAside] = {}
        for suspect, aside in self.set_aside.items():
            thing = there[suspect.kind].get(suspect.name)
            if thing is not None:
                has_changed = thing is not aside.thing and now_ms >= aside.since_ms + CHANGED_MS
                kept[suspect] = replace(aside, until_ms=0) if has_changed else aside
        self.set_aside = kept

    def _plan(self, view: View, now_ms: int, seed: int) -> Plan:
        self._given = self.given(view, now_ms)
        try:
            plan = schedule(*self._given, now_ms, seed)
        except Exception as error:
            if lack := exhausted(error):
                log.error("nothing is planned in this cycle", why=lack)
                return _nothing(self._planned_now()[0], now_ms, seed, _LACKING)
            if self._search is None:
                if 0 < self._search_from_ms - now_ms <= SEARCH_AGAIN_MS:
                    self._on_bug(UNKNOWN)
                    return self._without_extras(now_ms, seed)
                log.error("the planner met a bug, please report it", why=repr(error), where=traceback.format_exc())
                self._trials = 0
                self._search = search(self._planned_now, self._tried(Try(()), now_ms, seed))
                if (found := self._ask(None)) is not None:
                    return self._take(found, now_ms, seed)
            return self._searched(now_ms, seed)
        self._search = None  # what it was about has gone
        self.set_aside = {
            s: aside for s, aside in self.set_aside.items() if aside.is_refused or aside.until_ms > now_ms
        }
        return plan

    def _planned_now(self) -> Given:
        assert self._given is not None
        return self._given

    def _searched(self, now_ms: int, seed: int) -> Plan:
        """Go on with the search for as long as one cycle may. Return the plan without what it finds; or, if it is still
        under way, without what it has under suspicion."""
        ends_s = self._monotonic() + SEARCH_S
        plan: Plan | None = None
        while self._search is not None and self._trials < MAX_TRIALS:
            asked, trial = self._next, self._tried(self._next, now_ms, seed)
            self._trials += 1
            if trial.is_clean and asked.alone is None:
                plan = trial.plan
            if (found := self._ask(trial)) is not None:
                return self._take(found, now_ms, seed)
            if self._search is not None and self._monotonic() > ends_s:
                return plan or self._without_extras(now_ms, seed)
        self._search = None
        self._give_up(now_ms, "")
        return plan or self._without_extras(now_ms, seed)

    def _ask(self, trial: Trial | None) -> Found | None:
        """Hand a trial to the search. Return what it has found; None: it goes on, or has ended in vain."""
        assert self._search is not None
        try:
            self._next = next(self._search) if trial is None else self._search.send(trial)
        except StopIteration as end:
            self._search = None
            found: Found | None = end.value
            return found
        return None

    def _tried(self, asked: Try, now_ms: int, seed: int) -> Trial:
        view, policy = without(self._planned_now(), asked.without, now_ms)
        if asked.alone is not None:
            view = _alone(view, asked.alone)
        trial = Trial()
        try:
            trial.plan = schedule(view, policy, now_ms, seed, trial.stumble)
        except Exception as error:  # it is what is looked for; the log has had the first one
            trial.fail(error)
        return trial

    def _take(self, found: Found, now_ms: int, seed: int) -> Plan:
        """Set aside what was found."""
        view, _ = given = self._planned_now()
        self._set_aside(found.certain, now_ms)
        self._set_aside(found.doubtful, now_ms, CHANGED_MS)
        plan = found.plan
        if plan.revision != view.revision:  # of an earlier cycle, in which the search began
            plan = schedule(*without(given, self._out(now_ms), now_ms), now_ms, seed)
        plan.more = plan.more or bool(found.innocent)
        return plan

    def refuse(self, job_id: str, why: str, now_ms: int) -> None:
        """Set aside what was planned of a job in the last cycle: the state machine met a bug with it."""
        given = self._planned_now()
        kinds = [kind for kind in (Kind.JOB, Kind.REPAIR, Kind.RESERVATION) if job_id in named(given, kind)]
        self._set_aside({Suspect(kind, job_id): Failure(why) for kind in kinds}, now_ms, is_refused=True)

    def _set_aside(
        self, failures: Mapping[Suspect, Failure], now_ms: int, wait_ms: int = 0, *, is_refused: bool = False
    ) -> None:
        """`wait_ms`: until these are tried again; 0: the longer, the more often the planner failed at them."""
        given = self._planned_now()
        there = {kind: named(given, kind) for kind in dict.fromkeys([suspect.kind for suspect in failures])}
        asides = dict(self.set_aside)
        for suspect, failure in failures.items():
            times = (asides[suspect].times if suspect in asides else 0) + 1
            again_ms = wait_ms or min(FIRST_RETRY_MS << min(times - 1, MAX_DOUBLINGS), LAST_RETRY_MS)
            asides[suspect] = SetAside(
                thing=there[suspect.kind].get(suspect.name),
                since_ms=now_ms,
                until_ms=now_ms + again_ms,
                times=times,
                why=_line(failure.text),
                is_refused=is_refused,
            )
            self._on_bug(suspect.kind.value)
            if failure.where:
                log.error(
                    "the planner met a bug, please report it; this is set aside for a while",
                    kind=suspect.kind.value,
                    name=suspect.name,
                    again_in_s=again_ms // 1000,
                    where=failure.where,
                )
        self.set_aside = asides

    def _without_extras(self, now_ms: int, seed: int) -> Plan:
        """Return a plan of the jobs that wait alone; an empty one if that fails, too."""
        given = self._planned_now()
        out = [Suspect(kind, name) for kind in _EXTRAS for name in named(given, kind)]
        trial = self._tried(Try(out), now_ms, seed)
        return trial.plan if trial.is_clean and trial.plan is not None else _nothing(given[0], now_ms, seed, _WHATEVER)

    def _give_up(self, now_ms: int, where: str) -> None:
        self._on_bug(UNKNOWN)
        if not 0 < self._search_from_ms - now_ms <= SEARCH_AGAIN_MS:
            self._search_from_ms = now_ms + SEARCH_AGAIN_MS
            log.error("it is not known at what the planner fails; it tries again, please report it", where=where)

    def _explain(self, plan: Plan, view: View, now_ms: int) -> None:
        """Say of each job that the plan is not about why not."""
        known = dict.fromkeys([gang.job_id for gang in plan.gangs])
        for suspect, aside in self.set_aside.items():
            plan.wake_at(aside.until_ms)
            if suspect.kind is Kind.RESERVATION and (why := plan.explanations.get(suspect.name)) is not None:
                note = _explanation(suspect, aside).message
                plan.explanations[suspect.name] = replace(why, message=f"{why.message}; {note}")
        for gang in view.pending:
            if gang.job_id not in known and gang.job_id not in plan.explanations:
                plan.explanations[gang.job_id] = self._of(gang) or _SUSPECTED

    def _of(self, gang: PendingGang) -> Explanation | None:
        own = [Suspect(Kind.JOB, gang.job_id), Suspect(Kind.QUOTA, gang.tenant)]
        for suspect in [*own, *(Suspect(Kind.QUEUE, path) for path in lineage(gang.queue))]:
            if (aside := self.set_aside.get(suspect)) is not None:
                return _explanation(suspect, aside)
        return None


def _alone(view: View, suspect: Suspect) -> View:
    """Return the view with one thing to be done."""
    name = suspect.name
    return replace(
        view,
        pending=tuple([gang for gang in view.pending if gang.job_id == name]),
        repairs=tuple([repair for repair in view.repairs if repair.job_id == name]),
        reservations={job_id: r for job_id, r in view.reservations.items() if job_id == name},
        windows=tuple([w for w in view.windows if suspect.kind is not Kind.WINDOW or w.name == name]),
    )


def _explanation(suspect: Suspect, aside: SetAside) -> Explanation:
    what = _WHAT.get(suspect.kind) or f"{suspect.kind.value} {suspect.name}"
    message = (
        f"the planner met a bug with {what} ({aside.why}): please report it with the leader's log; it is tried again"
        f" after {(aside.until_ms - aside.since_ms) // 1000} s, or when it has changed"
    )
    return Explanation(code=WaitReason.PLANNER_BUG, message=message)


def _nothing(view: View, now_ms: int, seed: int, why: Explanation) -> Plan:
    plan = Plan(revision=view.revision, planned_at_ms=now_ms, seed=seed)
    plan.explanations.update(dict.fromkeys([gang.job_id for gang in view.pending], why))
    plan.wake_at(now_ms + RETRY_MS)
    return plan


def _line(text: str) -> str:
    return printable(" ".join(text.split()))[:MAX_SHOWN]


_EXTRAS = (Kind.ACCOUNT, Kind.REPAIR, Kind.RUNNING, Kind.RESERVATION, Kind.WINDOW)
_WHAT = {
    Kind.JOB: "it",
    Kind.REPAIR: "its repair",
    Kind.RUNNING: "what it holds",
    Kind.RESERVATION: "its reserved start",
}
_SUSPECTED = Explanation(
    code=WaitReason.QUEUED,
    message="the planner met a bug and looks for what it is about; its turn comes in a later cycle",
)
_LACKING = Explanation(
    code=WaitReason.QUEUED,
    message="the leader lacks memory or the like, as its log says, and planned nothing in this cycle",
)
_WHATEVER = Explanation(
    code=WaitReason.PLANNER_BUG,
    message="the planner meets a bug whatever it plans: please report it with the leader's log; it tries again",
)
