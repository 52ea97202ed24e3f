"""Masters whose wall clocks are wrong, on real processes: time passes, nothing jumps, agents stay or come back."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gosched.cli.local_cluster import AgentShape
from gosched.cli.local_program import Program
from gosched.client import GoSchedClient, GoSchedError
from gosched.core.records.job import JobState
from tests.chaos.faults import NONE, Faults
from tests.chaos.hosts import HostCluster
from tests.integration.support import goschedctl, until

HOUR_S = 3600
YEAR_S = 365 * 24 * HOUR_S
HOLDS_S = 0.2  # until a process has seen its faults
HEARD_S = 4.0  # until masters have heard each other's clocks anew
TIMEOUT_S = 6.0
ROUNDS = 3
LATE_S = 20.0  # of a loaded machine with two cores, an election included
JOB = "name: {name}\nrun: sleep 300\ntimeout: {timeout}s\n"
AGENT = AgentShape(resources={"cpu": 32, "memory": "8Gi", "storage": "16Gi"})


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[HostCluster]:
    with HostCluster(tmp_path / "c", masters=3, agents=[AGENT, AGENT]) as cluster:
        yield cluster


def ahead(cluster: HostCluster, *programs: Program, by_s: float) -> None:
    for program in programs:
        cluster.faults(program, Faults(clock_ahead_s=by_s) if by_s else NONE)
    time.sleep(HOLDS_S)


def ahead_s(client: GoSchedClient) -> float:
    return client.get_status().clock_ms / 1000 - time.time()


def state_is_right(client: GoSchedClient) -> bool:
    return abs(ahead_s(client)) < 30


def replace_leader(cluster: HostCluster) -> Program:
    """Kills it, and starts it again once another one leads. The one that was killed."""
    old = cluster.leader()
    old.kill()
    until(lambda: cluster.leader().id != old.id, "another leader")
    cluster.restart(old)
    return old


def all_well(cluster: HostCluster, client: GoSchedClient) -> bool:
    try:
        status = client.get_status()
    except GoSchedError:
        return False
    return sum(m.healthy for m in status.masters) == 3 and status.nodes_ready == len(cluster.agents)


def submit(client: GoSchedClient, names: list[str]) -> float:
    """When the first was submitted; all have started now."""
    began = time.monotonic()
    for name in names:
        client.submit(JOB.format(name=name, timeout=TIMEOUT_S))
    until(lambda: all(client.get_job(n).state is not JobState.PENDING for n in names), "they start", 60)
    return began


def ends_by_timeout(client: GoSchedClient, names: list[str], began: float) -> list[float]:
    """How many seconds after their timeout, counted from before they were submitted, they were seen to have ended."""
    late = []
    for name in names:
        assert client.wait(name, timeout=TIMEOUT_S + 60).job.reason == "TIMEOUT"
        late.append(max(time.monotonic() - began - TIMEOUT_S, 0.0))
    return late


def shown(what: str, seconds: list[float]) -> None:
    print(f"{what}: median {statistics.median(seconds):.1f} s, worst {max(seconds):.1f} s of {len(seconds)}")


@pytest.mark.timeout(900)
def test_timeouts_hold_while_and_after_a_leader_is_an_hour_ahead(cluster: HostCluster) -> None:
    late: list[float] = []
    with cluster.client() as client:
        for number in range(ROUNDS):
            leader = cluster.leader()
            ahead(cluster, leader, by_s=HOUR_S)
            submit(client, [f"during-{number}-{n}" for n in range(5)])
            assert state_is_right(client)
            until(lambda who=leader.id: who in client.get_status().clock_problem, "it shows", 60)
            began = submit(client, names := [f"after-{number}-{n}" for n in range(10)])
            replace_leader(cluster)
            late += ends_by_timeout(client, names, began)
            assert state_is_right(client)
            ahead(cluster, leader, by_s=0)
            until(lambda: all_well(cluster, client), "all are back", 60)
            time.sleep(HEARD_S)
    shown("ended after the timeout, the leader replaced meanwhile", late)
    assert max(late) < LATE_S


@pytest.mark.timeout(900)
def test_a_state_that_all_masters_brought_an_hour_ahead_goes_on_and_is_set_back(cluster: HostCluster) -> None:
    """As it is after masters of the release before: the state is ahead, and the clocks are right again."""
    late: list[float] = []
    masters = list(cluster.masters.values())
    with cluster.client() as client:
        for number in range(ROUNDS):
            ahead(cluster, *masters, by_s=HOUR_S)
            until(lambda: ahead_s(client) > HOUR_S - 60, "the state is ahead", 60)
            time.sleep(HEARD_S)  # until all of them say so: a request is dated by what one says, and judged by another
            client.submit(f"name: stamp-{number}\nrun: 'true'\n")
            ahead(cluster, *masters, by_s=0)
            time.sleep(HEARD_S)
            assert "set-clock" in client.get_status().clock_problem
            began = submit(client, names := [f"j-{number}-{n}" for n in range(5)])
            late += ends_by_timeout(client, names, began)
            began = submit(client, names := [f"k-{number}-{n}" for n in range(5)])
            done = goschedctl(cluster.endpoints, "cluster", "set-clock")
            assert "was set back" in done.stderr
            assert state_is_right(client)
            late += ends_by_timeout(client, names, began)
            assert client.get_status().clock_problem == ""
    shown("ended after the timeout, the state an hour ahead", late)
    assert max(late) < LATE_S


@pytest.mark.timeout(600)
def test_agents_come_to_a_leader_that_is_ten_minutes_ahead(cluster: HostCluster) -> None:
    took: list[float] = []
    agent = cluster.agents["agent-1"]
    with cluster.client() as client:
        for _ in range(ROUNDS):
            leader = cluster.leader()
            ahead(cluster, leader, by_s=600)
            logged = started_anew(cluster, agent)
            took.append(_until_heard(client, agent, logged))
            assert agent.is_alive
            ahead(cluster, leader, by_s=0)
    shown("an agent is back", took)


@pytest.mark.timeout(600)
def test_an_agent_that_all_masters_refuse_waits_says_so_and_is_back_once_clocks_agree(cluster: HostCluster) -> None:
    took: list[float] = []
    agent = cluster.agents["agent-1"]
    with cluster.client() as client:
        # A leader that has not heard the other masters' clocks yet refuses no node's.
        until(lambda: all(m.clock_offset_ms is not None for m in client.get_status().masters), "clocks are known", 60)
        for _ in range(ROUNDS):
            ahead(cluster, agent, by_s=600)
            logged = started_anew(cluster, agent)
            until(lambda log=logged: "ahead of the masters'" in log(), "it says so", 60)
            time.sleep(2)
            assert agent.is_alive
            assert logged().count("ahead of the masters'") <= len(cluster.masters)  # not at each try
            ahead(cluster, agent, by_s=0)
            took.append(_until_heard(client, agent, logged))
    shown("an agent is back after its clock was set", took)


@pytest.mark.timeout(600)
def test_a_master_that_is_a_year_ahead_leads_and_nothing_is_a_year_ahead(cluster: HostCluster) -> None:
    late: list[float] = []
    with cluster.client() as client:
        for number in range(ROUNDS):
            late_master = next(m for m in cluster.masters.values() if m.id != cluster.leader().id)
            ahead(cluster, late_master, by_s=YEAR_S)
            while cluster.leader().id != late_master.id:
                replace_leader(cluster)
                until(lambda: all_well(cluster, client), "all are back", 60)
            began = submit(client, names := [f"j-{number}-{n}" for n in range(5)])
            assert state_is_right(client)
            late += ends_by_timeout(client, names, began)
            assert late_master.id in client.get_status().clock_problem
            ahead(cluster, late_master, by_s=0)
            time.sleep(HEARD_S)
    shown("ended after the timeout, the leader a year ahead", late)
    assert max(late) < LATE_S


def started_anew(cluster: HostCluster, agent: Program) -> Callable[[], str]:
    """Kills the agent and starts it again; what the new process has logged."""
    agent.kill()
    before = len(agent.log.read_text())
    cluster.restart(agent)
    return lambda: agent.log.read_text()[before:]


def _until_heard(client: GoSchedClient, agent: Program, logged: Callable[[], str]) -> float:
    """Seconds until the agent's new process is counted in."""
    began = time.monotonic()
    until(lambda: '"event": "registered"' in logged(), "it is let in", 60)
    until(lambda: client.get_node(agent.id).node.state.name == "READY", "it is ready", 60)
    return time.monotonic() - began
