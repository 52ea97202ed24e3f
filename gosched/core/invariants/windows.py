"""Windows: of nodes that are there, and no more than allowed."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.limits import MAX_WINDOWS
from gosched.core.state.cluster_state import ClusterState


def window_problems(state: ClusterState) -> Iterator[str]:
    if len(state.windows) > MAX_WINDOWS:
        yield f"there are {len(state.windows)} windows"
    for name, window in state.windows.items():
        if window.name != name or 0 < window.end_ms <= window.start_ms:
            yield f"window {name} is in the wrong place, or ends before it starts"
        if any(node not in state.nodes for node in window.nodes):
            yield f"window {name} is of nodes that are not there"
