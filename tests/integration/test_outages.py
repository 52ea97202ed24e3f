"""Masters and agents that die, freeze or all vanish: state, tasks and exit codes survive."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil
import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedError
from gosched.core.records.job import JobState

from .support import (
    PATIENCE_S,
    PATIENT,
    all_alive,
    applied_index,
    family,
    goschedctl,
    kill_whole,
    ledger_job,
    replica_of,
    starts,
    state_digest_at,
    until,
    until_there,
)


def test_all_masters_killed_at_once_come_back_with_every_acknowledged_job_and_the_same_digest(tmp_path: Path) -> None:
    with LocalCluster(masters=3, agents=2) as cluster, cluster.client() as client:
        ledger = tmp_path / "ledger"
        client.submit(ledger_job("long", ledger, count=2, then=until_there(tmp_path / "go")))
        until(lambda: len(starts(ledger)) == 2, "the long job runs")
        pids = [pid for _, _, pid in starts(ledger)]
        ids = [client.submit(ledger_job(f"waiting-{i}", ledger, cpu="1000")).job_id for i in range(30)]
        before = client.get_status(digest=True)
        for master in cluster.masters.values():
            kill_whole(master)
        assert all_alive(pids), "losing all masters stops nothing"
        for master in cluster.masters.values():
            cluster.restart(master)
        cluster.wait_ready()
        assert {j.id for j in client.list_jobs()} >= set(ids)
        assert all_alive(pids)
        (tmp_path / "go").touch()
        done = client.wait("long", timeout=PATIENCE_S)
        assert done.state is JobState.SUCCEEDED
        assert [pid for _, _, pid in starts(ledger)] == pids, "no task started twice"
        index = applied_index(cluster.leader())
        assert index > 0
        until(lambda: all(applied_index(m) >= index for m in cluster.masters.values()), "all of them have all of it")
        for master in cluster.masters.values():
            kill_whole(master)  # a replica that lived on would still write to its disk
        for name in cluster.masters:
            assert state_digest_at(cluster, name, before.revision) == before.digest


def test_an_agent_killed_with_running_tasks_adopts_them_and_their_exit_codes_arrive(tmp_path: Path) -> None:
    with LocalCluster(masters=1, agents=1, settings=PATIENT) as cluster, cluster.client() as client:
        ledger = tmp_path / "ledger"
        first, go = tmp_path / "first", tmp_path / "go"
        ids = [
            client.submit(
                ledger_job(name, ledger, then=f"{until_there(file)}; exit {code}", more="retry: {max: 0}")
            ).job_id
            for name, file, code in (("meanwhile", first, 7), ("later", go, 9))
        ]
        until(lambda: len(starts(ledger)) == 2, "both run")
        pids = {task.partition("/")[0]: pid for task, _, pid in starts(ledger)}
        agent = cluster.agents["agent-1"]
        agent.kill()
        first.touch()
        until(lambda: not psutil.pid_exists(pids[ids[0]]), "one of the tasks ends while nobody watches")
        cluster.restart(agent)
        assert client.wait("meanwhile", timeout=PATIENCE_S).job.exit_code == 7
        assert psutil.pid_exists(pids[ids[1]]), "the other one was adopted as it runs"
        go.touch()
        assert client.wait("later", timeout=PATIENCE_S).job.exit_code == 9
        assert sorted(pid for _, _, pid in starts(ledger)) == sorted(pids.values())


def test_a_leader_frozen_for_10_s_changes_nothing_when_it_wakes(tmp_path: Path) -> None:
    with LocalCluster(masters=3, agents=2) as cluster, cluster.client() as client:
        ledger = tmp_path / "ledger"
        client.submit(ledger_job("long", ledger, count=2, then=until_there(tmp_path / "go")))
        until(lambda: len(starts(ledger)) == 2, "the long job runs")
        old = cluster.leader()
        epoch = client.get_status().epoch
        for process in family(old):
            process.send_signal(signal.SIGSTOP)
        frozen_at = time.monotonic()
        jobs: list[str] = []
        while time.monotonic() < frozen_at + 10 or len(jobs) <= 20:
            jobs.append(client.submit(ledger_job(f"job-{len(jobs)}", ledger)).job_id)
            time.sleep(0.2)
        for process in family(old):
            process.send_signal(signal.SIGCONT)
        for job in jobs:
            assert client.wait(job, timeout=PATIENCE_S).state is JobState.SUCCEEDED
        (tmp_path / "go").touch()
        done = client.wait("long", timeout=PATIENCE_S)
        assert done.state is JobState.SUCCEEDED
        assert done.job.attempt == 1, "the old leader declared no node dead"
        begun = [(task, attempt) for task, attempt, _ in starts(ledger)]
        assert len(begun) == len(set(begun)) == len(jobs) + 2
        status = client.get_status()
        assert status.epoch > epoch
        assert status.leader != old.id or status.epoch > epoch + 1
        assert all(n.node.state.name == "READY" for n in client.list_nodes())


def test_without_a_majority_submission_is_refused_with_5_and_tasks_go_on_until_all_recovers(tmp_path: Path) -> None:
    with LocalCluster(masters=3, agents=1) as cluster, cluster.client() as client:
        ledger = tmp_path / "ledger"
        client.submit(ledger_job("long", ledger, then=until_there(tmp_path / "go")))
        until(lambda: len(starts(ledger)) == 1, "the task runs")
        pid = starts(ledger)[0][2]
        down = list(cluster.masters.values())[:2]
        for master in down:
            kill_whole(master)
        job = tmp_path / "job.yaml"
        job.write_text(ledger_job("refused", ledger))
        answer = goschedctl(cluster.endpoints, "submit", str(job))
        assert answer.returncode == 5, answer.stderr
        assert answer.stdout == ""
        hint, problem = answer.stderr.strip().splitlines()
        assert "add --request-id=" in hint
        assert "no leader" in problem
        assert "may still take effect" in answer.stderr, "a leader that lost its majority may have logged it"
        assert psutil.pid_exists(pid)
        for master in down:
            cluster.restart(master)
        cluster.wait_ready()
        assert psutil.pid_exists(pid)
        (tmp_path / "go").touch()
        assert client.wait("long", timeout=PATIENCE_S).state is JobState.SUCCEEDED
        assert client.submit(job).job_id
        assert client.wait("refused", timeout=PATIENCE_S).state is JobState.SUCCEEDED
        assert len(starts(ledger)) == len(client.list_jobs()), "every job that was accepted ran once"


def test_a_node_that_was_dead_kills_its_leftovers_before_it_takes_new_work(tmp_path: Path) -> None:
    settings = {"lease": {"node_timeout": "4s", "first_lease": "5s", "heartbeat": "500ms"}}
    one = AgentShape(resources={"cpu": 1, "memory": "1Gi"})
    with LocalCluster(masters=1, agents=[one], settings=settings) as cluster, cluster.client() as client:
        ledger = tmp_path / "ledger"
        client.submit(ledger_job("long", ledger, cpu="1", then="sleep 300", more="retry: {max: 3}"))
        until(lambda: len(starts(ledger)) == 1, "the task runs")
        first = starts(ledger)[0][2]
        agent = cluster.agents["agent-1"]
        psutil.Process(agent.pid).suspend()  # the agent alone: its task runs on, as behind a cut cable
        until(lambda: client.get_status().nodes_ready == 0, "the node counts as dead")
        assert psutil.pid_exists(first)
        psutil.Process(agent.pid).resume()
        until(lambda: len(starts(ledger)) == 2, "the second attempt runs")
        assert not psutil.pid_exists(first), "the leftover ended before the new task began"
        client.cancel("long")
        assert client.wait("long", timeout=PATIENCE_S).state is JobState.CANCELLED


def test_an_agent_that_says_goodbye_finds_its_task_again_after_long_though_another_master_leads(tmp_path: Path) -> None:
    settings = {"lease": {"node_timeout": "2s", "first_lease": "3s", "heartbeat": "500ms"}}
    shapes = [AgentShape(resources={"cpu": 1, "memory": "1Gi"})] * 2
    with LocalCluster(masters=3, agents=shapes, settings=settings) as cluster, cluster.client() as client:
        ledger = tmp_path / "ledger"
        client.submit(ledger_job("long", ledger, cpu="1", then=until_there(tmp_path / "go"), more="retry: {max: 3}"))
        until(lambda: len(starts(ledger)) == 1, "the task runs")
        agent = cluster.agents[client.get_job("long").tasks[0].node_id]
        agent.send(signal.SIGTERM)
        assert agent.wait(PATIENCE_S) == 0
        gone_at = time.monotonic()
        lost = cluster.leader()
        kill_whole(lost)
        client.submit(ledger_job("other", ledger, cpu="1"))
        assert client.wait("other", timeout=PATIENCE_S).state is JobState.SUCCEEDED, "the other node takes work"
        time.sleep(max(0.0, gone_at + 8 - time.monotonic()))
        cluster.restart(agent)
        cluster.restart(lost)
        until(lambda: client.get_status().nodes_ready == 2, "the agent is back")
        (tmp_path / "go").touch()
        assert client.wait("long", timeout=PATIENCE_S).state is JobState.SUCCEEDED
        assert [(task.partition("/")[2], attempt) for task, attempt, _ in starts(ledger)] == [("task/0", 1)] * 2


def test_a_client_that_knows_one_dead_master_says_so(tmp_path: Path) -> None:
    from gosched import GoSchedClient

    with GoSchedClient("127.0.0.1:1", timeout_s=1.0) as client, pytest.raises(GoSchedError) as error:
        client.get_status()
    assert error.value.exit_code == 5


def test_sigterm_hands_leadership_over_and_ends_with_0_and_a_master_without_its_replica_ends_with_1() -> None:
    with LocalCluster(masters=3, agents=1) as cluster, cluster.client() as client:
        leader = cluster.leader()
        leader.send(signal.SIGTERM)
        assert leader.wait(PATIENCE_S) == 0
        assert cluster.leader().id != leader.id
        cluster.restart(leader)
        until(lambda: all(m.healthy for m in client.get_status().masters), "all masters are healthy")
        follower = next(m for m in cluster.masters.values() if m.id != cluster.leader().id)
        replica_of(follower).kill()
        assert follower.wait(PATIENCE_S) == 1
        assert "replica" in follower.last_line()
        cluster.restart(follower)
        until(lambda: all(m.healthy for m in client.get_status().masters), "all masters are healthy")


def test_logs_are_followed_through_an_agent_restart_without_a_line_lost_or_doubled(tmp_path: Path) -> None:
    with LocalCluster(masters=1, agents=1, settings=PATIENT) as cluster, cluster.client() as client:
        # It does not end before the agent is killed; then it goes on at once, whether the next agent is there or not.
        wait = f"[ $i -ne 30 ] || {until_there(tmp_path / 'go')}"
        count = f"i=0; while [ $i -lt 60 ]; do {wait}; echo line $i; i=$((i+1)); sleep 0.1; done"
        job = client.submit(ledger_job("talker", tmp_path / "ledger", then=count)).job_id
        until(lambda: starts(tmp_path / "ledger"), "the task runs")
        read = b""
        agent = cluster.agents["agent-1"]
        restarted = False
        for chunk in client.logs(job, follow=True, timeout_s=2 * PATIENCE_S):
            read += chunk.data
            if not restarted and b"line 10\n" in read:
                agent.kill()
                (tmp_path / "go").touch()
                cluster.restart(agent)
                restarted = True
        assert restarted
        assert read.decode().split("\n") == [f"line {i}" for i in range(60)] + [""]
