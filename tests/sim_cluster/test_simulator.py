"""The virtual clock: what jobs and agents do happens at its time, and the records say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.plans import Cause, CommitPlan, Eviction, GangPlacement
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.job import JobState
from gosched.core.records.queue import Queue, QueueOrder
from gosched.core.records.reservation import Reservation, Share
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.policies import Preemption
from gosched.scheduling import Policy
from gosched.sim.cluster import simulator as module
from gosched.sim.cluster.simulator import START_MS, SimulationFailed, Simulator
from gosched.sim.cluster.trace import TraceJob
from tests.sim_cluster.support import by_name, job, nodes, simulated

FIFO = Policy(order=QueueOrder.FIFO, reservations=0, max_victims=0)


def test_jobs_wait_for_room_and_take_their_time() -> None:
    found = by_name(simulated([job(0, 60, cpus=4, name="a"), job(10, 30, cpus=2, name="b")], nodes(), policy=FIFO))
    a, b = found["a"], found["b"]
    assert (a.start_ms, a.end_ms) == (0, 60_000)
    assert (b.submit_ms, b.start_ms, b.end_ms) == (10_000, 60_000, 90_000)
    assert (a.state, b.state) == (JobState.SUCCEEDED, JobState.SUCCEEDED)


def test_a_job_that_takes_longer_than_its_timeout_is_ended_then() -> None:
    found = by_name(
        simulated([job(0, 60, name="late", timeout_ms=30_000), job(0, 30, name="exact", timeout_ms=30_000)], nodes())
    )
    assert (found["late"].state, found["late"].reason, found["late"].end_ms) == (JobState.FAILED, "TIMEOUT", 30_000)
    assert found["exact"].state is JobState.SUCCEEDED


def test_hours_in_which_nothing_happens_pass_at_once() -> None:
    day_s = 86_400
    found = by_name(simulated([job(0, None, name="a", timeout_ms=day_s * 1000), job(2 * day_s, 10, name="b")], nodes()))
    assert (found["a"].reason, found["a"].end_ms) == ("TIMEOUT", day_s * 1000)
    assert found["b"].start_ms == 2 * day_s * 1000


def test_a_job_without_an_end_runs_on_and_the_simulation_ends() -> None:
    found = by_name(simulated([job(0, None, name="service"), job(5, 10, name="b")], nodes()))
    assert found["service"].state is JobState.RUNNING
    assert found["service"].end_ms is None


def test_a_job_that_never_fits_waits_for_ever() -> None:
    recorder = simulated([job(0, 10, cpus=5, name="big"), job(0, 10, name="b")], nodes())
    assert by_name(recorder)["big"].state is JobState.PENDING
    assert recorder.end_ms == 10_000


def test_cycles_are_a_period_apart() -> None:
    jobs = [job(second, 5, name=f"j{second}") for second in range(20)]
    recorder = simulated(jobs, nodes(cpus=40), period_ms=10_000)
    assert len(recorder.cycles_s) == 3
    assert {record.start_ms for record in recorder.jobs.values()} == {0, 10_000, 20_000}


def test_elements_of_an_array_take_the_duration_of_the_array() -> None:
    from gosched.core.spec.array import Array

    recorder = simulated([job(0, 10, name="many", array=Array(first=0, last=4, step=1, parallelism=2))], nodes())
    assert sorted(by_name(recorder)) == [f"many.{i}" for i in range(5)]
    assert recorder.end_ms == 30_000


def test_a_job_that_begins_later_starts_then_though_nothing_else_happens() -> None:
    found = by_name(simulated([job(0, 10, name="a", begin_in_ms=60_000), job(0, 10, cpus=4, name="b")], nodes()))
    assert (found["a"].start_ms, found["b"].start_ms) == (60_000, 0)


def test_a_dependent_job_starts_after_the_other() -> None:
    from gosched.core.spec.dependency import Condition, Dependency

    after = (Dependency(job="a", condition=Condition.SUCCESS),)
    found = by_name(simulated([job(0, 60, name="a"), job(1, 10, name="b", after=after)], nodes()))
    assert found["b"].start_ms == 60_000


def test_amounts_over_time_add_up_to_the_work_done() -> None:
    recorder = simulated([job(i, 100, cpus=1, name=f"j{i}") for i in range(50)], nodes(cpus=4))
    assert recorder.series.total("cpu_millis") == 50 * 100_000 * 1000
    assert recorder.series.total("queue:default") == 50 * 100_000 * 1000


def test_a_job_that_a_master_would_refuse_is_named() -> None:
    with pytest.raises(SimulationFailed, match=r"SubmitJob: .*nowhere"):
        simulated([job(0, 10, queue="nowhere")], nodes())


def test_the_same_inputs_give_the_same_records() -> None:
    jobs = [job(i // 3, 20 + i % 7, cpus=1 + i % 3, name=f"j{i}") for i in range(60)]
    first, second = (simulated(jobs, nodes(3)) for _ in range(2))
    assert first.jobs == second.jobs
    assert first.series.column("waiting") == second.series.column("waiting")


def test_finished_jobs_are_dropped_from_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_JOBS", 10)
    simulator = Simulator([job(i, 1, name=f"j{i}") for i in range(100)], nodes(), Policy())
    assert len(simulator.run().jobs) == 100
    assert len(simulator.state.jobs) <= 21


def test_jobs_that_others_may_wait_for_are_kept_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW_KEPT_JOBS", 10)
    jobs = [job(i, 1, name=f"j{i}") for i in range(60)]
    last = job(100, 1, name="last", after=(Dependency(job="j0", condition=Condition.SUCCESS),))
    alone, waited_for = Simulator(jobs, nodes(), Policy()), Simulator([*jobs, last], nodes(), Policy())
    alone.run()
    assert len(alone.state.jobs) <= 21
    assert {record.state for record in waited_for.run().jobs.values()} == {JobState.SUCCEEDED}
    assert len(waited_for.state.jobs) == 61


class Evicting:
    """A planner that evicts `victim` for the first other job that waits, once."""

    def __init__(self, victim: str) -> None:
        self.victim = victim
        self.real = module.schedule

    def __call__(self, view, policy, now_ms, seed):  # type: ignore[no-untyped-def]
        plan = self.real(view, policy, now_ms, seed)
        waiting = [gang for gang in view.pending if gang.job_id != self.victim]
        if waiting and self.victim and not plan.gangs:
            eviction = Eviction(job_id=self.victim, attempt=1, cause=Cause.PREEMPT)
            tasks = (TaskPlacement(rank=0, node_id="n-0"),)
            plan.add(GangPlacement(job_id=waiting[0].job_id, attempt=1, tasks=tasks, evictions=(eviction,)))
            self.victim = ""
        return plan


def evicted(monkeypatch: pytest.MonkeyPatch, preemption: Preemption, checkpoint_s: int = 0):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, "schedule", Evicting("j0000001"))
    jobs = [
        job(0, 100, cpus=4, name="low", checkpoint_s=checkpoint_s, preemption=preemption),
        job(40, 20, cpus=4, name="high", priority=900),
    ]
    recorder = simulated(jobs, nodes(), policy=FIFO)
    assert not recorder.refusals
    return recorder


def test_a_victim_that_cannot_save_itself_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = evicted(monkeypatch, Preemption())
    found = by_name(recorder)
    assert (found["high"].start_ms, found["high"].end_ms) == (40_000, 60_000)
    assert [(a.start_ms, a.end_ms) for a in found["low"].attempts] == [(0, 40_000), (60_000, 160_000)]
    assert (found["low"].evictions, found["low"].lost_task_ms) == (1, 40_000)
    assert recorder.evictions == {"PREEMPT": 1}
    assert (recorder.work.useful.cpu, recorder.work.lost.cpu) == (4000 * 120_000, 4000 * 40_000)


def test_a_victim_with_a_checkpoint_keeps_its_work_and_takes_its_time_to_save_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    preemption = Preemption(checkpoint_signal=10, grace_ms=60_000)
    recorder = evicted(monkeypatch, preemption, checkpoint_s=5)
    found = by_name(recorder)
    assert found["high"].start_ms == 45_000
    assert [(a.start_ms, a.end_ms) for a in found["low"].attempts] == [(0, 40_000), (65_000, 125_000)]
    assert found["low"].lost_task_ms == 0
    assert (recorder.work.useful.cpu, recorder.work.lost.cpu) == (4000 * 120_000, 4000 * 5000)


def test_a_victim_whose_grace_is_too_short_to_save_itself_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    preemption = Preemption(checkpoint_signal=10, grace_ms=2000)
    found = by_name(evicted(monkeypatch, preemption, checkpoint_s=5))
    assert found["high"].start_ms == 42_000
    assert found["low"].end_ms == 162_000
    assert found["low"].lost_task_ms == 40_000


def test_the_first_promise_is_kept_for_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = Simulator([job(0, 60, cpus=4, name="a"), job(10, 30, cpus=4, name="b")], nodes(), FIFO)

    def promise(at_ms: int) -> None:
        shares = (Share(group="task", node_id="n-0", count=1),)
        reservation = Reservation(job_id="j0000002", attempt=1, start_ms=at_ms, shares=shares, made_at_ms=START_MS)
        simulator._tell(CommitPlan(revision=0, gangs=(), reservations=(reservation,)))

    happen = simulator._happen

    def then(kind, what):  # type: ignore[no-untyped-def]
        happen(kind, what)
        if len(simulator.recorder.jobs) == 2 and simulator._now == START_MS + 10_000:
            promise(START_MS + 70_000)
            promise(START_MS + 61_000)

    monkeypatch.setattr(simulator, "_happen", then)
    found = by_name(simulator.run())
    assert (found["b"].promised_ms, found["b"].promised_at_ms, found["b"].start_ms) == (70_000, 10_000, 60_000)


def test_queues_are_compared_by_what_they_hold() -> None:
    queues = (Queue(path="a"), Queue(path="b"), Queue(path="default"))
    recorder = simulated([job(0, 10, cpus=3, queue="a"), job(0, 10, queue="b")], nodes(), queues=queues)
    assert recorder.series.total("queue:a") == 3 * recorder.series.total("queue:b")
    assert recorder.series.total("queue:default") == 0


def test_policy_is_that_of_the_caller() -> None:
    jobs = [
        job(0, 10, cpus=4, name="first"),
        job(1, 10, cpus=4, name="low"),
        job(2, 10, cpus=4, name="high", priority=9),
    ]
    by_priority = by_name(simulated(jobs, nodes(), policy=replace(FIFO, order=QueueOrder.PRIORITY)))
    by_arrival = by_name(simulated(jobs, nodes(), policy=FIFO))
    assert by_priority["high"].start_ms == 10_000
    assert by_arrival["low"].start_ms == 10_000


EASY = Policy(order=QueueOrder.FIFO, reservations=1)


def stream(length: int) -> list[TraceJob]:
    """Small jobs that keep four CPUs busy, and one job among them that needs all four."""
    small = [job(5 * i, 20, name=f"s{i}", timeout_ms=20_000) for i in range(length)]
    return sorted([*small, job(52, 10, cpus=4, name="big", timeout_ms=10_000)], key=lambda j: j.at_ms)


def test_a_promised_start_is_kept_and_the_estimate_is_right() -> None:
    big = by_name(simulated(stream(100), nodes(), policy=EASY))["big"]
    assert big.promised_ms is not None
    assert big.start_ms == big.promised_ms < 80_000


def test_without_reservations_a_stream_of_small_jobs_starves_a_big_one() -> None:
    big = by_name(simulated(stream(100), nodes(), policy=FIFO))["big"]
    assert big.start_ms is not None
    assert big.start_ms > 500_000


def test_the_planner_itself_evicts_for_a_higher_priority() -> None:
    jobs = [job(0, 100, cpus=4, name="low"), job(40, 20, cpus=4, name="high", priority=900)]
    recorder = simulated(jobs, nodes())
    found = by_name(recorder)
    assert not recorder.refusals
    assert found["high"].start_ms == 40_000
    assert (found["low"].evictions, found["low"].end_ms) == (1, 160_000)


def test_all_elements_of_a_large_array_run() -> None:
    from gosched.core.spec.array import Array

    recorder = simulated(
        [job(0, 10, name="many", array=Array(first=1, last=100, step=1, parallelism=100))], nodes(cpus=200)
    )
    assert [record.start_ms for record in recorder.jobs.values()] == [0] * 100
