"""What stands above each page of a job: its name, its state, why it waits, and what can be done to it."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.access import Permission, job_object
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.access import Wording
from gosched.master.base.callers import Caller
from gosched.master.base.errors import ApiError
from gosched.master.jobs.expected_ends import ExpectedEnd, expected_end
from gosched.master.jobs.wait_reasons import wait_reason
from gosched.master.web.page import NoSuchPage
from gosched.master.web.sources import Sources
from gosched.state_machine.scaling import scale_problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A number that is asked for with the question."""

    #: As in the query of the REST route.
    name: str
    least: int
    most: int
    now: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What can be done to a job now."""

    #: As in its REST route.
    name: str
    #: What is asked before.
    question: str
    #: What is said after.
    done: str
    #: It ends what runs.
    harms: bool = False
    amount: Amount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHead:
    """A job in short."""

    job: Job
    state: JobState
    #: Why it waits, or ended as it did; a code. Empty: there is none.
    code: str
    #: The same in one line; may be empty.
    message: str
    actions: tuple[Action, ...]
    #: Of the array or the schedule that made it; empty: none did.
    parent_name: str
    #: How many tasks it has.
    tasks: int
    #: When it is expected to end.
    end: ExpectedEnd


def find_job(sources: Sources, caller: Caller, name: str) -> Job:
    """Return the job of an id or a name. Raises NoSuchPage, also where the caller may not see it."""
    try:
        job = sources.access.seen_job(caller, name)
    except ApiError as error:
        raise NoSuchPage(f"{error.detail[:1].upper()}{error.detail[1:]}.") from error
    if job is None or not sources.access.may(caller, Permission.VIEW_JOB, job_object(job)):
        problem = "It may have ended long ago and been forgotten, or this master has not heard of it yet."
        raise NoSuchPage(f"There is no job {name[:80]}. {problem}")
    return job


def head_of(state: ClusterState, job: Job, words: Wording = str) -> JobHead:
    known = None if job.state.is_final else wait_reason(state, job)
    parent = state.jobs.get(job.parent)
    return JobHead(
        job=job,
        state=job.shown_state,
        code=str(known[0]) if known else job.reason,
        message=words(known[1] if known else job.detail),
        actions=actions_of(job),
        parent_name=parent.spec.name if parent else job.parent,
        tasks=job.spec.task_count,
        end=expected_end(state, job),
    )


def actions_of(job: Job) -> tuple[Action, ...]:
    """Return what can be done to a job in its state."""
    if job.state.is_final or job.intent not in (JobIntent.RUN, JobIntent.RESTART, JobIntent.SUSPEND):
        return ()
    suspended = job.shown_state is JobState.SUSPENDED or job.intent is JobIntent.SUSPEND
    found = []
    if suspended:
        found.append(Action(name="resume", question="Let it run again?", done="It is resumed."))
    elif job.held:
        found.append(Action(name="release", question="Let it start?", done="It is released."))
    elif job.state is JobState.PENDING:
        question = "Keep it from starting until it is released?"
        found.append(Action(name="hold", question=question, done="It is held."))
    if job.state is JobState.RUNNING and not suspended and not job.spec.is_parent:
        question = "Freeze its tasks where they run? They keep what they hold until it is resumed."
        found.append(Action(name="suspend", question=question, done="It is suspended.", harms=True))
        question = "Stop its tasks, and put it back into its queue?"
        found.append(Action(name="requeue", question=question, done="It is back in its queue.", harms=True))
    least, most = job.spec.gang.min_tasks, job.spec.task_count
    wanted = job.wanted or most
    if not scale_problem(job, wanted):
        amount = Amount(name="tasks", least=least, most=most, now=wanted)
        question = f"How many tasks shall it have, from {least} to {most}? Those beyond that are stopped."
        found.append(Action(name="scale", question=question, done="It is scaled.", amount=amount))
    cancel = Action(name="cancel", question="End it for good?", done="It is cancelled.", harms=True)
    return (*found, cancel)
