"""Queues, quotas and explanations on real clusters, as users and operators handle them."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient
from gosched.core.records.job import JobState
from tools.queue_shares import PHASES, Load, run

from .support import goschedctl, kill_whole, ledger_job, until

# The period is long: what starts at once was not merely met by the next cycle.
SETTINGS = {
    "server": {"schedule_period": "1h"},
    "queues": [{"name": "research", "type": "capacity", "capacity_pct": 60, "max_pct": 80}],
}
GPU_NODE = AgentShape(resources={"cpu": 16, "memory": "64Gi", "gpu": 8}, settings={"gpu_model": "h100"})


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=3, agents=[GPU_NODE], settings=SETTINGS) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[GoSchedClient]:
    """On three masters that are well; the jobs of a test end with it."""
    with cluster.client() as found:
        until(lambda: all(m.healthy for m in found.get_status().masters), "all masters are well")
        yield found
        for job in found.list_jobs(states=[JobState.PENDING, JobState.RUNNING]):
            found.cancel(job.id)
        until(lambda: found.get_status().used.cpu_millis == 0, "its tasks have ended")


def test_three_capacity_queues_come_to_their_shares_borrow_and_stop_at_their_max_on_three_masters() -> None:
    phases = [phase for phase in PHASES if not phase.kills_leader]  # the whole story is tools/queue_shares.py
    result = run(phases, Load(cpus=(5,), task_s=(2.0, 3.0), phase_s=4.0, patience_s=40.0))
    assert result.mistakes() == []


def test_a_quota_of_two_h100_holds_the_third_task_explain_names_it_and_raising_it_starts_it_at_once(
    cluster: LocalCluster, client: GoSchedClient, tmp_path: Path
) -> None:
    done(cluster, "quota", "set", "nlp", "--gpu", "h100:2")
    for number in range(3):
        client.submit(gpu_job(f"third-{number}", tmp_path / "ledger"))
    until(lambda: states(client, "third") == ["PENDING", "RUNNING", "RUNNING"], "two run and the third waits")
    until(lambda: explained(cluster, "third-2")["code"], "a cycle has looked at it")
    told = explained(cluster, "third-2")
    assert (told["state"], told["code"], told["position"]) == ("PENDING", "QUOTA", 1)
    assert "tenant nlp" in told["limit"]
    assert "h100" in told["limit"]
    text = done(cluster, "explain", "third-2")
    assert told["limit"] in text
    done(cluster, "quota", "set", "nlp", "--gpu", "h100:3")
    until(lambda: states(client, "third") == ["RUNNING"] * 3, "the third runs")
    quotas = {quota["tenant"]: quota for quota in json.loads(done(cluster, "quota", "list", "-o", "json"))}
    assert quotas["nlp"]["used"]["gpu:h100"] == 3
    done(cluster, "quota", "set", "nlp")


WRONG = {
    "an unknown key": ("queues: [{name: a, wieght: 2}]\n", "did you mean"),
    "more than all": (
        "queues:\n- {name: a, type: capacity, capacity_pct: 60}\n- {name: b, type: capacity, capacity_pct: 50}\n",
        "exceed 100 percent",
    ),
    "a queue that live jobs stand in is missing": ("queues: [{name: other}]\nquotas: []\n", "live jobs"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_queue_file_that_is_wrong_changes_nothing(
    cluster: LocalCluster, client: GoSchedClient, tmp_path: Path, mistake: str
) -> None:
    client.submit(ledger_job("stays", tmp_path / "ledger", then="sleep 600", more="queue: research"))
    done(cluster, "quota", "set", "cv", "--cpu", "4")
    until(lambda: states(client, "stays") == ["RUNNING"], "a job stands in the queue")
    before = rules(client)
    text, words = WRONG[mistake]
    file = tmp_path / "queues.yaml"
    file.write_text(text)
    answer = goschedctl(cluster.endpoints, "queue", "apply", str(file), "-y")
    assert answer.returncode in (1, 2), answer.stderr
    assert answer.stdout == ""
    assert words in answer.stderr
    assert rules(client) == before


def test_a_follower_takes_the_queues_of_its_changed_config_over_at_sighup_and_a_broken_one_changes_nothing(
    cluster: LocalCluster, client: GoSchedClient
) -> None:
    leader = client.get_status().leader
    follower = next(master for id, master in cluster.masters.items() if id != leader)
    config = cluster.data_dir / f"{follower.id}.yaml"
    written = config.read_text()
    changed: dict[str, Any] = yaml.safe_load(written)
    changed["queues"] = [{"name": "research", "type": "fair", "weight": 3, "max_running_jobs": 7}]
    try:
        config.write_text(yaml.safe_dump(changed))
        follower.send(signal.SIGHUP)
        until(lambda: rule(client, "research").max_running_jobs == 7, "the queues are taken over")
        assert rule(client, "research").weight == 3
        before = rules(client)
        config.write_text(yaml.safe_dump(changed | {"queues": [{"name": "research", "weight": "heavy"}]}))
        follower.send(signal.SIGHUP)
        until(lambda: "changes nothing" in follower.log.read_text(), "the log says that it is broken")
        assert rules(client) == before
        assert all(master.is_alive for master in cluster.masters.values())
    finally:
        config.write_text(written)


def test_queues_quotas_and_who_is_held_by_them_survive_kill_9_of_the_leader(
    cluster: LocalCluster, client: GoSchedClient, tmp_path: Path
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(
        "queues:\n"
        "  - name: research\n"
        "    type: capacity\n"
        "    capacity_pct: 70\n"
        "    children: [{name: llm, limit: {gpu: 4}, order: fair}, {name: vision, max_running_jobs: 1}]\n"
        "quotas: [{tenant: nlp, limit: {'gpu:h100': 2}}]\n"
    )
    done(cluster, "queue", "apply", str(file))
    assert done(cluster, "queue", "apply", str(file)) == "unchanged\n"
    for number in range(3):
        client.submit(gpu_job(f"held-{number}", tmp_path / "ledger", queue="research.llm"))
        client.submit(ledger_job(f"one-{number}", tmp_path / "l", then="sleep 600", more="queue: research.vision"))
    until(lambda: explained(cluster, "held-2")["code"] == "QUOTA", "the third waits for its quota")
    until(lambda: explained(cluster, "one-2")["code"] == "MAX_RUNNING_JOBS", "the third waits for its queue")
    before = rules(client), states(client, "held"), states(client, "one")
    assert before[1:] == (["PENDING", "RUNNING", "RUNNING"], ["PENDING", "PENDING", "RUNNING"])
    leader = cluster.leader()
    kill_whole(leader)
    until(lambda: client.get_status().leader not in ("", leader.id), "another master leads")
    assert (rules(client), states(client, "held"), states(client, "one")) == before
    until(lambda: explained(cluster, "held-2")["code"] == "QUOTA", "the new leader says the same")
    until(lambda: explained(cluster, "one-2")["code"] == "MAX_RUNNING_JOBS", "the new leader says the same")
    done(cluster, "quota", "set", "nlp", "--gpu", "h100:3")
    until(lambda: states(client, "held") == ["RUNNING"] * 3, "the third runs")
    assert states(client, "one") == ["PENDING", "PENDING", "RUNNING"]
    cluster.restart(leader)


def done(cluster: LocalCluster, *words: str) -> str:
    answer = goschedctl(cluster.endpoints, *words)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def explained(cluster: LocalCluster, job: str) -> dict[str, Any]:
    shape: dict[str, Any] = json.loads(done(cluster, "explain", job, "-o", "json"))
    return shape


def gpu_job(name: str, ledger: Path, *, queue: str = "default") -> str:
    text = ledger_job(name, ledger, then="sleep 600", more=f"tenant: nlp\nqueue: {queue}")
    return text.replace("memory: 1Mi", "memory: 1Mi, gpu: h100:1")


def states(client: GoSchedClient, prefix: str) -> list[str]:
    """Of the live jobs whose names begin so, sorted."""
    live = client.list_jobs(states=[JobState.PENDING, JobState.RUNNING])
    return sorted(job.state.name for job in live if job.spec.name.startswith(prefix))


def rule(client: GoSchedClient, path: str) -> Any:
    return next(queue.rules for queue in client.get_status().queues if queue.path == path)


def rules(client: GoSchedClient) -> tuple[Any, Any]:
    return {q.path: q.rules for q in client.get_status().queues}, {
        s.quota.tenant: s.quota for s in client.list_quotas()
    }
