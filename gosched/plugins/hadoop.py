"""Hadoop: tasks near the HDFS blocks that they read, on the same node or at least in the same rack.

Invariant: it only prefers nodes and excludes none; an entry that cannot be read is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from gosched.plugins import MAX_SCORE, IntArray, Nodes, Plugin, Request, with_defaults

BLOCKS = "hdfs.gosched.io/blocks"
STEP = 10  # few different scores are cheap to look through
MAX_DIGITS = 9


class Hadoop(Plugin):
    name = "hadoop"
    api_version = 1
    job_labels = (BLOCKS,)

    def __init__(self, options: Mapping[str, str]) -> None:
        self._rack_label = with_defaults(options, {"rack_label": "rack"})["rack_label"]

    def score(self, request: Request, nodes: Nodes) -> IntArray | None:
        """Score the node with most blocks 100, the rack with most blocks 50, and others in proportion."""
        codes, racks = nodes.label(self._rack_label)
        on_node = np.zeros(len(nodes), dtype=np.int64)
        in_rack = np.zeros(len(racks) + 1, dtype=np.int64)  # the last one: nodes without a rack
        for host, blocks in _blocks(request.labels.get(BLOCKS, "")):
            rows = nodes.rows([host])
            on_node[rows] += blocks
            in_rack[codes[rows[:1]]] += blocks  # once, however many agents share the host
        if not on_node.any():
            return None
        in_rack[-1] = 0
        return np.maximum(_parts(on_node, MAX_SCORE), _parts(in_rack, MAX_SCORE // 2)[codes])


def _blocks(text: str) -> Iterator[tuple[str, int]]:
    """Yield the hosts and numbers in a text such as "node1:3,node2:1"."""
    for entry in text.split(","):
        host, _, number = entry.strip().rpartition(":")
        if host and number.isdecimal() and len(number) <= MAX_DIGITS:
            yield host, int(number)


def _parts(amounts: IntArray, most: int) -> IntArray:
    """Return each amount as a part of the largest, which gets `most`; in steps."""
    parts: IntArray = amounts * most // max(int(amounts.max()), 1) // STEP * STEP
    return parts
