"""Run times that the simulated cluster learns, and what comes of them."""

from __future__ import annotations

import pytest

from gosched.core.spec.policies import Preemption
from gosched.scheduling.backfill import release_profile
from gosched.sim.cluster.trace import TraceJob
from tests.sim_cluster.support import by_name, job, nodes, simulated

STAYS = Preemption(preemptible=False)


def busy_cluster_of_small_jobs() -> list[TraceJob]:
    """Four nodes that are full, a job that wants all of them, and small jobs that come faster than they end. Nobody
    says how long anything runs."""
    first = [job(0, 100 + 40 * number, cpus=4, name=f"first{number}") for number in range(4)]
    small = [job(6 + 5 * number, 120, cpus=2, name=f"small{number}", preemption=STAYS) for number in range(100)]
    return [*first, job(5, 300, tasks=4, cpus=4, name="wide"), *small]


def wide_start_s() -> int:
    found = by_name(simulated(busy_cluster_of_small_jobs(), nodes(4, cpus=4)))["wide"].start_ms
    assert found is not None
    return found // 1000


def test_a_wide_gang_does_not_wait_for_all_later_small_jobs_though_nobody_states_a_duration() -> None:
    assert wide_start_s() < 500


def test_a_planner_that_expects_nothing_lets_it_wait_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_profile, "_is_learned", lambda gang, now_ms: False)
    assert wide_start_s() > 1500
