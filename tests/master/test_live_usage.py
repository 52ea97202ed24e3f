"""What nodes and tasks use now, from heartbeats with a clock of the test's."""

from __future__ import annotations

import asyncio

import pytest

from gosched.core.commands.nodes import TaskReport
from gosched.core.records.task import TaskState
from gosched.core.records.usage import NO_USAGE, Usage
from gosched.master.agents.live_usage import LiveUsage
from gosched.master.agents.observations import spark_progress
from gosched.wire.v1 import node_pb2
from tests.master.test_leases import FakeClock
from tests.master.test_reconcile import A, cluster

STATE = cluster(TaskState.RUNNING)
USAGE = node_pb2.NodeUsage(cpu_milli=1500, cpu_pressure_milli=-1)


def heard(live: LiveUsage, cpu_ms: int) -> None:
    report = TaskReport(allocation_id=A, state=TaskState.RUNNING, usage=Usage(cpu_ms=cpu_ms, memory_bytes=9))
    live.take("a", USAGE, [report])


def tasks(live: LiveUsage) -> dict[str, node_pb2.TaskUsageView]:
    return {view.task_id: view for view in asyncio.run(live.tasks(STATE, STATE.allocations))}


def new() -> tuple[LiveUsage, FakeClock]:
    clock = FakeClock()
    return LiveUsage(clock), clock


def test_the_cpus_in_use_are_the_cpu_time_between_two_heartbeats() -> None:
    live, clock = new()
    heard(live, 1000)
    assert tasks(live)["j/g/0"].cpu_milli == 0
    clock.s += 5
    heard(live, 13_500)
    view = tasks(live)["j/g/0"]
    assert (view.cpu_milli, view.usage.cpu_ms, view.usage.memory_bytes, view.node_id) == (2500, 13_500, 9, "a")


def test_heartbeats_that_follow_each_other_at_once_make_no_noise() -> None:
    live, clock = new()
    heard(live, 0)
    clock.s += 5
    heard(live, 5000)
    clock.s += 0.01
    heard(live, 5000)
    assert tasks(live)["j/g/0"].cpu_milli == 1000
    clock.s += 4.99
    heard(live, 15_000)
    assert tasks(live)["j/g/0"].cpu_milli == 2000


def test_counters_that_begin_again_are_not_negative() -> None:
    live, clock = new()
    heard(live, 50_000)
    clock.s += 5
    heard(live, 10)
    assert tasks(live)["j/g/0"].cpu_milli == 0


def test_all_that_hold_a_place_are_listed_also_those_that_nobody_told_of() -> None:
    live, _ = new()
    heard(live, 1)
    found = tasks(live)
    assert sorted(found) == ["j/g/0", "j/g/1"]
    assert (found["j/g/1"].node_id, found["j/g/1"].usage.cpu_ms) == ("b", NO_USAGE.cpu_ms)


def test_a_dead_node_and_a_new_epoch_take_their_figures_along() -> None:
    live, clock = new()
    heard(live, 1)
    clock.s += 1.5
    (view,) = live.nodes(STATE, "a")
    assert list(live.nodes(STATE, "b")) == []
    assert (view.node_id, view.usage, view.age_ms) == ("a", USAGE, 1500)
    live.drop("a")
    assert list(live.nodes(STATE)) == []
    heard(live, 1)
    live.begin()
    assert list(live.nodes(STATE)) == []


SAID = node_pb2.SparkProgress(application="app-1", ui="http://a:4040", stages=[node_pb2.StageProgress(id=1, tasks=4)])


def test_what_an_application_says_is_that_of_its_drivers_newest_heartbeat() -> None:
    live, _ = new()
    report = TaskReport(allocation_id=A, state=TaskState.RUNNING)
    live.take("a", USAGE, [report], "", spark_progress({A: SAID, "another": SAID}, [report]))
    found = tasks(live)
    assert found["j/g/0"].spark == SAID
    assert not found["j/g/1"].HasField("spark")
    live.take("a", USAGE, [report])
    assert not tasks(live)["j/g/0"].HasField("spark")


def test_another_node_says_nothing_of_an_application() -> None:
    live, _ = new()
    report = TaskReport(allocation_id=A, state=TaskState.RUNNING)
    live.take("b", USAGE, [report], "", spark_progress({A: SAID}, [report]))
    assert not tasks(live)["j/g/0"].HasField("spark")


def test_what_an_application_says_is_bounded() -> None:
    stage = node_pb2.StageProgress(name="x\x1b" * 1000)
    long = node_pb2.SparkProgress(application="a\n" * 9000, stages=[stage] * 1000, more_stages=-1)
    running = TaskReport(allocation_id=A, state=TaskState.RUNNING)
    (kept,) = spark_progress({A: long}, [running]).values()
    assert kept.ByteSize() < 2500
    assert (len(kept.stages), kept.more_stages, kept.application.isprintable()) == (8, 0, True)
    ended = TaskReport(allocation_id=A, state=TaskState.SUCCEEDED)
    assert spark_progress({A: SAID}, [ended]) == {}


@pytest.mark.parametrize("address", ["javascript:alert(1)", "http://a b", 'http://a"x', "https://" + "a" * 9999, "a:1"])
def test_what_is_no_address_of_a_page_is_left_out(address: str) -> None:
    running = TaskReport(allocation_id=A, state=TaskState.RUNNING)
    said = node_pb2.SparkProgress(ui=address, history=address)
    assert spark_progress({A: said}, [running])[A] == node_pb2.SparkProgress()
