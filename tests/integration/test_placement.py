"""Where tasks come to stand, as they see it themselves: racks, GPUs, CPUs, taints, affinity and elastic gangs."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pytest
import yaml

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.cli.local_program import Program
from gosched.client import GoSchedClient
from gosched.core.cpulist import parse_cpulist
from gosched.core.records.job import JobState

from .support import PATIENCE_S, goschedctl, left_empty, until

RACKS = {"agent-1": "r1", "agent-2": "r2", "agent-3": "r1", "agent-4": "r2"}
NUMA_CPUS = ("0-7", "8-15")  # of the GPUs 0-3 and 4-7, which are also the islands of links
HARDWARE = {
    "gpu_model": "h100",
    "numa": list(NUMA_CPUS),
    "gpu_numa": [0, 0, 0, 0, 1, 1, 1, 1],
    "gpu_links": [0, 0, 0, 0, 1, 1, 1, 1],
}
GPU_NODE = {"cpu": 16, "memory": "64Gi", "gpu": 8}
FOUR_CPUS = {"cpu": 4, "memory": "8Gi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a task found in its environment."""

    rank: int
    node: str
    attempt: int
    gpus: tuple[int, ...]
    cpus: int  # a mask


@pytest.fixture(scope="module")
def gpu_cluster() -> Iterator[LocalCluster]:
    """Two racks of two nodes, with eight GPUs in two islands each."""
    shapes = [
        AgentShape(resources=GPU_NODE, labels={"rack": rack, "host": name}, settings=HARDWARE)
        for name, rack in RACKS.items()
    ]
    with LocalCluster(masters=1, agents=shapes, settings={"topology": ["rack"]}) as running:
        yield running


@pytest.fixture
def gpus(gpu_cluster: LocalCluster) -> Iterator[GoSchedClient]:
    with left_empty(gpu_cluster) as client:
        yield client


def test_a_gang_that_requires_one_rack_gets_one_and_its_ranks_go_from_node_to_node(
    gpus: GoSchedClient, tmp_path: Path
) -> None:
    topology = "topology: {level: rack, mode: required}, strategy: spread"
    gpus.submit(job("gang", tmp_path, count=6, resources="gpu: 2", placement=topology))
    seen = seen_by(gpus, "gang", tmp_path, 6)
    assert [task.rank for task in seen] == list(range(6))
    assert len({RACKS[task.node] for task in seen}) == 1
    assert [len(list(tasks)) for _, tasks in groupby(seen, key=lambda task: task.node)] == [3, 3]


def test_ranks_of_a_gang_that_needs_both_racks_go_from_rack_to_rack_and_within_it_from_node_to_node(
    gpus: GoSchedClient, tmp_path: Path
) -> None:
    gpus.submit(
        job("wide", tmp_path, count=14, resources="gpu: 2", placement="topology: {level: rack, mode: preferred}")
    )
    seen = seen_by(gpus, "wide", tmp_path, 14)
    assert len(list(groupby(seen, key=lambda task: RACKS[task.node]))) == 2
    assert len(list(groupby(seen, key=lambda task: task.node))) == 4


def test_explain_tells_the_nearest_miss_of_a_gang_that_no_rack_can_hold(
    gpu_cluster: LocalCluster, gpus: GoSchedClient, tmp_path: Path
) -> None:
    gpus.submit(job("nine", tmp_path, count=9, resources="gpu: 2", placement="topology: {level: rack, mode: required}"))
    until(lambda: gpus.explain("nine").code, "a cycle has looked at it")
    told = json.loads(goschedctl(gpu_cluster.endpoints, "explain", "nine", "-o", "json").stdout)
    assert (told["state"], told["code"]) == ("PENDING", "TOPOLOGY")
    assert told["nearest"] == "needs 18 GPUs on one rack; best is r1 with 16"
    assert told["nearest"] in goschedctl(gpu_cluster.endpoints, "explain", "nine").stdout
    assert not (tmp_path / "nine").exists()


def test_two_tasks_with_half_a_gpu_share_one_and_see_it(gpus: GoSchedClient, tmp_path: Path) -> None:
    gpus.submit(job("half", tmp_path, count=2, resources="gpu: 0.5"))
    first, second = seen_by(gpus, "half", tmp_path, 2)
    assert len(first.gpus) == 1
    assert (first.node, first.gpus) == (second.node, second.gpus)


def test_whole_gpus_are_a_tasks_own_within_one_island_with_cpus_of_its_own_beside_them(
    gpus: GoSchedClient, tmp_path: Path
) -> None:
    on_one = "node_selector: {host: agent-2}"
    gpus.submit(job("three", tmp_path, count=2, resources="gpu: 3, cpu: 4", placement=on_one))
    gpus.submit(job("one", tmp_path, count=2, resources="gpu: 1, cpu: 2", placement=on_one))
    seen = seen_by(gpus, "three", tmp_path, 2) + seen_by(gpus, "one", tmp_path, 2)
    assert sorted(gpu for task in seen for gpu in task.gpus) == list(range(8))
    for task in seen:
        (island,) = {gpu // 4 for gpu in task.gpus}
        assert task.cpus & parse_cpulist(NUMA_CPUS[island]) == task.cpus
    assert [task.cpus.bit_count() for task in seen] == [4, 4, 2, 2]
    assert sum(task.cpus for task in seen).bit_count() == 12, "no CPU is given twice"


def test_an_elastic_gang_starts_with_its_minimum_and_the_others_join_with_the_next_nodes(tmp_path: Path) -> None:
    shape = AgentShape(resources={"cpu": 1, "memory": "8Gi"})
    with LocalCluster(masters=1, agents=[shape] * 2) as cluster, cluster.client() as client:
        all_there = f"until [ $(wc -l < {tmp_path}/elastic) -ge 4 ]; do sleep 0.05; done"
        client.submit(job("elastic", tmp_path, count=4, resources="cpu: 1", then=all_there, more="gang: {min: 2}"))
        until(lambda: len(lines(tmp_path / "elastic")) == 2, "its minimum runs")
        assert client.get_job("elastic").state is JobState.RUNNING
        cluster.add_agent(shape)
        until(lambda: len(lines(tmp_path / "elastic")) == 3, "a third task joins")
        cluster.add_agent(shape)
        done = client.wait("elastic", timeout=PATIENCE_S)
        assert (done.state, done.job.attempt) == (JobState.SUCCEEDED, 1)
        assert {task.node_id for task in done.tasks} == set(cluster.agents)


def test_a_no_schedule_taint_keeps_tasks_off_and_a_toleration_lets_them_in(tmp_path: Path) -> None:
    shapes = [
        AgentShape(resources=FOUR_CPUS, labels={"host": "a"}, settings={"taints": ["team=ml:no_schedule"]}),
        AgentShape(resources=FOUR_CPUS, labels={"host": "b"}),
    ]
    with LocalCluster(masters=1, agents=shapes) as cluster, cluster.client() as client:
        on_a = "node_selector: {host: a}"
        client.submit(job("kept-off", tmp_path, placement=on_a))
        client.submit(job("elsewhere", tmp_path, count=4))
        tolerates = f"{on_a}, tolerations: [{{key: team, value: ml, effect: no_schedule}}]"
        client.submit(job("let-in", tmp_path, placement=tolerates))
        assert {task.node for task in seen_by(client, "elsewhere", tmp_path, 4)} == {"agent-2"}
        assert {task.node for task in seen_by(client, "let-in", tmp_path, 1)} == {"agent-1"}
        until(lambda: client.explain("kept-off").code, "a cycle has looked at it")
        told = client.explain("kept-off")
        assert (told.code, told.refused) == ("CONSTRAINTS", (("without the labels", 1), ("tainted", 1)))
        assert not (tmp_path / "kept-off").exists()


def test_affinity_prefers_its_node_and_a_no_execute_taint_sends_the_gang_to_another(tmp_path: Path) -> None:
    shapes = [
        AgentShape(resources=FOUR_CPUS, labels={"disk": "hdd"}),
        AgentShape(resources=FOUR_CPUS, labels={"disk": "ssd"}),
    ]
    with LocalCluster(masters=1, agents=shapes) as cluster, cluster.client() as client:
        client.submit(job("plain", tmp_path))
        assert {task.node for task in seen_by(client, "plain", tmp_path, 1)} == {"agent-1"}
        likes = "affinity: [{label: disk, op: in, values: [ssd], weight: 50}]"
        client.submit(job("gang", tmp_path, count=2, placement=likes))  # the best fit would be agent-1
        assert {task.node for task in seen_by(client, "gang", tmp_path, 2)} == {"agent-2"}
        restart_with(cluster, cluster.agents["agent-2"], {"taints": ["repair:no_execute"]})
        moved = seen_by(client, "gang", tmp_path, 4)[-2:]
        assert [(task.rank, task.node, task.attempt) for task in moved] == [(0, "agent-1", 2), (1, "agent-1", 2)]
        told = client.get_job("gang")
        assert (told.state, told.job.attempt) == (JobState.RUNNING, 2)
        until(lambda: not any(node.tasks for node in client.list_nodes() if node.node.id == "agent-2"), "it is empty")
        log = "".join(master.log.read_text() for master in cluster.masters.values())
        assert "TAINTED" in log


def job(
    name: str,
    folder: Path,
    *,
    count: int = 1,
    resources: str = "cpu: 1",
    placement: str = "",
    then: str = "sleep 600",
    more: str = "",
) -> str:
    """Each task appends what it sees to a file of the job's name."""
    line = "$GOSCHED_TASK_INDEX $GOSCHED_NODE $GOSCHED_ATTEMPT [$CUDA_VISIBLE_DEVICES] $GOSCHED_CPUS"
    return (
        f"name: {name}\ncount: {count}\nresources: {{memory: 1Mi, {resources}}}\nplacement: {{{placement}}}\n"
        f"stop_grace: 1s\n{more}\nrun: 'echo \"{line}\" >> {folder / name}; {then}'\n"
    )


def seen_by(client: GoSchedClient, name: str, folder: Path, count: int) -> list[Seen]:
    """Of all starts, once there are `count`; by attempt and rank."""
    until(lambda: len(lines(folder / name)) >= count, f"{count} tasks of {name} have started")
    seen = [_seen(line) for line in lines(folder / name)]
    assert len(seen) == count
    held = {task.rank: task.gpus for task in client.get_job(name).tasks}
    assert all(held[task.rank] == task.gpus for task in seen), "the state says the same"
    return sorted(seen, key=lambda task: (task.attempt, task.rank))


def lines(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines() if ledger.exists() else []


def restart_with(cluster: LocalCluster, agent: Program, settings: dict[str, object]) -> None:
    """Its tasks go on meanwhile."""
    config = cluster.data_dir / f"{agent.id}.yaml"
    agent.send(signal.SIGTERM)
    assert agent.wait(PATIENCE_S) == 0
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | settings))
    cluster.restart(agent)


def _seen(line: str) -> Seen:
    rank, node, attempt, gpus, *cpus = line.split(" ")
    return Seen(
        rank=int(rank),
        node=node,
        attempt=int(attempt),
        gpus=tuple([int(gpu) for gpu in gpus.strip("[]").split(",") if gpu]),
        cpus=parse_cpulist(cpus[0]) if cpus and cpus[0] else 0,
    )
