"""Spark: near the data, and the executors of one application together.

Invariant: it only prefers nodes and excludes none; a label that cannot be read is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gosched.plugins import IntArray, Nodes, Plugin, Request, with_defaults

LOCALITY_NODES = "spark.gosched.io/locality-nodes"
LOCALITY_RACKS = "spark.gosched.io/locality-racks"
APPLICATION = "spark-app-selector"

NODE_LOCAL, RACK_LOCAL = 60, 30
TOGETHER = 40


class Spark(Plugin):
    name = "spark"
    api_version = 1
    job_labels = (LOCALITY_NODES, LOCALITY_RACKS)
    tracked_labels = (APPLICATION,)

    def __init__(self, options: Mapping[str, str]) -> None:
        self._rack_label = with_defaults(options, {"rack_label": "rack"})["rack_label"]

    def score(self, request: Request, nodes: Nodes) -> IntArray | None:
        """Score hosts of the data 60 and their racks 30; nodes with tasks of the same application get 40 more."""
        hosts, racks = _listed(request.labels.get(LOCALITY_NODES)), _listed(request.labels.get(LOCALITY_RACKS))
        alike = request.alike.get(APPLICATION)
        if not hosts and not racks and alike is None:
            return None
        rows = nodes.rows(hosts)
        codes, names = nodes.label(self._rack_label)
        near = {names[code] for code in codes[rows].tolist() if code >= 0}
        score = np.where(nodes.having(self._rack_label, near.union(racks)), RACK_LOCAL, 0)
        score[rows] = NODE_LOCAL
        if alike is not None:
            score += np.where(alike > 0, TOGETHER, 0)
        return score


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
