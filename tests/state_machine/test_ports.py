"""Each job has a port of its own on the node of its first task."""

from __future__ import annotations

import pytest

from gosched.core.commands.cluster import SetFeatureLevel
from gosched.core.features import FeatureLevel
from gosched.core.limits import FIRST_PORT, PORTS
from gosched.core.outcome import Accepted
from gosched.core.reasons import Reason
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState as T
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import ports
from gosched.state_machine.features import set_level
from tests.state_machine.cluster import Cluster, group, spec


@pytest.fixture
def c() -> Cluster:
    cluster = Cluster()
    for node in ("n1", "n2"):
        cluster.node(node, cpus=64)
    return cluster


def placed(c: Cluster, name: str, *nodes: str) -> int:
    job = c.submit(spec(name, group(count=len(nodes))), name)
    c.place(job, *nodes)
    return c.job(job).port


def test_jobs_whose_search_begins_at_the_same_port_get_different_ones(
    c: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "preferred", lambda job_id, attempt: PORTS - 1)
    last = FIRST_PORT + PORTS - 1
    assert [placed(c, "a", "n1"), placed(c, "b", "n1"), placed(c, "c", "n1")] == [last, FIRST_PORT, FIRST_PORT + 1]
    assert placed(c, "elsewhere", "n2") == last
    c.succeed_all("b")
    assert placed(c, "d", "n1") == FIRST_PORT, "a port is free again with its job's end"


def test_another_attempt_has_another_port(c: Cluster) -> None:
    first = placed(c, "a", "n1", "n2")
    assert FIRST_PORT <= first < FIRST_PORT + PORTS
    c.report("a", 0, T.LOST, reason=Reason.PORT_IN_USE)
    c.report("a", 1, T.KILLED)
    waiting = c.job("a")
    assert (waiting.state, waiting.attempt, waiting.restarts, waiting.port) == (JobState.PENDING, 2, 0, 0)
    c.place("a", "n1", "n2")
    assert c.job("a").port not in (0, first)


def test_below_the_level_that_knows_ports_there_is_none() -> None:
    c = Cluster()
    c.state = ClusterState(feature_level=FeatureLevel.FIRST)
    assert ports.free_port(c.state, c.state.jobs.get("a"), "n1") == 0  # type: ignore[arg-type]


def test_the_key_of_the_tasks_secrets_is_set_once_and_not_below_its_level() -> None:
    state = ClusterState(feature_level=FeatureLevel.FIRST)
    set_level(state, SetFeatureLevel(level=FeatureLevel.FIRST, cluster_id="c", task_key="early"))
    assert state.task_key == ""
    assert set_level(state, SetFeatureLevel(level=FeatureLevel.BOUNDED, task_key="first")) == Accepted(subject="c")
    again = set_level(state, SetFeatureLevel(level=FeatureLevel.BOUNDED, task_key="second"))
    assert (state.task_key, again) == ("first", Accepted(subject="c", unchanged=True))
