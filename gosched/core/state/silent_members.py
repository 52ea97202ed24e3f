"""Members of gangs on a node that is not heard, which may live on there.

Invariant: a gang goes on without them, and none of them is started elsewhere while it may be at work with the others:
two of one rank end a run that was healthy.
"""

from __future__ import annotations

from gosched.core.records.job import Job, JobIntent, JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.job_spec import OnDisconnect
from gosched.core.spec.policies import MemberFailure
from gosched.core.state.cluster_state import ClusterState

_IN_PLACE = (TaskState.PLACED, TaskState.STARTING, TaskState.RUNNING, TaskState.SUCCEEDED)


def may_live_on(state: ClusterState, node_id: str, waited_ms: int) -> list[str]:
    """Return the allocations there of tasks that go on without the masters, in gangs that go on without the tasks and
    wait longer than that until they replace them."""
    held = [state.allocations[allocation] for allocation in state.node_allocations.get(node_id, ())]
    going_on = {
        job_id: state.jobs[job_id].spec.gang.replace_after_ms > waited_ms
        and _goes_on_without(state, state.jobs[job_id], node_id)
        for job_id in {a.job_id: 0 for a in held}
    }
    running = [a.id for a in held if state.tasks[a.task_id].state is TaskState.RUNNING]
    return [allocation for allocation in running if going_on[state.allocations[allocation].job_id]]


def _goes_on_without(state: ClusterState, job: Job, node_id: str) -> bool:
    if job.state is not JobState.RUNNING or job.intent is not JobIntent.RUN:
        return False
    if job.spec.on_disconnect is not OnDisconnect.KEEP or job.spec.gang.on_member_failure is not MemberFailure.CONTINUE:
        return False
    return keeps_floors(state, job, without=node_id)


def keeps_floors(state: ClusterState, job: Job, *, without: str = "") -> bool:
    """Return whether each group of the gang has its floor in place, but for the tasks on one node."""
    tasks, first = state.tasks_of(job), 0
    for group in job.spec.groups:
        own = tasks[first : first + group.count]
        if sum(task.state in _IN_PLACE and task.node_id != without for task in own) < group.floor:
            return False
        first += group.count
    return True
