"""Evictions, fences, promises and deadlines in the metrics and in the log."""

from __future__ import annotations

from structlog.testing import capture_logs

from gosched.core.commands.plans import Cause
from gosched.core.events import (
    DeadlineMissed,
    Event,
    FenceChanged,
    JobEvicted,
    JobUpdated,
    QueuesChanged,
    ReservationChanged,
    TaskChanged,
    TaskWork,
    WindowsChanged,
)
from gosched.core.records.task import TaskState
from gosched.core.resources import Resources
from gosched.core.state.cluster_state import ClusterState
from gosched.master.planning.eviction_watch import EvictionWatch
from gosched.observe.logs import log_events
from gosched.observe.metrics import MasterMetrics


def evicted(victim: str, for_job: str, cause: Cause = Cause.PREEMPT, lost_ms: int = 1500) -> JobEvicted:
    return JobEvicted(job_id=victim, queue="q", for_job=for_job, cause=cause, tasks=2, whole=True, lost_ms=lost_ms)


def shown(metrics: MasterMetrics) -> set[str]:
    return {line for line in metrics.text().decode().splitlines() if not line.startswith("#")}


def test_victims_lost_work_and_missed_deadlines_are_counted_by_the_leader_alone() -> None:
    metrics = MasterMetrics("v")
    events: tuple[Event, ...] = (
        evicted("a", "x"),
        evicted("b", "y", Cause.RECLAIM),
        evicted("c", "", Cause.WINDOW),
        evicted("d", "d", Cause.REPAIR, lost_ms=0),
        DeadlineMissed(job_id="d", queue="q"),
    )
    metrics.take(events, leading=False)
    assert not [line for line in shown(metrics) if "evictions_total" in line]
    metrics.take(events, leading=True)
    assert shown(metrics) >= {
        'gosched_preemption_victims_total{queue="q"} 3.0',
        'gosched_evictions_total{cause="reclaim"} 1.0',
        'gosched_evictions_total{cause="window"} 1.0',
        'gosched_evictions_total{cause="repair"} 1.0',
        'gosched_lost_work_seconds_total{queue="q"} 4.5',
        'gosched_deadlines_missed_total{queue="q"} 1.0',
        "gosched_preemption_cycles_total 0.0",
    }


def test_jobs_that_evict_each_other_in_turn_are_warned_of_and_counted() -> None:
    metrics = MasterMetrics("v")
    watch = EvictionWatch(metrics)
    with capture_logs() as lines:
        watch.take([evicted("b", "a"), evicted("c", "a")], at_ms=1, revision=1)
        watch.take([evicted("d", "", Cause.WINDOW)], at_ms=2, revision=2)
        assert lines == []
        watch.take([evicted("a", "b")], at_ms=3, revision=3)
    assert lines == [
        {
            "event": "jobs evict each other in turn",
            "log_level": "warning",
            "each_evicted_for_the_next": "b -> a -> b",
            "revision": 3,
        }
    ]
    assert "gosched_preemption_cycles_total 1.0" in shown(metrics)


def test_each_event_has_its_line() -> None:
    events: tuple[Event, ...] = (
        evicted("a", "x"),
        FenceChanged(job_id="x", node_ids=("n1", "n2"), made=True),
        FenceChanged(job_id="x", node_ids=("n1", "n2"), made=False, why="started"),
        ReservationChanged(job_id="r", start_ms=7000),
        ReservationChanged(job_id="r", start_ms=0),
        ReservationChanged(job_id="r", start_ms=0, broken=True),
        DeadlineMissed(job_id="d", queue="q"),
        WindowsChanged(),
        QueuesChanged(),
        JobUpdated(job_id="u"),
    )
    state = ClusterState()
    state.epoch = 3
    with capture_logs() as lines:
        log_events(events, state, revision=9)
    assert all((line.pop("epoch"), line.pop("revision")) == (3, 9) for line in lines)
    told = [(line.pop("log_level"), line.pop("event"), line) for line in lines]
    assert told == [
        (
            "info",
            "evicted",
            {
                "job": "a",
                "queue": "q",
                "made_for": "x",
                "cause": "PREEMPT",
                "tasks": 2,
                "whole": True,
                "lost_s": 1.5,
            },
        ),
        ("info", "fence made", {"job": "x", "nodes": 2}),
        ("info", "fence gone", {"job": "x", "nodes": 2, "why": "started"}),
        ("info", "start reserved", {"job": "r", "start_ms": 7000}),
        ("info", "reserved start dropped", {"job": "r"}),
        ("warning", "reserved start broken", {"job": "r", "start_ms": 0}),
        ("warning", "deadline missed", {"job": "d", "queue": "q"}),
        ("info", "windows changed", {}),
        ("info", "queues changed", {}),
        ("debug", "job updated", {"job": "u"}),
    ]


def ended(useful_ms: int, lost_ms: int, held_ms: int, gpus: int = 0) -> TaskChanged:
    work = TaskWork(
        queue="q",
        resources=Resources(cpu_millis=2000, gpu_millis=1000 * gpus),
        held_ms=held_ms,
        useful_ms=useful_ms,
        lost_ms=lost_ms,
    )
    running, killed = TaskState.RUNNING, TaskState.KILLED
    return TaskChanged(
        job_id="a", task_id="a-0", allocation_id="x", node_id="n", before=running, after=killed, work=work
    )


def test_work_is_counted_in_the_time_of_cpus_and_gpus() -> None:
    metrics = MasterMetrics("v")
    metrics.take([ended(3000, 0, 3000, gpus=8)], leading=False)
    assert not [line for line in shown(metrics) if "work_seconds_total{" in line]
    metrics.take([ended(3000, 0, 3000, gpus=8), ended(1000, 500, 2500)], leading=True)
    assert {line for line in shown(metrics) if line.startswith("gosched_work_seconds_total")} == {
        'gosched_work_seconds_total{outcome="useful",queue="q",resource="cpu"} 8.0',
        'gosched_work_seconds_total{outcome="useful",queue="q",resource="gpu"} 24.0',
        'gosched_work_seconds_total{outcome="lost",queue="q",resource="cpu"} 1.0',
        'gosched_work_seconds_total{outcome="unfinished",queue="q",resource="cpu"} 2.0',
    }
