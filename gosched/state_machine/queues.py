"""Queues: replaced all together, or not at all.

Invariant: they make a tree, as `core/rules/queues.py` checks, and live jobs stand in its leaves only.
"""

from __future__ import annotations

from gosched.core.commands.cluster import SetQueues
from gosched.core.events import Event, QueuesChanged
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.rules.queues import check_queues
from gosched.core.sharing import lineage, parent_of
from gosched.core.spec.job_spec import JobSpec
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine.accounts import change_half_lives
from gosched.state_machine.quotas import put_quotas, quotas_with
from gosched.state_machine.size_limits import queues_size_refusal

_NAMES_SHOWN = 10


def set_all(state: ClusterState, command: SetQueues, events: list[Event]) -> Outcome:
    """Refused when a queue would vanish, or get children, under its live jobs. Running jobs that hold more than a new
    limit go on."""
    outcome, quotas = checked(state, command)
    if isinstance(outcome, Rejected) or outcome.unchanged:
        return outcome
    change_half_lives(state, {queue.path: queue for queue in command.queues})
    state.set_queues(command.queues)
    put_quotas(state, quotas)
    events.append(QueuesChanged())
    return outcome


def checked(state: ClusterState, command: SetQueues) -> tuple[Outcome, dict[str, Quota]]:
    """Return what would come of the command, and the quotas after it; nothing is changed."""
    found = check_queues(command.queues)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found)), {}
    wanted = {queue.path: queue for queue in command.queues}
    quotas = quotas_with(state, command.quotas, replace=True) if command.sets_quotas else state.quotas
    if isinstance(quotas, Rejected):
        return quotas, {}
    refused = queues_size_refusal(state, command.queues)
    if refused is not None:
        return refused, {}
    if wanted == state.queues and quotas == state.quotas:
        return Accepted(unchanged=True), quotas
    problem = _job_problem(state, wanted)
    if problem:
        return Rejected(code=Code.CONFLICT, detail=problem), {}
    return Accepted(), quotas


def submission_refusal(state: ClusterState, spec: JobSpec) -> Rejected | None:
    """Return why the job may not go into the queue that it names."""
    if spec.queue not in state.queues:
        detail = f"no queue {spec.queue[:MAX_NAME_LENGTH]!a}; there are: {_some(sorted(state.queues)) or 'none yet'}"
        return Rejected(code=Code.NOT_FOUND, detail=detail)
    children = [path for path in state.queues if path.startswith(f"{spec.queue}.")]
    if children:
        detail = f"queue {spec.queue} has queues below it: submit to one of them: {_some(sorted(children))}"
        return Rejected(code=Code.INVALID, detail=detail)
    for path in lineage(spec.queue):
        tenants = state.queues[path].tenants
        if tenants and spec.tenant not in tenants:
            detail = f"queue {path} is for the tenants {_some(tenants)} only; the job's tenant is {spec.tenant}"
            return Rejected(code=Code.INVALID, detail=detail)
    return None


def _some(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")


def _job_problem(state: ClusterState, wanted: dict[str, Queue]) -> str:
    """About the first queue, by path, whose live jobs would stand in no leaf."""
    parents = dict.fromkeys(parent_of(path) for path in wanted)
    if all(path in wanted and path not in parents for path in state.queues):
        return ""
    first = min((path for path in state.counts.live_by_queue if path not in wanted or path in parents), default="")
    if not first:
        return ""
    change = "it gets queues below it" if first in wanted else "it goes"
    return f"queue {first} still has live jobs: cancel them or let them end before {change}"
