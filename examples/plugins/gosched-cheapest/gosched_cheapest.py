"""The cheapest nodes first, and none above what a job may pay.

Nodes say what they cost, in whole cents an hour, in a label (`price`, or the one that the option `price_label` names);
those without it cost nothing. A job says with its label `max-price` what it pays at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gosched.plugins import MAX_SCORE, BoolArray, IntArray, Nodes, Plugin, Request, with_defaults

MAX_PRICE = "max-price"
STEP = 10  # few different scores are cheap to look through
MAX_DIGITS = 9


class Cheapest(Plugin):
    name = "cheapest"
    api_version = 1
    job_labels = (MAX_PRICE,)

    def __init__(self, options: Mapping[str, str]) -> None:
        self._price_label = with_defaults(options, {"price_label": "price"})["price_label"]

    def filter(self, request: Request, nodes: Nodes) -> Sequence[tuple[str, BoolArray]]:
        limit = request.labels.get(MAX_PRICE)
        return [] if limit is None else [("too dear", self._prices(nodes) <= _cents(limit))]

    def score(self, request: Request, nodes: Nodes) -> IntArray | None:
        prices = self._prices(nodes)
        dearest = int(prices.max(initial=0))
        return (dearest - prices) * MAX_SCORE // dearest // STEP * STEP if dearest else None

    def _prices(self, nodes: Nodes) -> IntArray:
        """One number for each value of the label, then one look-up for all nodes; the last entry is for code -1."""
        codes, values = nodes.label(self._price_label)
        return np.array([*(_cents(value) for value in values), 0], dtype=np.int64)[codes]


def _cents(text: str) -> int:
    """What cannot be read is 0: a mistake in one job or node must not switch the plugin off for all."""
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else 0
