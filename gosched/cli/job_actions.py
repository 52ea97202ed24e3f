"""`goschedctl job cancel|hold|release|suspend|resume|requeue|scale`: on jobs that are named, or chosen by selectors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click

from gosched.api.job_query import JobQuery
from gosched.api.job_row import JobRow
from gosched.cli.connect import connect
from gosched.cli.job_selection import Chosen, choose, confirmed, selection_options, yes_option
from gosched.cli.output import counted, say, say_error, span
from gosched.client import GoSchedClient, GoSchedError, Refused, Unavailable
from gosched.core.commands.jobs import Action
from gosched.core.records.job import Job, JobState

_AT_ONCE = 8  # calls; what they change is committed together

commands: dict[str, click.Command] = {}

Act = Callable[[GoSchedClient, str], tuple[str, str]]  # a job's id or name -> its id, and what became of it


@click.command("cancel")
@selection_options
@yes_option
@click.option("--reason", default="", help="Stored with the job.")
@click.pass_context
def cancel(ctx: click.Context, /, jobs: tuple[str, ...], yes: bool, reason: str, **flags: Any) -> int:
    """Cancel jobs: their tasks get SIGTERM, and are killed when their grace period is over.

    JOB may be an array or a schedule: then all of it is cancelled. Selectors choose jobs that live.
    """

    def act(client: GoSchedClient, job: str) -> tuple[str, str]:
        answer = client.request_cancel(job, reason=reason)
        return answer.job_id, _already(client, answer.job_id) if answer.unchanged else "cancelled"

    return _do(ctx, jobs, flags, "cancel", "cancelled", act, lambda row: True, yes=yes)


@click.command("suspend")
@selection_options
@yes_option
@click.option(
    "--free",
    is_flag=True,
    help="Stop the tasks and free their resources; a resume starts them anew.",
)
@click.pass_context
def suspend(ctx: click.Context, /, jobs: tuple[str, ...], yes: bool, free: bool, **flags: Any) -> int:
    """Freeze the tasks of jobs where they run, until the jobs are resumed.

    Frozen tasks keep their memory, GPUs and nodes. With --free the tasks are stopped instead and their resources are
    free for other jobs; a resumed job then waits at its old position in the queue. Selectors choose jobs that run.
    """
    action, done = (Action.SUSPEND, "suspended, its resources are free") if free else (Action.FREEZE, "suspended")
    return _do(ctx, jobs, flags, "suspend", "suspended", _control(action, done), _runs, yes=yes)


@click.command("scale")
@click.argument("job")
@click.argument("tasks", type=click.IntRange(min=1))
@click.pass_context
def scale(ctx: click.Context, /, job: str, tasks: int) -> int:
    """Let a job with elastic tasks have so many TASKS, from gang.min to all of them.

    Tasks beyond are stopped, those with the highest ranks first, and wait; others join as soon as there is room. A
    job that waits starts with no more.
    """
    answer = connect(ctx).scale(job, tasks)
    became = "unchanged" if answer.unchanged else f"{counted(tasks, 'task')} wanted"
    say(f"{answer.job_id}: {became}")
    return 0


def _add(action: Action, done: str, fits: Callable[[JobRow], bool], help: str, act: Act | None = None) -> None:
    """Add the command of an action."""

    @click.command(action.name.lower(), help=help)
    @selection_options
    @yes_option
    @click.pass_context
    def control(ctx: click.Context, /, jobs: tuple[str, ...], yes: bool, **flags: Any) -> int:
        return _do(ctx, jobs, flags, action.name.lower(), done, act or _control(action, done), fits, yes=yes)

    commands[action.name.lower()] = control


def _do(
    ctx: click.Context,
    jobs: Sequence[str],
    flags: dict[str, Any],
    verb: str,
    done: str,
    act: Act,
    fits: Callable[[JobRow], bool],
    *,
    yes: bool,
) -> int:
    """Do it to each job, and print what became of it; return the exit code of the first that failed."""
    client = connect(ctx)
    chosen = choose(client, jobs, flags, fits, done)
    if not chosen:
        say(f"no job fits: nothing is {done}")
    if not confirmed(chosen, verb, yes=yes):
        say("nothing is changed")
        return 1
    code = 0
    for one, answer in _answers(client, chosen, act):
        if isinstance(answer, GoSchedError):
            say_error(one.name or one.job, answer)
            code = code or answer.exit_code
        else:
            job_id, became = answer
            say(f"{job_id}{f' ({one.name})' if one.name else ''}: {became}")
    return code


def _answers(
    client: GoSchedClient, chosen: Sequence[Chosen], act: Act
) -> Iterator[tuple[Chosen, tuple[str, str] | GoSchedError]]:
    """Yield each job with what became of it, in order. Raises Unavailable: the others would wait as long."""

    def one_answer(one: Chosen) -> tuple[str, str] | GoSchedError:
        try:
            return act(client, one.job)
        except Unavailable:
            raise
        except GoSchedError as error:
            return error

    if len(chosen) == 1:
        yield chosen[0], one_answer(chosen[0])
        return
    pool, left = ThreadPoolExecutor(_AT_ONCE), len(chosen)
    try:
        for one, answer in zip(chosen, pool.map(one_answer, chosen), strict=True):
            yield one, answer
            left -= 1
    except Unavailable as error:
        others = f"{counted(left, 'job')} of {len(chosen)}"
        raise Unavailable(f"{error}; what became of {others} is not known: repeat the command") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _already(client: GoSchedClient, job: str) -> str:
    """Return that a job is about to end. Raises Refused for one that has ended."""
    detail = client.get_job(job)
    if not detail.state.is_final:
        return "is about to end already"
    raise Refused(_how_it_ended(detail.job))


def _how_it_ended(job: Job) -> str:
    code = f" with exit code {job.exit_code}" if job.exit_code else ""
    return f"it ended {job.state.name}{code} {span(time.time() - job.ended_at_ms / 1000)} ago: nothing is cancelled"


def _control(action: Action, done: str) -> Act:
    def act(client: GoSchedClient, job: str) -> tuple[str, str]:
        answer = client.control(job, action)
        return answer.job_id, "unchanged" if answer.unchanged else done

    return act


def _with_elements(action: Action, done: str) -> Act:
    """Return an action that is done to an array or a schedule, and then to those of its jobs that wait: masters hold
    and release one job at a time."""
    act_alone = _control(action, done)

    def act(client: GoSchedClient, job: str) -> tuple[str, str]:
        job_id, became = act_alone(client, job)
        if not client.get_job(job_id).job.spec.is_parent:
            return job_id, became
        query = JobQuery(parent=job_id, states=(JobState.PENDING,))
        waiting = [row.id for rows in client.job_rows(query) for row in rows if row.held is (action is Action.RELEASE)]
        changed = 0
        for child in waiting:
            try:
                changed += not client.control(child, action).unchanged
            except Unavailable as error:
                of_them = f"{changed} of {counted(len(waiting), 'job')} of it that waited"
                raise Unavailable(f"{job_id} is {done}, with {of_them}: repeat the command; {error}") from error
            except Refused:
                continue  # it does not wait any more
        return job_id, f"{became}, and {counted(changed, 'job')} of it that waited" if changed else became

    return act


def _runs(row: JobRow) -> bool:
    return row.state is JobState.RUNNING


commands |= {"cancel": cancel, "suspend": suspend, "scale": scale}
_add(
    Action.HOLD,
    "held",
    lambda row: not row.held and (row.state is JobState.PENDING or row.children is not None),
    "Keep waiting jobs from starting until they are released. Of an array its elements that wait, and those to come.",
    _with_elements(Action.HOLD, "held"),
)
_add(
    Action.RELEASE,
    "released",
    lambda row: row.held,
    "Let held jobs start; of an array its elements, too.",
    _with_elements(Action.RELEASE, "released"),
)
_add(
    Action.RESUME,
    "resumed",
    lambda row: row.state is JobState.SUSPENDED,
    "Let suspended jobs run on; after suspend --free they wait at their old position in the queue.",
)
_add(Action.REQUEUE, "requeued", _runs, "Stop the tasks of jobs and put the jobs back into their queues.")
