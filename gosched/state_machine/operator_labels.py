"""Labels and taints that operators set, beside those of the agent's config.

Invariant: no label of an operator has the key of one of the agent, and no taint its key and effect: where the agent's
config comes to name one, it is the agent's from then on.
"""

from __future__ import annotations

from gosched.core.primitives import StringMap
from gosched.core.records.node import Node
from gosched.core.spec.placement_rules import Taint


def kept_from_operator(
    known: Node | None, labels: StringMap, taints: tuple[Taint, ...]
) -> tuple[StringMap, tuple[Taint, ...]]:
    """Return what operators set on a node, and stays when its agent registers with these labels and taints."""
    if known is None:
        return (), ()
    keys, places = dict(labels), [place_of(taint) for taint in taints]
    kept = tuple([pair for pair in known.labels if pair[0] in known.set_labels and pair[0] not in keys])
    return kept, tuple([taint for taint in known.set_taints if place_of(taint) not in places])


def place_of(taint: Taint) -> tuple[str, int]:
    """Return the key and the effect, which no two taints of a node share."""
    return taint.key, taint.effect
