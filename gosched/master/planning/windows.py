"""The nodes of a window: found by name, or chosen for an amount; and the jobs that are in the way there.

Invariant: these are pure functions of the state; the same state gives the same nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gosched.api.forecast import Reserved
from gosched.core.amounts import amount_text
from gosched.core.preemption_rules import may_restart
from gosched.core.records.job import Job
from gosched.core.records.node import Node, NodeState
from gosched.core.records.window import Window
from gosched.core.sharing import Amounts, charge_of, lineage
from gosched.core.spec.policies import RetryCause
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.errors import ApiError, invalid, not_found, unmet

MAX_SHOWN = 64  # characters of a name that no node has


def named_nodes(state: ClusterState, names: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted ids of nodes that are given by id or by name. Raises ApiError."""
    by_name: dict[str, list[str]] = {}
    for node in state.nodes.values():
        by_name.setdefault(node.name, []).append(node.id)
    found: dict[str, None] = {}
    for name in names:
        ids = [name] if name in state.nodes else by_name.get(name, [])
        if not ids:
            raise not_found(f"there is no node {name[:MAX_SHOWN]!a}")
        if len(ids) > 1:
            raise invalid(f"{len(ids)} nodes are named {name}: give one of the ids {', '.join(sorted(ids)[:3])}")
        found[ids[0]] = None
    return tuple(sorted(found))


def chosen_nodes(state: ClusterState, wanted: Mapping[str, int], window: Window) -> tuple[str, ...]:
    """Return the sorted ids of whole nodes that have the amounts (of `charge_of`) together: those without tasks first,
    then those with the fewest, of equal ones by id. None is dead, or in another window meanwhile. Raises ApiError."""
    if any(amount <= 0 for amount in wanted.values()):
        raise invalid("the resources of a window must be more than 0 each")
    taken = {
        node
        for other in state.windows.values()
        if other.name != window.name and _overlap(other, window)
        for node in other.nodes
    }
    free = [n for n in state.nodes.values() if n.state is not NodeState.DEAD and n.id not in taken]
    missing: Amounts = dict(wanted)
    chosen: list[str] = []
    for node in sorted(free, key=lambda n: (len(state.node_allocations[n.id]), n.id)):
        capacity = charge_of(node.usable, node.gpu_model)
        if any(missing[name] > 0 for name in missing.keys() & capacity.keys()):
            chosen.append(node.id)
            missing = {name: amount - capacity.get(name, 0) for name, amount in missing.items()}
    short = [name for name, amount in sorted(missing.items()) if amount > 0]
    if short:
        raise _too_little(short[0], wanted[short[0]], free)
    return tuple(sorted(chosen))


def in_the_way(state: ClusterState, window: Window) -> list[str]:
    """Return the ids of the jobs that may still run there when it starts, may not stay, and are never evicted."""
    jobs = {state.allocations[a].job_id: None for node in window.nodes for a in state.node_allocations.get(node, ())}
    return sorted(
        job_id
        for job_id in jobs
        if _may_run_at(state.jobs[job_id], window.start_ms)
        and not _may_stay(state.jobs[job_id], window)
        and not _is_evictable(state.jobs[job_id])
    )


def list_reservations(state: ClusterState) -> Reserved:
    """Return what is reserved; what starts first comes before the others."""
    return Reserved(
        windows=tuple(sorted(state.windows.values(), key=lambda w: (w.start_ms, w.name))),
        reservations=tuple(sorted(state.reservations.values(), key=lambda r: (r.start_ms, r.job_id))),
        fences=tuple(sorted(state.fences.values(), key=lambda f: (f.made_at_ms, f.job_id))),
        revision=state.revision,
    )


def _overlap(one: Window, other: Window) -> bool:
    return (not one.end_ms or other.start_ms < one.end_ms) and (not other.end_ms or one.start_ms < other.end_ms)


def _too_little(name: str, amount: int, nodes: list[Node]) -> ApiError:
    there = sum(charge_of(node.usable, node.gpu_model).get(name, 0) for node in nodes)
    has, needs = amount_text(name, there), amount_text(name, amount, bare=True)
    return unmet(f"the nodes outside other windows have {has} in total; the window needs {needs}")


def _may_run_at(job: Job, moment_ms: int) -> bool:
    return not job.spec.span_ms or job.placed_at_ms + job.spec.span_ms > moment_ms


def _may_stay(job: Job, window: Window) -> bool:
    return any(path in window.queues for path in lineage(job.spec.queue)) or job.spec.tenant in window.tenants


def _is_evictable(job: Job) -> bool:
    return job.spec.preemption.preemptible and may_restart(job, RetryCause.PREEMPTED)
