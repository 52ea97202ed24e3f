"""A state from a frozen one, such as a snapshot holds."""

from __future__ import annotations

from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.tables import TABLES, VALUES, FrozenState


def restore(frozen: FrozenState) -> ClusterState:
    """Return a state that goes on exactly as the frozen one would have; the indexes are made anew."""
    state = ClusterState(feature_level=frozen.feature_level)
    for name in VALUES:
        setattr(state, name, getattr(frozen, name))
    if frozen.configuration is not None:
        state.set_configuration(frozen.configuration)
    for table in TABLES:
        put = getattr(state, f"put_{table.record}")
        for _, record in table.items(frozen):
            put(record)
    state.order_finished()
    return state
