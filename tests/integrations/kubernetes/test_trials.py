"""Random trials of rules about other pods: where kube-scheduler would place a pod, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence

import pytest
import structlog

from gosched.integrations.kube_objects.pod_rules import Selector, Term
from gosched.integrations.kubernetes.neighbours import Neighbours
from gosched.integrations.kubernetes.placing import Asking, Placing
from tests.integrations.kubernetes.simulated import Simulation
from tests.integrations.kubernetes.trials import Trial

SPREAD = ("spread",)
ALL = ("spread", "podAntiAffinity", "podAffinity")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


def trials(kinds: Collection[str], seeds: range) -> list[Trial]:
    found = []
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patch:
            trial = Trial(seed, Simulation(patch), kinds)
            asyncio.run(trial.run())
        found.append(trial)
    return found


def wrong(kinds: Collection[str], seeds: range) -> list[tuple[int, list[str], list[str]]]:
    """Return the seeds that show pods that are stuck, or placed illegally; and these."""
    found = zip(seeds, trials(kinds, seeds), strict=True)
    return [(seed, each.stuck, each.illegal) for seed, each in found if each.stuck or each.illegal]


@pytest.mark.parametrize("kinds", [SPREAD, ("podAntiAffinity",), ("podAffinity",), ALL], ids=",".join)
def test_pods_go_where_kube_scheduler_would_have_them(kinds: Collection[str]) -> None:
    assert wrong(kinds, range(120)) == []


@pytest.mark.parametrize("seed", [21_349, 24_156])  # members that were being bound excused each other
def test_a_gang_that_is_bound_keeps_to_a_pod_that_its_affinity_names(seed: int) -> None:
    assert wrong(ALL, range(seed, seed + 1)) == []


def test_a_gang_may_be_in_all_domains_that_have_a_pod_that_its_affinity_names() -> None:
    assert wrong(("podAffinity",), range(45_633, 45_634)) == []


def test_the_trials_bind_pods() -> None:
    assert sum(each.bound for each in trials(ALL, range(20))) > 20


def test_the_trials_see_a_pod_that_waits_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    def are_coming(self: Placing, term: Term, job: Sequence[Asking]) -> bool:
        own = {pod.uid for pod, _ in job}
        pods = self._neighbours.selected(term)
        others = [pod for pod in pods if pod.uid not in own and not self._neighbours.node_of(pod)]
        return self._waits and any(pod.uid in self._made or self._live_jobs_of(pod) for pod in others)

    monkeypatch.setattr(Placing, "_are_coming", are_coming)
    assert any(stuck for _, stuck, _ in wrong(SPREAD, range(60)))


def test_the_trials_see_a_placement_against_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Selector, "is_empty", True)  # no spread counts any pod
    monkeypatch.setattr(Neighbours, "broken", lambda self, pod, node: "")
    assert any(illegal for _, _, illegal in wrong(ALL, range(60)))
