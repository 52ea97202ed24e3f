"""The example with Ray: on one machine and on three, and when one of these is lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.core.records.job import JobState
from tests.frameworks.hosts import Cluster
from tests.frameworks.jobs import installed
from tests.frameworks.runs import Row, told
from tests.integration.support import PATIENCE_S, goschedctl, until

ROOT = Path(__file__).parents[2]
SUM = "the sum of the squares is 8555 by "  # by how many nodes is a matter of how fast each starts its workers
ONE_MACHINE = AgentShape(resources={"cpu": 16, "memory": "32Gi"})


def example(name: str, **keys: object) -> dict[str, Any]:
    """Return the example as it stands, but for its name, further keys, and where ray is."""
    job: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "ray.yaml").read_text())
    for group in job["tasks"].values():
        group["env"] = {**group.get("env", {}), "PATH": f"{installed('ray')}/bin:/usr/bin:/bin"}
    return {**job, "name": name, **keys}


def said(cluster: LocalCluster, name: str) -> str:
    return goschedctl(cluster.endpoints, "logs", name, "--task", "head/0").stdout


def test_clusters_of_ray_that_share_one_machine_do_not_meet() -> None:
    before = set(Path("/tmp").glob("ray.*"))
    with LocalCluster(masters=1, agents=[ONE_MACHINE]) as cluster, cluster.client() as client:
        for turn in ("first", "second"):
            names = [f"{turn}-{which}" for which in "ab"]
            for name in names:
                client.submit(yaml.safe_dump(example(name)))
            for name in names:
                done = client.wait(name, timeout=PATIENCE_S)
                assert (done.state, done.job.attempt) == (JobState.SUCCEEDED, 1)
                assert SUM in said(cluster, name)
    assert set(Path("/tmp").glob("ray.*")) <= before, "the tasks leave nothing behind"


def test_the_example_runs_on_three_nodes(three_nodes: Cluster) -> None:
    with three_nodes.client() as client:
        spread = example("ray")
        for group in spread["tasks"].values():
            group["placement"] = {"strategy": "spread"}
        client.submit(yaml.safe_dump(spread))
        done = client.wait("ray", timeout=PATIENCE_S)
        assert done.state is JobState.SUCCEEDED
        assert len({task.node_id for task in done.tasks}) == 3
        assert SUM in said(three_nodes, "ray")


def test_a_cluster_of_ray_starts_again_when_the_node_of_a_worker_crashes(
    three_nodes: Cluster, record_property: Callable[[str, object], None]
) -> None:
    before = set(Path("/tmp").glob("ray.*"))
    with three_nodes.client() as client:
        long = example("ray", retry={"max": 3, "when": ["node_lost"]})
        long["tasks"]["head"]["run"] = long["tasks"]["head"]["run"].replace("time.sleep(0.1)", "time.sleep(1)")
        for group in long["tasks"].values():
            group["placement"] = {"strategy": "spread"}
        client.submit(yaml.safe_dump(long))
        until(lambda: client.get_job("ray").job.running == 3, "all tasks run", PATIENCE_S)
        placed = [task.node_id for task in client.get_job("ray").tasks]
        struck_at = time.time()
        three_nodes.crash(placed[1])
        done = client.wait("ray", timeout=2 * PATIENCE_S)
        events = client.list_events(job="ray", since_ms=int(struck_at * 1000)).events
        again = [event.at_ms / 1000 - struck_at for event in events if event.kind == "job_started"]
        kept = sum(task.node_id == node for task, node in zip(done.tasks, placed, strict=True))
        row = Row(
            framework="ray",
            fault="node of a worker crashes",
            policy="retry: {max: 3, when: [node_lost]}",
            noticed_s=events[0].at_ms / 1000 - struck_at,
            again_s=again[0] if again else None,
            pause_s=None,
            steps_lost=None,
            pids_kept="0 of 2",
            nodes_kept=f"{kept} of 3",
            state=done.state.name,
            restarts=done.job.restarts,
            words="; ".join(told(events, struck_at)),
        )
        record_property("row", asdict(row))
        assert (done.state, done.job.attempt, done.job.restarts) == (JobState.SUCCEEDED, 2, 0)
        assert SUM in said(three_nodes, "ray")
    for left in set(Path("/tmp").glob("ray.*")) - before:
        shutil.rmtree(left)  # a machine that crashes cleans nothing up
