"""The feature level of the cluster, its id, and the key of its tasks' secrets.

Invariant: the level never falls, and an id or a key that was given once stays.
"""

from __future__ import annotations

from gosched.core.commands.cluster import SetFeatureLevel
from gosched.core.features import FeatureLevel
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.rules.values import check_id
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import answers


def set_level(state: ClusterState, command: SetFeatureLevel) -> Outcome:
    """Found the cluster while it has no epoch yet, and raise its level later. The leader has seen to it that all
    masters know the level."""
    found = check_id("cluster id", command.cluster_id) or check_id("task key", command.task_key)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    if command.level < state.feature_level:
        detail = f"the cluster is at feature level {state.feature_level}, which never falls"
        return Rejected(code=Code.CONFLICT, detail=detail)
    adds_key = bool(command.task_key) and not state.task_key and command.level >= FeatureLevel.BOUNDED
    unchanged = command.level == state.feature_level and bool(state.cluster_id) and not adds_key
    if command.level > state.feature_level:
        before = [answer for own in state.answers.values() for answer in own.values()]
        state.raise_level(command.level)
        answers.take_over(state, before)
    if not state.cluster_id:
        state.set_cluster_id(command.cluster_id)
    if adds_key:
        state.set_task_key(command.task_key)
    return Accepted(subject=state.cluster_id, unchanged=unchanged)
