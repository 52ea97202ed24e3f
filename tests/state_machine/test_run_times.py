"""What the state learns of how long jobs run: from which attempts, how much it keeps, and that it is replicated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.cluster import PassTime
from gosched.core.commands.jobs import Action, CancelJob, ControlJob
from gosched.core.features import FeatureLevel
from gosched.core.reasons import Reason
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.core.run_times import keys_of, predict
from gosched.core.spec.array import Array
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import Preemption
from gosched.core.state.restore import restore
from gosched.replication.snapshots.snapshot import Snapshot, decode, encode, restored
from gosched.state_machine import run_times
from tests.state_machine.cluster import Cluster, group, retrying, spec

MINUTE = 60_000


@pytest.fixture
def c() -> Cluster:
    made = Cluster()
    made.node("n1", cpus=16)
    made.node("n2", cpus=16)
    return made


def wait(c: Cluster, ms: int) -> None:
    c.accept(PassTime(), at_ms=c.state.clock_ms + ms)


def begun(c: Cluster, name: str, wanted: JobSpec | None = None) -> str:
    job = c.submit(replace(wanted or spec(name, group(count=1)), name=name), f"{name}-at-{c.state.revision}")
    c.place(job, "n1")
    return job


def ran(c: Cluster, name: str, run_ms: int, end: TaskState = TaskState.SUCCEEDED, wanted: JobSpec | None = None) -> str:
    """A job that ran for so long."""
    job = begun(c, name, wanted)
    placed_ms = c.job(job).placed_at_ms
    wait(c, run_ms - 1)
    c.report(job, 0, end, 0 if end is TaskState.SUCCEEDED else 1)
    assert c.state.clock_ms == placed_ms + run_ms
    return job


def learned(c: Cluster, name: str = "train-0") -> list[int]:
    """The run times of jobs like this one, the newest last."""
    job = c.submit(spec(name, group(count=1)), f"asks-{c.state.revision}")
    history = c.state.run_histories.get(keys_of(c.job(job))[0])
    c.accept(CancelJob(job_id=job))
    return list(history.run_ms) if history is not None else []


def rank(c: Cluster, job: str) -> int:
    return c.state.run_histories[keys_of(c.job(job))[-1]].rank_milli


def test_jobs_that_succeed_or_fail_by_themselves_teach(c: Cluster) -> None:
    ran(c, "train-1", 5 * MINUTE)
    ran(c, "train-2", 7 * MINUTE, TaskState.FAILED)
    assert learned(c) == [5 * MINUTE, 7 * MINUTE]


def test_each_attempt_that_fails_by_itself_teaches(c: Cluster) -> None:
    job = ran(c, "train-1", MINUTE, TaskState.FAILED, retrying("train-1", group(count=1)))
    assert c.job(job).state is JobState.PENDING
    assert len(c.state.run_histories) == 4
    c.place(job, "n1")
    wait(c, 3 * MINUTE - 1)
    c.report(job, 0, TaskState.SUCCEEDED, 0)
    assert learned(c) == [MINUTE, 3 * MINUTE]


def test_what_others_ended_does_not_teach(c: Cluster) -> None:
    cancelled = begun(c, "train-1")
    c.accept(CancelJob(job_id=cancelled))
    c.report(cancelled, 0, TaskState.KILLED)
    assert c.job(cancelled).state is JobState.CANCELLED
    lost = begun(c, "train-2")
    c.die("n1")
    assert c.job(lost).state.is_final
    assert c.state.run_histories == {}


def test_the_rest_of_a_job_that_went_on_from_a_checkpoint_does_not_teach(c: Cluster) -> None:
    for name, signal in (("saves-0", 10), ("loses-0", 0)):
        job = begun(c, name, spec(name, group(count=1), preemption=Preemption(checkpoint_signal=signal)))
        c.state.put_job(replace(c.job(job), preemptions=1))
        wait(c, MINUTE - 1)
        c.report(job, 0, TaskState.SUCCEEDED, 0)
    assert [len(history.run_ms) for history in c.state.run_histories.values()] == [1, 1, 1, 1]


def test_a_job_that_hits_its_timeout_teaches_that_it_runs_at_least_that_long(c: Cluster) -> None:
    job = begun(c, "train-1", spec("train-1", group(count=1), timeout_ms=2 * MINUTE))
    wait(c, 2 * MINUTE)
    wait(c, MINUTE)  # it is slow to stop
    c.report(job, 0, TaskState.KILLED)
    assert (c.job(job).state, c.job(job).reason) == (JobState.FAILED, Reason.TIMEOUT)
    assert [history.run_ms for history in c.state.run_histories.values()] == [(2 * MINUTE,)] * 4


def test_an_array_does_not_teach_and_its_elements_teach_one_history(c: Cluster) -> None:
    array = c.submit(spec("sweep", group(count=1), array=Array(first=1, last=3, step=1)))
    for number in (1, 2, 3):
        c.place(f"{array}.{number}", "n1")
        c.report(f"{array}.{number}", 0, TaskState.SUCCEEDED, 0)
    assert c.job(array).state is JobState.SUCCEEDED
    assert [len(history.run_ms) for history in c.state.run_histories.values()] == [3] * 4


def test_a_job_is_told_what_is_likely_when_it_is_placed_and_loses_it_when_it_runs_longer(c: Cluster) -> None:
    for number in range(10):
        ran(c, f"train-{number}", MINUTE)
    kept, longer = begun(c, "train-10"), begun(c, "train-11")
    assert (c.job(kept).likely_ms, c.job(longer).likely_ms) == (MINUTE, MINUTE)
    before = rank(c, kept)
    c.report(kept, 0, TaskState.SUCCEEDED, 0)
    assert rank(c, kept) == before - 10
    wait(c, MINUTE)
    assert c.job(longer).likely_ms == 0
    assert rank(c, kept) == before - 10 + 90
    c.report(longer, 0, TaskState.SUCCEEDED, 0)
    assert rank(c, kept) == before - 10 + 90  # it was counted once


def test_the_history_that_was_taught_longest_ago_is_forgotten_first(
    c: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_times, "MAX_RUN_HISTORIES", 6)
    ran(c, "a", MINUTE)
    ran(c, "b", 2 * MINUTE)  # its shape and its user are those of `a`
    assert (learned(c, "a"), learned(c, "b")) == ([MINUTE], [2 * MINUTE])
    ran(c, "a", 3 * MINUTE)
    ran(c, "c", 4 * MINUTE)
    assert len(c.state.run_histories) == 6
    assert (learned(c, "a"), learned(c, "b"), learned(c, "c")) == ([MINUTE, 3 * MINUTE], [], [4 * MINUTE])


def test_snapshots_keep_the_histories_and_their_order(c: Cluster) -> None:
    for number, name in enumerate(("a", "b", "a", "c")):
        ran(c, name, (number + 1) * MINUTE)
    file = b"".join(encode(Snapshot(c.state.freeze(), (b"p", 1, 1), (b"l", 2, 1))))
    for state in (restored(decode(file)), restore(c.state.freeze())):
        assert list(state.run_histories.items()) == list(c.state.run_histories.items())
        assert state.digest() == c.state.digest()


def test_equal_logs_learn_alike(c: Cluster) -> None:
    for number in range(5):
        ran(c, f"train-{number}", (number + 1) * MINUTE)
    again = Cluster()
    for command in c.log[1:]:
        again.apply(command)
    assert list(again.state.run_histories.items()) == list(c.state.run_histories.items())
    assert again.state.digest() == c.state.digest()
    job = c.submit(spec("train-9", group(count=1)))
    found = predict(c.state.run_histories, keys_of(c.job(job)))
    assert found is not None
    assert found.expected_ms == 3 * MINUTE


def test_below_its_level_nothing_is_learned(c: Cluster) -> None:
    c.state.raise_level(FeatureLevel.FIRST)
    ran(c, "train-1", MINUTE)
    job = begun(c, "train-2")
    assert (c.state.run_histories, c.job(job).likely_ms) == ({}, 0)


def test_a_frozen_job_is_not_judged(c: Cluster) -> None:
    for number in range(10):
        ran(c, f"train-{number}", MINUTE)
    job = begun(c, "train-10")
    before = rank(c, job)
    c.accept(ControlJob(job_id=job, action=Action.FREEZE))
    wait(c, 10 * MINUTE)
    assert (c.job(job).likely_ms, rank(c, job)) == (0, before)
