"""The feature level: which fields of the log and which behaviour of `apply` every master of the cluster knows.

A master knows all levels up to its newest and writes none beyond the cluster's. A new cluster begins at its first
leader's newest level; after an upgrade of all masters an operator raises it, by a command in the log. So masters of two
releases apply the same log alike. Invariant: what `apply` does may depend on the state's level, never on the release.

4: what was released before levels were (a log that names no level).
5: cluster ids and levels themselves; all that is checked for with `FeatureLevel.BOUNDED`.
"""

from __future__ import annotations

from enum import IntEnum


class FeatureLevel(IntEnum):
    """A name for each level that some code asks for: `state.feature_level >= FeatureLevel.BOUNDED`."""

    FIRST = 4
    BOUNDED = 5


NEWEST_LEVEL = max(FeatureLevel)
