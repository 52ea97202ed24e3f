"""What is found out for one gang in a cycle is not found out again for those that are alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.plans import GangPlacement
from gosched.core.records.job import Job
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.records.window import Window
from gosched.scheduling import Policy, View, ViewBuilder, schedule
from gosched.scheduling.actions.start_now import StartNow
from gosched.scheduling.snapshot.task_requests import PendingGang
from tests.scheduling.support.cluster import group, job, node, state_of

LIMITED = Queue(path="default", limit=(("cpu", 100_000),))
NLP = Quota(tenant="nlp", limit=(("cpu", 50_000),))
NIGHT = Window(name="night", nodes=("a",), start_ms=1 << 40, end_ms=1 << 41)


def of_tenant(sequence: int, tenant: str) -> Job:
    wide = job(sequence, group(cpu=5))
    return replace(wide, spec=replace(wide.spec, tenant=tenant))


def view(*tenants: str) -> View:
    state = state_of([node("a", cpu=4), node("b", cpu=4)], [of_tenant(i, t) for i, t in enumerate(tenants, 1)])
    state.set_queues((LIMITED,))
    builder = ViewBuilder()
    builder.reset(state)
    return builder.view(state)


def tried(seen: View, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many gangs the cycle tries to start; all of them wait, with an explanation."""
    started: list[str] = []
    start = StartNow.start

    def counted(self: StartNow, gang: PendingGang, shape: object) -> GangPlacement | None:
        started.append(gang.job_id)
        return start(self, gang, shape)

    with monkeypatch.context() as patched:
        patched.setattr(StartNow, "start", counted)
        plan = schedule(seen, Policy(reservations=0), 0, 7)
    assert len(plan.explanations) == len(seen.pending)
    return len(started)


def test_tenants_without_a_quota_are_alike_under_the_limit_of_their_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(view("t1", "t2", "t3"), monkeypatch) == 1


def test_a_tenant_with_a_quota_is_looked_at_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = replace(view("t1", "nlp", "t2", "nlp"), quotas={"nlp": NLP})
    assert tried(seen, monkeypatch) == 2


def test_tenants_are_told_apart_while_there_are_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = replace(view("t1", "t2", "t1"), windows=(NIGHT,))
    assert tried(seen, monkeypatch) == 2
