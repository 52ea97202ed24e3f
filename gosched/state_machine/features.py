"""The feature level of the cluster, and its id.

Invariant: the level never falls, and an id that was given once stays.
"""

from __future__ import annotations

from gosched.core.commands.cluster import SetFeatureLevel
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.rules.values import check_id
from gosched.core.state.cluster_state import ClusterState


def set_level(state: ClusterState, command: SetFeatureLevel) -> Outcome:
    """Founds the cluster while it has no epoch yet, and raises its level later. The leader has seen to it that all
    masters know the level."""
    found = check_id("cluster id", command.cluster_id)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    if command.level < state.feature_level:
        detail = f"the cluster is at feature level {state.feature_level}, which never falls"
        return Rejected(code=Code.CONFLICT, detail=detail)
    unchanged = command.level == state.feature_level and bool(state.cluster_id)
    if command.level > state.feature_level:
        state.raise_level(command.level)
    state.cluster_id = state.cluster_id or command.cluster_id
    return Accepted(subject=state.cluster_id, unchanged=unchanged)
