"""Nothing that was given up starts, whatever comes late."""

from __future__ import annotations

import pytest

from gosched.agent.logic.fence import Fence
from gosched.agent.logic.reconcile import Desired
from gosched.core.records.job import JobState
from tests.sim_cluster.late_messages import GivenUpStarted, World

SEEDS = range(5)
SECONDS = 150


def test_no_attempt_that_was_given_up_starts_whatever_comes_late() -> None:
    started = refused = 0
    for seed in SEEDS:
        world = World(seed).run(SECONDS)
        started, refused = started + world.started, refused + world.refused
        ended = sum(job.state is JobState.SUCCEEDED for job in world.leader.state.jobs.values())
        assert ended > 5, f"seed {seed}: the cluster does its work"
    assert started > 10 * len(SEEDS)
    assert refused > len(SEEDS)


def test_without_numbers_of_registrations_some_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fence, "problem", lambda self, registration: "")
    assert any(_starts_given_up(seed) for seed in range(40))


def test_without_revisions_some_would(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_push(self: Fence, desired: Desired, made: object) -> str:
        return self.problem(made.registration)  # type: ignore[attr-defined]

    monkeypatch.setattr(Fence, "take_push", take_push)
    assert any(_starts_given_up(seed) for seed in range(40))


def _starts_given_up(seed: int) -> bool:
    try:
        World(seed).run(SECONDS)
    except GivenUpStarted:
        return True
    return False
