"""Gangs that give way on a real cluster: they save themselves, end, and come back; nothing runs twice."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient
from gosched.core.commands.jobs import Action
from gosched.core.records.job import JobState
from tests.log_lines import records

from .support import PATIENCE_S, kill_whole, ledger_job, starts, until, until_there

FOUR_CPUS = AgentShape(resources={"cpu": 4, "memory": "8Gi"})
RARE_CYCLES = {"server": {"schedule_period": "1h"}}  # what starts at once was not merely met by the next cycle
SHORT_LEASES = {"lease": {"node_timeout": "4s", "first_lease": "5s", "heartbeat": "500ms"}}

# Writes what it does to a ledger; its first attempt ends only when it has to leave, and has saved itself only when the
# test lets it; the next one goes on from what the first one saved, outside of its own directory, which ends with it.
SAVER = """\
name: low
count: 2
priority: 100
resources: {{cpu: 3, memory: 1Mi}}
stop_grace: 10m
retry: {{max: 3, when: [preempted, node_lost]}}
preemption: {{checkpoint_signal: SIGUSR1, grace: 10m}}
run: |
  log() {{ echo "$GOSCHED_ALLOCATION_ID $1" >> {home}/ledger; }}
  saved={home}/saved-$GOSCHED_TASK_INDEX
  if [ -e $saved ]; then log start; log restored; sleep 0.1; log end; exit 0; fi
  trap 'log signalled; {saving}; touch $saved; touch $GOSCHED_CHECKPOINT_FILE' USR1
  trap 'log end; exit 0' TERM
  log start
  while :; do sleep 0.05; done
"""
FIRST = ["start", "signalled", "end"]
SECOND = ["start", "restored", "end"]


def saver(home: Path) -> str:
    """It has saved itself once `home/go` is there."""
    return SAVER.format(home=home, saving=until_there(home / "go"))


def entries(home: Path) -> list[tuple[str, str]]:
    """Allocation and word, in order."""
    ledger = home / "ledger"
    if not ledger.exists():
        return []
    return [(line.split()[0], line.split()[1]) for line in ledger.read_text().splitlines()]


def count(home: Path, word: str) -> int:
    return sum(said == word for _, said in entries(home))


class Told(NamedTuple):
    """A line of an agent's log about a task."""

    at_ms: int
    event: str
    allocation: str

    def is_of(self, event: str, attempt: int) -> bool:
        return self.event == event and self.allocation.endswith(f".{attempt}")


def story(cluster: LocalCluster, task: str) -> list[Told]:
    """What the agents logged of a task, in the order in which it happened. An agent that was started again tells once
    more what it finds."""
    found: set[Told] = set()
    for agent in cluster.agents.values():
        for record in records(agent.log.read_text().splitlines()):
            if record.get("task") == task and "at" in record:
                at_ms = round(datetime.fromisoformat(record["at"]).timestamp() * 1000)
                found.add(Told(at_ms, record["event"], record["allocation"]))
    return sorted(found)


def check_victims(cluster: LocalCluster, client: GoSchedClient, home: Path) -> None:
    """Each task saved itself, ended, and came back once; no task ran twice, or beside an earlier attempt of itself."""
    for task in client.get_job("low").tasks:
        first, second = f"{task.id}.1", f"{task.id}.2"
        own = [entry for entry in entries(home) if entry[0].rpartition(".")[0] == task.id]
        assert own == [(first, word) for word in FIRST] + [(second, word) for word in SECOND]
        assert [(told.event, told.allocation) for told in story(cluster, task.id)] == [
            ("task started", first),
            ("checkpoint signal sent", first),
            ("checkpoint acknowledged", first),
            ("task ended", first),
            ("task started", second),
            ("task ended", second),
        ]


def test_a_low_gang_saves_itself_gives_way_to_a_high_one_and_comes_back(tmp_path: Path) -> None:
    with (
        LocalCluster(masters=3, agents=[FOUR_CPUS] * 2, settings=RARE_CYCLES) as cluster,
        cluster.client() as client,
    ):
        client.submit(saver(tmp_path))
        until(lambda: count(tmp_path, "start") == 2, "the low gang runs")
        ledger = tmp_path / "high"
        client.submit(ledger_job("high", ledger, count=2, cpu="3", then="sleep 1", more="priority: 900"))
        until(lambda: count(tmp_path, "signalled") == 2, "both tasks are asked to save themselves")
        assert starts(ledger) == [], "the room is not free yet"
        assert client.get_job("high").state is JobState.PENDING
        (tmp_path / "go").touch()
        high = client.wait("high", timeout=PATIENCE_S)
        assert high.state is JobState.SUCCEEDED
        assert len(starts(ledger)) == len({task for task, _, _ in starts(ledger)}) == 2
        low = client.wait("low", timeout=PATIENCE_S)
        assert (low.state, low.job.attempt, low.job.preemptions, low.job.restarts) == (JobState.SUCCEEDED, 2, 1, 0)
        check_victims(cluster, client, tmp_path)
        gone_ms = max(t.at_ms for task in low.tasks for t in story(cluster, task.id) if t.is_of("task ended", 1))
        begun_ms = min(t.at_ms for task in high.tasks for t in story(cluster, task.id) if t.is_of("task started", 1))
        assert gone_ms <= begun_ms, "the preemptor starts when the last victim is gone"


def test_a_leader_killed_while_victims_save_themselves_starts_the_preemptor_once_all_the_same(tmp_path: Path) -> None:
    with (
        LocalCluster(masters=3, agents=[FOUR_CPUS] * 2, settings=SHORT_LEASES) as cluster,
        cluster.client() as client,
    ):
        client.submit(saver(tmp_path))
        until(lambda: count(tmp_path, "start") == 2, "the low gang runs")
        ledger = tmp_path / "high"
        client.submit(ledger_job("high", ledger, count=2, cpu="3", then="sleep 1", more="priority: 900"))
        until(lambda: count(tmp_path, "signalled") == 2, "both tasks are asked to save themselves")
        dead = cluster.leader()
        kill_whole(dead)
        assert cluster.leader().id != dead.id
        assert starts(ledger) == [], "the victims still save themselves"
        (tmp_path / "go").touch()
        high = client.wait("high", timeout=PATIENCE_S)
        assert (high.state, high.job.attempt) == (JobState.SUCCEEDED, 1)
        assert len(starts(ledger)) == len({task for task, _, _ in starts(ledger)}) == 2
        assert client.wait("low", timeout=PATIENCE_S).state is JobState.SUCCEEDED
        check_victims(cluster, client, tmp_path)
        cluster.restart(dead)
        cluster.wait_ready()


@pytest.mark.parametrize("with_agent", [True, False])
def test_a_suspended_job_saves_itself_and_goes_on_when_it_is_resumed(tmp_path: Path, with_agent: bool) -> None:
    """Without an agent too: the wait is over in time, and what came of it is told when an agent is there again."""
    with LocalCluster(masters=1, agents=[FOUR_CPUS] * 2) as cluster, cluster.client() as client:
        client.submit(saver(tmp_path))
        until(lambda: count(tmp_path, "start") == 2, "the job runs")
        client.control("low", Action.SUSPEND)
        until(lambda: count(tmp_path, "signalled") == 2, "both tasks are asked to save themselves")
        if not with_agent:
            for agent in cluster.agents.values():
                agent.kill()
            (tmp_path / "go").touch()
            until(lambda: count(tmp_path, "end") == 2, "both have saved themselves and ended")
            for agent in cluster.agents.values():
                cluster.restart(agent)
        (tmp_path / "go").touch()
        until(lambda: client.get_job("low").state is JobState.SUSPENDED, "the job holds nothing any more")
        assert client.get_job("low").job.checkpoint_at_ms == 0, "this attempt has nothing yet"
        client.control("low", Action.RESUME)
        assert client.wait("low", timeout=PATIENCE_S).state is JobState.SUCCEEDED
        check_victims(cluster, client, tmp_path)


def test_a_job_that_is_cancelled_while_it_saves_itself_is_not_waited_for(tmp_path: Path) -> None:
    with LocalCluster(masters=1, agents=[FOUR_CPUS] * 2, settings=SHORT_LEASES) as cluster, cluster.client() as client:
        client.submit(SAVER.format(home=tmp_path, saving="true").replace("touch $GOSCHED_CHECKPOINT_FILE", "true"))
        until(lambda: count(tmp_path, "start") == 2, "the job runs")
        client.control("low", Action.SUSPEND)
        until(lambda: count(tmp_path, "signalled") == 2, "both tasks are asked to save themselves")
        client.cancel("low")
        assert client.wait("low", timeout=PATIENCE_S).state is JobState.CANCELLED
        assert count(tmp_path, "end") == 2
