"""Keeps the columns of a view up to date, at the cost of what changed.

Used on the thread that owns the state. Rule: after `apply` of all events, the columns equal those of a `reset`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np

from gosched.core.cluster import NodeState
from gosched.core.outcome import Event, JobChanged, NodeChanged, TaskChanged
from gosched.core.resources import GPU as MILLIS
from gosched.core.state import ClusterState
from gosched.scheduling.view import GPU, NodeColumns, PendingGang, View, amounts, pending_gang

MAX_GPUS = 1024  # of one node; a node that claims more is taken at this, or its row would have no bound


class ViewBuilder:
    """`nodes` are the live columns: read them on the owner's thread, and change nothing."""

    def __init__(self) -> None:
        self.nodes = NodeColumns.empty()
        self._gangs: dict[str, PendingGang] = {}

    def reset(self, state: ClusterState) -> None:
        self.nodes = NodeColumns.empty()
        self._refresh_nodes(state, list(state.nodes))
        self._gangs = {job_id: pending_gang(state.jobs[job_id]) for job_id in state.pending}

    def apply(self, state: ClusterState, events: Iterable[Event]) -> None:
        """`state` is the one after the events; call it once for a whole batch."""
        changed: dict[str, None] = {}  # nodes whose own record changed
        loaded: dict[str, None] = {}  # nodes whose allocations changed
        jobs: dict[str, None] = {}
        for event in events:
            if isinstance(event, TaskChanged):
                jobs[event.job_id] = None
                if event.before.is_active != event.after.is_active:
                    loaded[event.node_id] = None
            elif isinstance(event, JobChanged):
                jobs[event.job_id] = None
            elif isinstance(event, NodeChanged):
                changed[event.node_id] = None
        self._refresh_nodes(state, list(changed))
        self._refresh_load(state, [node for node in loaded if node not in changed])
        self._refresh_gangs(state, jobs)

    def view(self, state: ClusterState) -> View:
        return View(revision=state.revision, nodes=self.nodes.copy(), pending=tuple(self._gangs.values()))

    def _refresh_nodes(self, state: ClusterState, node_ids: Sequence[str]) -> None:
        if not node_ids:
            return
        self._admit(sorted(set(node_ids).difference(self.nodes.ids)))
        nodes = self.nodes
        rows = [nodes.row(node_id) for node_id in node_ids]
        records = [state.nodes[node_id] for node_id in node_ids]
        nodes.capacity[rows] = [amounts(r.capacity) for r in records]
        nodes.ready[rows] = [r.state is NodeState.READY for r in records]
        nodes.labels.assign(len(nodes), rows, [r.labels for r in records], [r.gpu_model for r in records])
        nodes.capacity[:, GPU] = np.minimum(nodes.capacity[:, GPU], MAX_GPUS * MILLIS)
        widest = int(nodes.capacity[:, GPU].max()) // MILLIS
        if (missing := widest - nodes.gpu_busy.shape[1]) > 0:
            nodes.gpu_busy = np.pad(nodes.gpu_busy, ((0, 0), (0, missing)), constant_values=True)
        self._refresh_load(state, node_ids)

    def _admit(self, new: Sequence[str]) -> None:
        """Makes rows for new nodes, at their places in the order of ids."""
        if not new:
            return
        nodes = self.nodes
        places = [bisect_left(nodes.ids, node_id) for node_id in new]
        nodes.ids = sorted([*nodes.ids, *new])
        nodes.capacity = np.asfortranarray(np.insert(nodes.capacity, places, 0, axis=0))
        nodes.free = np.asfortranarray(np.insert(nodes.free, places, 0, axis=0))
        nodes.ready = np.insert(nodes.ready, places, False)
        nodes.gpu_busy = np.insert(nodes.gpu_busy, places, True, axis=0)
        nodes.labels.insert(places)

    def _refresh_load(self, state: ClusterState, node_ids: Sequence[str]) -> None:
        if not node_ids:
            return
        nodes = self.nodes
        rows = [nodes.row(node_id) for node_id in node_ids]
        nodes.free[rows] = nodes.capacity[rows] - np.array([amounts(state.usage[n]) for n in node_ids], dtype=np.int64)
        gpus = nodes.capacity[rows, GPU] // MILLIS
        nodes.gpu_busy[rows] = np.arange(nodes.gpu_busy.shape[1]) >= gpus[:, None]
        for row, node_id, count in zip(rows, node_ids, gpus.tolist(), strict=True):
            if count:
                nodes.gpu_busy[row, [g for g in state.node_gpus_held(node_id) if g < count]] = True

    def _refresh_gangs(self, state: ClusterState, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            if job_id in state.pending:
                self._gangs[job_id] = pending_gang(state.jobs[job_id])
            else:
                self._gangs.pop(job_id, None)
