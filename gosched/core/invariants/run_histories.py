"""Histories of run times: few of them, each of few run times."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.limits import MAX_RUN_HISTORIES, RUN_TIMES_KEPT
from gosched.core.run_times import LEAST_RANK_MILLI, MOST_RANK_MILLI
from gosched.core.state.cluster_state import ClusterState


def run_history_problems(state: ClusterState) -> Iterator[str]:
    if len(state.run_histories) > MAX_RUN_HISTORIES:
        yield f"there are {len(state.run_histories)} histories of run times"
    for key, history in state.run_histories.items():
        if key != history.key:
            yield f"the history {history.key} is in the wrong place, {key}"
        if not 0 < len(history.run_ms) <= RUN_TIMES_KEPT or min(history.run_ms) <= 0:
            yield f"the history {key} has the run times {history.run_ms}"
        if not LEAST_RANK_MILLI <= history.rank_milli <= MOST_RANK_MILLI:
            yield f"the history {key} has the rank {history.rank_milli}"
