"""Whether one queue may take back room that others hold.

Rule: nobody is taken below a guarantee that he holds, and only what is held beyond one is taken back.
"""

from __future__ import annotations

from collections.abc import Iterable

from gosched.core.preemption_rules import below_common
from gosched.core.records.job import Job
from gosched.core.sharing import Amounts, add_to, charge_of, guarantees, lineage
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine.headroom import fenced_charge, leaving_allocations


def reclaim_problem(state: ClusterState, for_job: Job, allocations: list[str], fences: list[str]) -> str:
    """Of the queues that hold the allocations and the fences (of these jobs), looked at below the lowest ancestor that
    they share with the job's."""
    guaranteed = guarantees(state.queues, state.total)
    taken: dict[str, Amounts] = {}
    for path, charge in [*_charges(state, allocations), *_fenced_charges(state, fences)]:
        add_to(taken.setdefault(below_common(for_job.spec.queue, path)[0], {}), charge)
    for path, charge in taken.items():
        before = _held(state, path)
        after = dict(before)
        add_to(after, charge, -1)
        floor = guaranteed[path]
        crossed = [name for name in floor if before.get(name, 0) >= floor[name] > after[name]] if floor else []
        if crossed:
            name = min(crossed)
            return f"queue {path} would hold {after[name]} {name}, it is guaranteed {floor[name]}"
        if all(after[name] < floor.get(name, 0) for name in charge):
            return f"queue {path} holds no more than it is guaranteed"
    return ""


def _charges(state: ClusterState, allocations: Iterable[str]) -> list[tuple[str, Amounts]]:
    found = [state.allocations[allocation] for allocation in allocations]
    return [(state.jobs[a.job_id].spec.queue, charge_of(a.resources, a.gpu_model)) for a in found]


def _fenced_charges(state: ClusterState, jobs: Iterable[str]) -> list[tuple[str, Amounts]]:
    return [(state.jobs[job].spec.queue, fenced_charge(state, state.fences[job])) for job in jobs]


def _held(state: ClusterState, path: str) -> Amounts:
    """Once all fences have become starts."""
    held: Amounts = {}
    for (queue, _, model), resources in state.charges.items():
        if path in lineage(queue):
            add_to(held, charge_of(resources, model))
    for queue, charge in _charges(state, leaving_allocations(state)):
        if path in lineage(queue):
            add_to(held, charge, -1)
    for queue, charge in _fenced_charges(state, state.fences):
        if path in lineage(queue):
            add_to(held, charge)
    return held
