"""Applies log entries to a state: the one place where bytes of the log meet the state machine.

The replica and the front of a master each hold an Applier; the same log makes them equal.
"""

from __future__ import annotations

from gosched.core.features import FeatureLevel
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.interface import AppliedCommand, Observer
from gosched.state_machine import MachineBug, apply
from gosched.wire.batch import Batch, decode_batch

# Records live long and hold no cycles: with Python's own thresholds the collector walks them in vain, for some 4 % of
# the time of both processes of a master. Given to gc.set_threshold once at their start.
GC_THRESHOLD = (100_000, 20, 100)


class Applier:
    """Owns a state. Raises UnknownSchema for an entry of a newer version; the state is then unchanged. Raises
    MachineBug, with the place of its command; the state is then of no use."""

    def __init__(self) -> None:
        self.observers: list[Observer] = []
        self.state = ClusterState(feature_level=FeatureLevel.FIRST)

    def apply(self, data: bytes) -> tuple[Batch, tuple[AppliedCommand, ...]]:
        batch = decode_batch(data)
        applied: list[AppliedCommand] = []
        for command in batch.commands:
            try:
                outcome, events = apply(self.state, command)
            except MachineBug as bug:
                bug.position = len(applied) + 1
                raise
            one = AppliedCommand(
                revision=self.state.revision,
                at_ms=self.state.clock_ms,
                command=command,
                outcome=outcome,
                events=events,
            )
            applied.append(one)
            for observe in self.observers:
                observe(self.state, one)
        return batch, tuple(applied)
