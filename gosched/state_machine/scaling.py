"""How many tasks of an elastic job are wanted: people say it, or the application itself.

Invariant: a gang never falls below its minimum, and a task beyond what is wanted waits as one that was evicted.
"""

from __future__ import annotations

from gosched.core.events import Event, JobUpdated
from gosched.core.reasons import Reason
from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.task import Task, TaskState
from gosched.core.replace import replace
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine.evictions import counts, evict_tasks


def scale_problem(job: Job, wanted: int) -> str:
    """Return why the job cannot have so many tasks; empty: it can."""
    name = job.spec.name
    if job.spec.is_parent:
        return f"job {name} has no tasks of its own: scale the jobs that it makes"
    least, most = job.spec.gang.min_tasks, job.spec.task_count
    if least == most:
        return f"all {most} tasks of job {name} start together: only a job with gang.min can be scaled"
    if not least <= wanted <= most:
        return f"job {name} has {least} (gang.min) to {most} tasks: {wanted} are not possible"
    return ""


def scale(state: ClusterState, events: list[Event], job: Job, wanted: int) -> None:
    """Let the job have so many tasks. Of those that run, elastic ones with the highest ranks are stopped."""
    if wanted == (job.wanted or job.spec.task_count):
        return
    job = replace(job, scaled_to=wanted)
    state.put_job(job)
    events.append(JobUpdated(job_id=job.id))
    if job.state is JobState.RUNNING and job.intent is JobIntent.RUN:
        evict_tasks(state, events, job, _surplus(state, job), Reason.SCALED_DOWN)


def _surplus(state: ClusterState, job: Job) -> list[Task]:
    """Return the tasks beyond what is wanted, but no more than their groups can spare."""
    tasks = state.tasks_of(job)
    running = [task for task in tasks if task.state is not TaskState.SUCCEEDED and counts(task)]
    spare = {group.name: -group.floor for group in job.spec.groups}
    for task in tasks:
        spare[task.group] += counts(task)
    surplus: list[Task] = []
    for task in reversed(running):
        if len(running) - len(surplus) > job.wanted and spare[task.group] > 0:
            spare[task.group] -= 1
            surplus.append(task)
    return surplus
