"""Seeds of each profile of the simulator, on all cores; `make chaos SEEDS=100` runs more of them."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from gosched.sim.raft.profiles import PROFILES
from gosched.sim.raft.simulation import run

SEEDS = range(int(os.environ.get("SEEDS", "40")))

# What each hundred seeds must have met at least, or they prove little.
_MET_BY_ALL = {"crashes": 50, "crashes_in_turn": 30}
_MET = {
    "snap": {"snapshots_taken": 500, "snapshots_installed": 50, "crashes_in_replace": 10},
    "floodsnap": {"snapshots_taken": 500, "snapshots_installed": 50, "crashes_in_replace": 10},
    "stallsnap": {"snapshots_taken": 500, "snapshots_installed": 50, "crashes_in_replace": 10},
    "rtt300": {"snapshots_taken": 300, "snapshots_installed": 30},
    "crash": {"crashes": 1000, "crashes_in_replace": 100, "torn_tails": 200, "disks_full": 50},
    "wipe": {"wiped_and_joined": 50},
    "members": {"members_added": 150, "members_removed": 150, "wiped_and_joined": 100, "transfers": 100},
    "membersnap": {"members_added": 150, "members_removed": 150, "snapshots_installed": 100},
    "plain": {"transfers": 20, "disks_full": 10, "torn_tails": 30},
}


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("profile", PROFILES)
def test_the_seeds_hold_all_invariants(profile: str, pool: ProcessPoolExecutor) -> None:
    results = list(pool.map(run, [profile] * len(SEEDS), SEEDS, chunksize=5))
    violating = [f"{r.violation}; replay it with: {r.replay}" for r in results if r.violation]
    assert not violating, "\n".join(violating)
    hundreds = len(SEEDS) / 100
    assert sum(r.acked for r in results) > 5000 * hundreds
    assert sum(r.terms for r in results) > 1.5 * len(results)  # pre-votes leave few
    for what, least in (_MET_BY_ALL | _MET.get(profile, {})).items():
        assert sum(getattr(r.counts, what) for r in results) >= least * hundreds, what
