"""Queues: replaced all together, or not at all."""

from __future__ import annotations

from gosched.core.cluster import Queue, QueueType
from gosched.core.command import SetQueues
from gosched.core.limits import MAX_QUEUES
from gosched.core.outcome import Accepted, Code, Event, Outcome, QueuesChanged, Rejected
from gosched.core.state import ClusterState
from gosched.machine.names import name_problem

_ALL_PCT = 100
_MAX_WEIGHT = 1_000_000


def set_all(state: ClusterState, command: SetQueues, events: list[Event]) -> Outcome:
    """Refused when a queue would vanish under its live jobs."""
    problem = _problem(command.queues)
    if problem:
        return Rejected(code=Code.INVALID, detail=problem)
    wanted = {queue.path: queue for queue in command.queues}
    if wanted == state.queues:
        return Accepted(unchanged=True)
    deserted = _deserted(state, wanted)
    if deserted:
        detail = f"queue {deserted} still has live jobs: cancel them or let them end before it goes"
        return Rejected(code=Code.CONFLICT, detail=detail)
    state.set_queues(command.queues)
    events.append(QueuesChanged())
    return Accepted()


def _problem(queues: tuple[Queue, ...]) -> str:
    if not 0 < len(queues) <= MAX_QUEUES:
        return f"there are 1 to {MAX_QUEUES} queues; {len(queues)} were given"
    paths: dict[str, None] = {}
    shares: dict[str, int] = {}
    for queue in queues:
        problem = name_problem("queue path", queue.path) or _queue_problem(queue)
        if problem:
            return problem
        if queue.path in paths:
            return f"queue {queue.path} is given twice"
        paths[queue.path] = None
        parent = queue.path.rpartition(".")[0]
        shares[parent] = shares.get(parent, 0) + queue.capacity_pct
        if shares[parent] > _ALL_PCT:
            return f"queue {queue.path}: its capacity and that of the queues beside it exceed 100 percent"
    return ""


def _queue_problem(queue: Queue) -> str:
    path = queue.path
    if "" in path.split("."):
        return f"queue path {path} has an empty part"
    if queue.type is QueueType.UNSPECIFIED:
        return f"queue {path}: type must be fifo, fair or capacity"
    if not 1 <= queue.weight <= _MAX_WEIGHT:
        return f"queue {path}: weight {queue.weight} is not between 1 and {_MAX_WEIGHT}"
    if not 0 <= queue.capacity_pct <= _ALL_PCT:
        return f"queue {path}: capacity_pct {queue.capacity_pct} is not between 0 and 100"
    if not max(1, queue.capacity_pct) <= queue.max_pct <= _ALL_PCT:
        return f"queue {path}: max_pct {queue.max_pct} is not between its capacity_pct (at least 1) and 100"
    return ""


def _deserted(state: ClusterState, wanted: dict[str, Queue]) -> str:
    """The first queue, by path, that would vanish under a live job."""
    if all(path in wanted for path in state.queues):
        return ""
    paths = [j.spec.queue for j in state.jobs.values() if not j.state.is_final and j.spec.queue not in wanted]
    return min(paths, default="")
