"""What raises in a front costs one turn of one thing: the master lives, leads, and starts jobs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from gosched.core.commands.plans import GangPlacement
from gosched.core.records.job import JobState
from gosched.core.state.cluster_state import ClusterState
from gosched.master import server
from gosched.master.agents.dispatch import Dispatcher
from gosched.master.api import metrics_facts
from gosched.master.base.errors import ApiError, unavailable
from gosched.master.base.job_changes import JobChanges
from gosched.master.cluster.clock_keeper import ClockKeeper
from gosched.master.history import recorder
from gosched.master.jobs.schedules import Schedules
from gosched.master.leader.leader import Leader
from gosched.master.planning import cycles
from gosched.master.planning.cycles import Cycles
from gosched.master.planning.eviction_watch import EvictionWatch
from gosched.master.web.changes import Changes
from gosched.observe import faults
from gosched.observe.counts import ClusterCounts
from gosched.observe.faults import Faults
from gosched.observe.metrics import MasterMetrics
from gosched.scheduling import ViewBuilder
from gosched.state_machine import bugs, plans
from gosched.wire.v1 import scheduler_pb2
from tests.master.harness import LIMIT_S, agent, one_master, spec, until

#: Each raises at every call from the moment on at which a master leads.
LISTENERS: list[tuple[Any, str, str]] = [
    (server, "log_events", "log lines of events"),
    (MasterMetrics, "take", "metrics of events"),
    (ClusterCounts, "take", "counts"),
    (JobChanges, "take", "changes of jobs"),
    (recorder, "derive", "history"),
    (recorder.Recorder, "_note", "wait reasons in history"),
    (EvictionWatch, "take", "evictions"),
    (Dispatcher, "take", "orders"),
    (Schedules, "take", "schedules"),
    (Changes, "_wake", "listener Changes._on_batch"),
    (ViewBuilder, "apply", "planner's columns"),
    (Leader, "_drop_leases", "leases"),
]


class Bug(Exception):
    pass


@pytest.fixture(autouse=True)
def _brief_log() -> Iterator[None]:
    """Without the values of variables, which tracebacks of a whole state would have by the thousand."""
    with structlog.testing.capture_logs():
        yield


def broken(*_: Any, **__: Any) -> Any:
    raise Bug("a bug")


def counted(text: bytes) -> set[str]:
    """The parts of which exceptions were counted."""
    lines = [line for line in text.decode().splitlines() if line.startswith("gosched_internal_errors_total{")]
    return {line.partition('part="')[2].partition('"')[0] for line in lines}


def test_listeners_that_raise_cost_themselves_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with one_master() as master, agent(master) as worker:
            for where, name, _ in LISTENERS:
                monkeypatch.setattr(where, name, broken)
            job = (await master.submit(spec())).job_id
            await until(lambda: master.state.jobs[job].state is JobState.RUNNING)
            # Orders of a dispatcher that cannot follow are brought by heartbeats.
            await worker.beat(master)
            assert len(worker.orders) == 1
            assert master.leads
            await until(lambda: counted(master.server.metrics.text()) >= {part for *_, part in LISTENERS})
            monkeypatch.undo()
            second = (await master.submit(spec("second"))).job_id
            await until(lambda: master.state.jobs[second].state is JobState.RUNNING)
            await until(lambda: len(worker.orders) == 2)
            assert b'gosched_jobs{queue="default",state="RUNNING"} 2.0' in master.server.metrics.text()

    asyncio.run(test())


def test_loops_of_a_leader_that_raise_are_begun_again_and_the_epoch_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with one_master() as master, agent(master):
            epoch = master.state.epoch
            loops = [(Cycles, "_cycle"), (Leader, "_moments"), (Leader, "_drop_finished")]
            loops += [(ClockKeeper, "_complain"), (ClockKeeper, "keep_up")]
            for where, name in loops:
                monkeypatch.setattr(where, name, broken)
            job = (await master.submit(spec())).job_id
            await until(lambda: counted(master.server.metrics.text()) >= {"cycles", "timers", "clocks of masters"})
            assert master.state.jobs[job].state is JobState.PENDING
            monkeypatch.undo()
            await until(lambda: master.state.jobs[job].state is JobState.RUNNING)
            assert master.state.epoch == epoch

    asyncio.run(test())


def test_answers_that_raise_cost_that_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with one_master() as master:
            job = (await master.submit(spec(cpus=4))).job_id
            await master.until_planned(job)
            monkeypatch.setattr(cycles, "explain_on_request", broken)
            monkeypatch.setattr(metrics_facts, "oldest_pending_s", broken)
            request = scheduler_pb2.GetJobRequest(job=job)
            explained = await master.scheduler.ExplainJob(request, timeout=LIMIT_S)
            assert explained.code == "NO_NODE", "what the newest cycle found is still told"
            text = master.server.metrics.text()
            assert b"gosched_raft_is_leader 1.0" in text, "other metrics are shown"
            assert counted(master.server.metrics.text()) >= {"explanation", "metrics of the cluster"}

    asyncio.run(test())


def test_a_loop_that_ends_or_raises_is_begun_again_later_each_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def test() -> None:
        monkeypatch.setattr(faults, "FIRST_PAUSE_S", 0.001)
        seen: Counter[str] = Counter()
        kept = Faults(lambda part: seen.update([part]))
        ends = iter([Bug("a bug"), None, Bug("a bug"), unavailable("the lead is lost")])

        async def loop() -> None:
            if (error := next(ends)) is not None:
                raise error

        with pytest.raises(ApiError, match="the lead is lost"):
            async with asyncio.timeout(LIMIT_S):
                await kept.keep("loop", loop, passes=(ApiError,))
        assert seen == {"loop": 3}

    asyncio.run(test())


def test_one_traceback_of_a_part_is_logged_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(faults.log, "error", lambda event, **more: told.append(more["part"]), raising=False)
    seen: Counter[str] = Counter()
    kept = Faults(lambda part: seen.update([part]))
    for part in ("a", "a", "b", "a"):
        with kept.guarded(part):
            raise Bug("a bug")
    assert told == ["a", "b"]
    assert seen == {"a": 3, "b": 1}


def test_a_gang_that_the_state_machine_fails_at_is_set_aside_and_others_start(monkeypatch: pytest.MonkeyPatch) -> None:
    right = plans._gang_problem

    def broken(state: ClusterState, gang: GangPlacement) -> str:
        if state.jobs[gang.job_id].spec.name == "bad":
            raise Bug
        return right(state, gang)

    monkeypatch.setattr(plans, "_gang_problem", broken)
    monkeypatch.setattr(bugs, "ALIKE", (*bugs.ALIKE, Bug))

    async def story() -> None:
        async with one_master() as master:
            bad = (await master.submit(spec("bad", cpus=4))).job_id
            async with agent(master) as worker:
                good = (await master.submit(spec("good", cpus=4))).job_id
                await until(lambda: [order.partition("/")[0] for order in worker.orders] == [good])
                request = scheduler_pb2.GetJobRequest(job=bad)
                explained = await master.scheduler.ExplainJob(request, timeout=LIMIT_S)
                assert explained.code == "PLANNER_BUG"
                assert "Bug in CommitPlan, a bug of gosched" in explained.message

    asyncio.run(story())
