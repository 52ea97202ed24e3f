"""Queues: replaced all together, or not at all. Rule: they make a tree, and live jobs stand in its leaves only."""

from __future__ import annotations

from gosched.core.commands.cluster import SetQueues
from gosched.core.events import Event, QueuesChanged
from gosched.core.limits import MAX_DURATION_MS, MAX_NAME_LENGTH, MAX_QUEUES, MAX_TENANTS_PER_QUEUE
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.queue import Queue, QueueType
from gosched.core.sharing import Amounts, add_to, lineage, parent_of
from gosched.core.spec.job_spec import JobSpec
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine.accounts import change_half_lives
from gosched.state_machine.names import name_problem, order_problem, vector_problem
from gosched.state_machine.quotas import put_quotas, quotas_with
from gosched.state_machine.size_limits import queues_size_refusal

_ALL_PCT = 100
_MAX_WEIGHT = 1_000_000
_MIN_HALF_LIFE_MS = 60_000
_NAMES_SHOWN = 10


def set_all(state: ClusterState, command: SetQueues, events: list[Event]) -> Outcome:
    """Refused when a queue would vanish, or get children, under its live jobs. Running jobs that hold more than a new
    limit go on."""
    problem = _problem(command.queues)
    if problem:
        return Rejected(code=Code.INVALID, detail=problem)
    wanted = {queue.path: queue for queue in command.queues}
    quotas = quotas_with(state, command.quotas, replace=True) if command.sets_quotas else state.quotas
    if isinstance(quotas, Rejected):
        return quotas
    refused = queues_size_refusal(state, command.queues)
    if refused is not None:
        return refused
    if wanted == state.queues and quotas == state.quotas:
        return Accepted(unchanged=True)
    problem = _job_problem(state, wanted)
    if problem:
        return Rejected(code=Code.CONFLICT, detail=problem)
    change_half_lives(state, wanted)
    state.set_queues(command.queues)
    put_quotas(state, quotas)
    events.append(QueuesChanged())
    return Accepted()


def submission_refusal(state: ClusterState, spec: JobSpec) -> Rejected | None:
    """Why the job may not go into the queue that it names."""
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


def _problem(queues: tuple[Queue, ...]) -> str:
    if not 0 < len(queues) <= MAX_QUEUES:
        return f"there are 1 to {MAX_QUEUES} queues; {len(queues)} were given"
    known: dict[str, Queue] = {}
    for queue in queues:
        problem = name_problem("queue path", queue.path) or _queue_problem(queue)
        if problem:
            return problem
        if queue.path in known:
            return f"queue {queue.path} is given twice"
        known[queue.path] = queue
    return _tree_problem(known)


def _tree_problem(queues: dict[str, Queue]) -> str:
    shares: dict[str, int] = {}
    guaranteed: dict[str, Amounts] = {}
    for path, queue in queues.items():
        parent = parent_of(path)
        if parent and parent not in queues:
            return f"queue {path} lacks its parent: add the queue {parent}"
        shares[parent] = shares.get(parent, 0) + queue.capacity_pct
        if shares[parent] > _ALL_PCT:
            return f"queue {path}: its capacity and that of the queues beside it exceed 100 percent"
        add_to(guaranteed.setdefault(parent, {}), dict(queue.guaranteed))
    for parent, promised in guaranteed.items():
        for name, most in queues[parent].guaranteed if parent else ():
            if promised.get(name, 0) > most:
                return f"queue {parent} is guaranteed {most} of {name}, the queues below it {promised[name]} together"
    return ""


def _queue_problem(queue: Queue) -> str:
    path = queue.path
    if "" in path.split("."):
        return f"queue path {path} has an empty part"
    if queue.type is QueueType.UNSPECIFIED:
        return f"queue {path}: type must be fifo, fair or capacity"
    if not 1 <= queue.weight <= _MAX_WEIGHT:
        return f"queue {path}: weight {queue.weight} is not between 1 and {_MAX_WEIGHT}"
    if queue.max_running_jobs < 0:
        return f"queue {path}: max_running_jobs {queue.max_running_jobs} must not be negative"
    if queue.half_life_ms and not _MIN_HALF_LIFE_MS <= queue.half_life_ms <= MAX_DURATION_MS:
        return f"queue {path}: half_life of {queue.half_life_ms} ms is not between a minute and 366 days"
    return _share_problem(queue) or _tenants_problem(queue)


def _share_problem(queue: Queue) -> str:
    path = queue.path
    if queue.type is not QueueType.CAPACITY and (queue.capacity_pct or queue.guaranteed):
        return f"queue {path}: only a queue of type capacity has capacity_pct or guaranteed; a fair one has a weight"
    if not 0 <= queue.capacity_pct <= _ALL_PCT:
        return f"queue {path}: capacity_pct {queue.capacity_pct} is not between 0 and 100"
    if not max(1, queue.capacity_pct) <= queue.max_pct <= _ALL_PCT:
        return f"queue {path}: max_pct {queue.max_pct} is not between its capacity_pct (at least 1) and 100"
    problem = vector_problem(f"queue {path}: guaranteed", queue.guaranteed)
    problem = problem or vector_problem(f"queue {path}: limit", queue.limit)
    if problem:
        return problem
    limit = dict(queue.limit)
    for name, amount in queue.guaranteed:
        if amount > limit.get(name, amount):
            return f"queue {path} is guaranteed {amount} of {name}, more than its limit of {limit[name]}"
    return ""


def _tenants_problem(queue: Queue) -> str:
    what = f"queue {queue.path}: tenants"
    if len(queue.tenants) > MAX_TENANTS_PER_QUEUE:
        return f"{what}: {len(queue.tenants)} are named; at most {MAX_TENANTS_PER_QUEUE} are allowed"
    for tenant in queue.tenants:
        problem = name_problem(f"queue {queue.path}: tenant", tenant)
        if problem:
            return problem
    return order_problem(what, queue.tenants)


def _job_problem(state: ClusterState, wanted: dict[str, Queue]) -> str:
    """About the first queue, by path, whose live jobs would stand in no leaf."""
    parents = dict.fromkeys(parent_of(path) for path in wanted)
    if all(path in wanted and path not in parents for path in state.queues):
        return ""
    first = min((path for path in state.live_in if path not in wanted or path in parents), default="")
    if not first:
        return ""
    change = "it gets queues below it" if first in wanted else "it goes"
    return f"queue {first} still has live jobs: cancel them or let them end before {change}"
