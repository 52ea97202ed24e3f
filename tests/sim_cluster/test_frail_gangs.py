"""One fault makes several events: no job is FAILED whose retry covers the cause, no gang loses its place to a later
one, ranks go back to their nodes, no member is started beside itself. Each fault that was there is found again.

`python -m tests.sim_cluster.frail_gangs 1000` lives through as many seeds as you like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gosched.core.reasons import Reason
from gosched.scheduling.preemption import gang_repair
from gosched.scheduling.snapshot import builder
from gosched.state_machine import gangs, nodes
from tests.sim_cluster.frail_gangs import World, Wrong

SEEDS = 25

Fault = Callable[[pytest.MonkeyPatch], None]


def test_nothing_wrong_becomes_of_gangs_whose_members_fail_with_their_peers() -> None:
    seen = World(0).run().seen
    for seed in range(1, SEEDS):
        seen += World(seed).run().seen
    assert all(seen[what] for what in ("restart", "node crashed", "agent away", "cut from masters", "rank killed")), (
        seen
    )


def _the_first_report_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "_explains_failure", lambda *_: False)


def _failures_lose_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builder.restarts_in_place
    monkeypatch.setattr(
        builder, "restarts_in_place", lambda job: real(job) and job.reason == Reason.NODE_LOST and job.active > 0
    )


def _places_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_repair, "_kept", lambda *_: [])


def _replacements_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "may_live_on", lambda *_: [])
    monkeypatch.setattr("tests.sim_cluster.frail_gangs.may_live_on", lambda *_: [])


def _failures_after_a_loss_are_the_jobs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    real = gangs._cause
    monkeypatch.setattr(gangs, "_cause", lambda state, job, task: real(state, replace(job, lost_at_ms=0), task))


@pytest.mark.parametrize(
    ("fault", "seeds"),
    [
        (_the_first_report_decides, (0, 13)),
        (_failures_lose_their_place, (1, 10)),
        (_places_are_forgotten, (6, 10)),
        (_replacements_do_not_wait, (6, 21)),
        (_failures_after_a_loss_are_the_jobs_own, (100,)),
    ],
)
def test_a_fault_that_was_there_is_found(monkeypatch: pytest.MonkeyPatch, fault: Fault, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        World(seed).run()
    fault(monkeypatch)
    for seed in seeds:
        world = World(seed)
        with pytest.raises(Wrong):
            world.run()
