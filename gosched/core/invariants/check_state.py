"""Checks of a whole state, for tests and simulations.

Invariant: everything is recomputed from the tables, so no index vouches for itself.
"""

from __future__ import annotations

from gosched.core.invariants.access import access_problems
from gosched.core.invariants.fences import fence_index_problems, fence_problems, fenced_capacity_problems
from gosched.core.invariants.footprint import footprint_problems
from gosched.core.invariants.gangs import gang_problems
from gosched.core.invariants.indexes import index_problems, kept_job_problems, registry_problems
from gosched.core.invariants.jobs import job_problems, relative_problems
from gosched.core.invariants.join import join_problems
from gosched.core.invariants.nodes import capacity_problems, device_problems, node_problems
from gosched.core.invariants.reservations import reservation_problems
from gosched.core.invariants.revocation import revocation_problems
from gosched.core.invariants.run_histories import run_history_problems
from gosched.core.invariants.secrets import secret_problems
from gosched.core.invariants.sharing import sharing_problems, spending_problems, sum_problems
from gosched.core.invariants.tasks import allocation_problems, task_problems
from gosched.core.invariants.unix_accounts import unix_account_problems
from gosched.core.invariants.windows import window_problems
from gosched.core.state.cluster_state import ClusterState


def check(state: ClusterState) -> list[str]:
    """Return the violations, one line each; an empty list for a sound state."""
    return [
        *node_problems(state),
        *spending_problems(state),
        *capacity_problems(state),
        *device_problems(state),
        *allocation_problems(state),
        *task_problems(state),
        *job_problems(state),
        *gang_problems(state),
        *fence_problems(state),
        *fenced_capacity_problems(state),
        *reservation_problems(state),
        *window_problems(state),
        *access_problems(state),
        *secret_problems(state),
        *unix_account_problems(state),
        *run_history_problems(state),
        *revocation_problems(state),
        *join_problems(state),
        *sharing_problems(state),
        *index_problems(state),
        *fence_index_problems(state),
        *sum_problems(state),
        *relative_problems(state),
        *kept_job_problems(state),
        *registry_problems(state),
        *footprint_problems(state),
    ]
