"""Tasks on the GPUs of this machine, with NVIDIA's driver and no pretence; as root, with cgroup v2 and PyTorch."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient, JobHandle
from gosched.core.records.job import JobState
from tests.integration.support import goschedctl, left_empty, until

CUDA = f"{sys.executable} {Path(__file__).with_name('cuda.py')}"
TRAINING = Path(__file__).parents[2] / "examples" / "pytorch_train.py"
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Told:
    """A GPU, as nvidia-smi tells it."""

    name: str
    uuid: str
    memory_mib: int


@pytest.fixture(scope="module")
def told() -> list[Told]:
    """The GPUs in the order of their addresses."""
    words = ["nvidia-smi", "--query-gpu=name,uuid,memory.total", "--format=csv,noheader,nounits"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    return [
        Told(name, uuid, int(memory)) for name, uuid, memory in csv.reader(said.splitlines(), skipinitialspace=True)
    ]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    shape = AgentShape(resources={"cpu": 8, "memory": "8Gi"}, settings={"heartbeat": "1s"})
    with LocalCluster(masters=1, agents=[shape]) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[GoSchedClient]:
    with left_empty(cluster) as client:
        yield client


def job(name: str, run: str, gpu: object = None, **more: object) -> str:
    resources = {"cpu": 1, "memory": "512Mi"} | ({} if gpu is None else {"gpu": gpu})
    return yaml.safe_dump({"name": name, "resources": resources, "stop_grace": "2s", "run": run} | more)


def written(job: JobHandle) -> str:
    return b"".join(chunk.data for chunk in job.logs()).decode()


def end(client: GoSchedClient, text: str) -> tuple[JobState, str]:
    """Run a job to its end; return its state and what it wrote."""
    handle = client.submit(text)
    return handle.wait(timeout=120).state, written(handle)


def node(cluster: LocalCluster) -> dict[str, Any]:
    done = goschedctl(cluster.endpoints, "node", "show", "agent-1", "-o", "json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def used_mib() -> int:
    words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return sum(map(int, subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.split()))


def test_a_node_offers_the_gpus_that_nvidia_smi_lists(cluster: LocalCluster, told: list[Told]) -> None:
    found = node(cluster)
    assert found["resources"]["total"]["gpu"] == len(told)
    assert [(gpu["name"], gpu["uuid"]) for gpu in found["usage"]["gpus"]] == [(gpu.name, gpu.uuid) for gpu in told]
    assert found["labels"]["gosched.io/gpu.product"] == told[0].name
    assert abs(found["hardware"]["gpu_memory_bytes"] / GIB - told[0].memory_mib / 1024) < 1
    assert found["gpu_model"] in told[0].name.lower()


def test_a_task_computes_on_its_own_gpu_and_sees_no_other(client: GoSchedClient, told: list[Told]) -> None:
    state, said = end(client, job("own", f"echo $CUDA_VISIBLE_DEVICES; {CUDA} devices", gpu=1))
    assert state is JobState.SUCCEEDED, said
    visible, *seen = said.split()
    assert seen == [visible]
    assert visible in [gpu.uuid for gpu in told]


def test_a_task_without_gpus_opens_none_whatever_it_sets(client: GoSchedClient, cluster: LocalCluster) -> None:
    line = f"export CUDA_VISIBLE_DEVICES=0; {CUDA} devices; for d in /dev/nvidia[0-9]*; do head -c 0 $d; done"
    state, said = end(client, job("none", f'echo "[$CUDA_VISIBLE_DEVICES]"; ({line}) 2>&1; true'))
    print(said, node(cluster)["isolation"])
    assert state is JobState.SUCCEEDED
    assert said.startswith("[]\n")
    assert "GPU-" not in said
    assert "Operation not permitted" in said, f"the node cannot enforce it: {node(cluster)['isolation']}"


def test_work_and_memory_of_a_gpu_are_measured_and_end_with_the_job(
    client: GoSchedClient, cluster: LocalCluster
) -> None:
    before = used_mib()
    handle = client.submit(job("busy", f"{CUDA} busy", gpu=1))
    until(
        lambda: any(gpu["busy"] > 0.5 and gpu["memory_bytes"] > GIB for gpu in node(cluster)["usage"]["gpus"]), "busy"
    )
    print(goschedctl(cluster.endpoints, "node", "show", "agent-1").stdout)
    print(goschedctl(cluster.endpoints, "top", "nodes").stdout)
    client.cancel("busy")
    handle.wait(timeout=60)
    until(lambda: used_mib() <= before + 64, "its memory is free again")


def test_a_job_waits_for_gpus_that_others_hold_and_says_so(client: GoSchedClient, told: list[Told]) -> None:
    first = client.submit(job("first", "sleep 600", gpu=len(told)))
    until(lambda: first.state is JobState.RUNNING, "the first runs")
    second = client.submit(job("second", f"{CUDA} devices", gpu=1))
    until(lambda: "GPU" in second.explain().message, "it says that it waits for a GPU")
    print(second.explain().message)
    client.cancel("first")
    assert second.wait(timeout=120).state is JobState.SUCCEEDED


def test_two_halves_share_a_gpu(client: GoSchedClient, told: list[Told]) -> None:
    line = f"{CUDA} devices; sleep 600"
    halves = [client.submit(job(f"half-{n}", line, gpu=0.5)) for n in range(2 * len(told))]
    seen = []
    for half in halves:
        until(lambda half=half: "GPU-" in written(half), "it sees its GPU")  # type: ignore[misc]
        seen.append(written(half).split()[0])
    assert sorted(seen) == sorted([gpu.uuid for gpu in told] * 2)


def test_a_fault_of_a_program_fails_its_task_and_leaves_the_gpu_in_service(
    client: GoSchedClient, cluster: LocalCluster
) -> None:
    agent = cluster.agents["agent-1"]
    state, said = end(client, job("fault", f"{CUDA} fault", gpu=1))
    assert state is JobState.FAILED, said
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in said
    until(lambda: "a GPU reports an error that does not break it" in agent.log.read_text(), "the agent heard the Xid")
    assert not node(cluster)["hardware"]["bad_gpus"]
    assert end(client, job("after", f"{CUDA} devices", gpu=1))[0] is JobState.SUCCEEDED


def test_an_agent_that_starts_again_knows_whose_gpu_is_whose(
    client: GoSchedClient, cluster: LocalCluster, told: list[Told]
) -> None:
    handle = client.submit(job("stays", f"{CUDA} busy", gpu=len(told)))
    until(lambda: "busy" in written(handle), "it works")
    (pid,) = [
        p.pid for p in psutil.process_iter(["cmdline"]) if (p.info["cmdline"] or [])[1:] == [*CUDA.split()[1:], "busy"]
    ]
    agent = cluster.agents["agent-1"]
    agent.kill()
    cluster.restart(agent)
    cluster.wait_ready()
    waiting = client.submit(job("waits", f"{CUDA} devices", gpu=1))
    until(lambda: "GPU" in waiting.explain().message, "the GPU is still held")
    assert psutil.pid_exists(pid)
    client.cancel("stays")
    assert waiting.wait(timeout=120).state is JobState.SUCCEEDED
    assert not psutil.pid_exists(pid)


def test_a_batch_script_gets_the_gpus_it_asks_for(cluster: LocalCluster, told: list[Told], tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(
        "#!/bin/bash\n#SBATCH --ntasks=1 --gres=gpu:1 --mem=512M -o out\n"
        "echo $SLURM_GPUS_ON_NODE\nnvidia-smi -i $SLURM_JOB_GPUS --query-gpu=uuid --format=csv,noheader\n"
        f"srun {CUDA} devices\n"
    )
    env = {**os.environ, "GOSCHED_ENDPOINTS": cluster.endpoints}
    words = [str(Path(sys.executable).with_name("goschedctl")), "sbatch", "--wait", "job.sh"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    said = (tmp_path / "out").read_text()
    print(said)
    assert done.returncode == 0, done.stderr + said
    count, own, seen = said.split()
    assert (count, own) == ("1", seen)
    assert seen in [gpu.uuid for gpu in told]


def test_the_example_trains_on_a_gpu(client: GoSchedClient, tmp_path: Path) -> None:
    torchrun = shutil.which("torchrun")
    assert torchrun, "PyTorch is not here: no torchrun in the PATH"
    worker = {
        "resources": {"cpu": 4, "memory": "4Gi", "gpu": 1},
        "distributed": {"framework": "torch", "launcher": "torchrun"},
        "env": {"CHECKPOINT": str(tmp_path / "model.pt")},
        "run": f"{torchrun} {TRAINING}",
    }
    state, said = end(client, yaml.safe_dump({"name": "train", "tasks": {"worker": worker}}))
    print(said)
    assert state is JobState.SUCCEEDED, said
    assert "begins with epoch 0 on cuda:0" in said
    assert "epoch 4: loss" in said
