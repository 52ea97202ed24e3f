"""The simulator can fail: without one mend of the replicated log it finds a violation within a few seeds.

Mends that rarely show under random faults have their own scenarios in tests/replication/test_hazards_rules.py.
"""

from __future__ import annotations

import pytest

from gosched.sim.raft.simulation import run

from .mutations import MUTATIONS

_SEEDS = 80


@pytest.mark.parametrize(
    ("mutation", "profile", "seen"),
    [
        ("R1: a snapshot message raises the commit index", "floodsnap", "committed otherwise"),
        ("R2: entries that are there are cut off and sent anew", "flood", "only on the disks"),
        ("R7: success is told before the journal is synced", "crash", "only on the disks"),
        ("R10: heartbeats without end while a snapshot waits", "snap", "sends without end"),
        ("R7: success is told of more than is synced", "slowsync", "only on the disks"),
        ("R14: a leader counts what it has not synced", "slowsync", "only on the disks"),
        ("R14: a lost disk's copies count", "members", "copies up to entry"),
        ("R16: learners are counted", "members", "no agreement"),
        ("R16: another change begins before the last one is committed", "membersnap", "without the committed entry"),
        ("the journal is not synced", "crash", "only on the disks"),
        ("term and vote are not synced", "crash", "restarts in term"),
        ("entries after the snapshot are dropped at the start", "crash", "only on the disks"),
        ("the log is not made to agree with the snapshot", "crash", "only on the disks"),
    ],
)
def test_without_its_mend_a_violation_is_found(mutation: str, profile: str, seen: str) -> None:
    with MUTATIONS[mutation].applied():
        violations = (run(profile, seed).violation for seed in range(_SEEDS))
        assert any(seen in violation for violation in violations)
