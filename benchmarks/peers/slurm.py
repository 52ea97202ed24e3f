"""`python -m benchmarks.peers.slurm [--jobs N] [--rounds N]`: jobs that do nothing, through a real Slurm and through
gosched with three masters, in turns on this machine.

Both have one node of 64 CPUs, as declared. What is measured, in jobs a second: commands that submit one job each, eight
at once (`sbatch`, `goschedctl submit`); single jobs from the first submission until none is left, submitted by these
commands to Slurm, which has no other way, and by one `goschedctl submit -` to gosched; and the same as one array. Slurm
runs twice: as it comes, and with a scheduler that looks at once and at everything.

Needs root, and Slurm with MUNGE (Debian: `apt-get install slurm-wlm munge`): `tools/slurm.py` starts it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import tools.slurm
from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient
from gosched.core.records.node import NodeState
from tools.slurm import AS_IT_COMES, missing, wait

CPUS = 64
AT_ONCE = 8
TUNED = "default_queue_depth=10000,sched_min_interval=0,batch_sched_delay=0,bf_interval=1,partition_job_depth=10000"
GOSCHEDCTL = str(Path(sys.executable).parent / "goschedctl")
START_S, DRAIN_S = 30.0, 600.0


class Slurm:
    """A controller and one node, as `tools/slurm.py` starts them."""

    def __init__(self, running: tools.slurm.Slurm) -> None:
        self._run = running.run

    def submit_one(self, number: int) -> None:
        self._run("sbatch", "-Q", "-n1", "-o", "/dev/null", "--wrap", "true")

    def submit_many(self, jobs: int) -> None:
        submit_by_commands(self.submit_one, jobs)

    def submit_array(self, jobs: int) -> None:
        self._run("sbatch", "-Q", "-n1", "-o", "/dev/null", f"--array=1-{jobs}", "--wrap", "true")

    def drain(self) -> None:
        wait(lambda: not self._run("squeue", "-h", "-o", "%i"), DRAIN_S, "Slurm's queue is empty")


class Gosched:
    """Three masters and an agent of the same cluster, which `LocalCluster` runs."""

    def __init__(self, cluster: LocalCluster, client: GoSchedClient) -> None:
        self._client = client
        self._environment = {**os.environ, "GOSCHED_ENDPOINTS": cluster.endpoints}
        self._batch = 0

    def _submit(self, *words: str, text: str = "") -> None:
        done = subprocess.run(
            [GOSCHEDCTL, "submit", *words],
            input=text, env=self._environment, capture_output=True, text=True, timeout=DRAIN_S, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"goschedctl submit ended with {done.returncode}: {done.stderr[-500:]}")

    def submit_one(self, number: int) -> None:
        self._submit("--cpu", "1", "--mem", "1Mi", "--", "true")

    def submit_many(self, jobs: int) -> None:
        self._batch += 1
        names = [f"many-{self._batch}-{number}" for number in range(jobs)]
        job = "---\nname: {}\nresources: {{cpu: 1, memory: 1Mi}}\nrun: ['true']\n"
        self._submit("-", text="".join(map(job.format, names)))

    def submit_array(self, jobs: int) -> None:
        self._submit("--cpu", "1", "--mem", "1Mi", "--array", f"1-{jobs}%{CPUS * 2}", "--", "true")

    def drain(self) -> None:
        def is_empty() -> bool:
            status = self._client.get_status()
            return not (status.pending or status.running)

        wait(is_empty, DRAIN_S, "gosched's queues are empty")


def submit_by_commands(submit: Callable[[int], None], jobs: int) -> None:
    with futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(submit, range(jobs)))


@contextmanager
def slurm(scheduler: str) -> Iterator[Slurm]:
    with tools.slurm.slurm(cpus=CPUS, scheduler=scheduler) as running:
        yield Slurm(running)


@contextmanager
def gosched() -> Iterator[Gosched]:
    agent = AgentShape(resources={"cpu": CPUS, "memory": "64Gi"})
    settings = {"retention": {"max_jobs": 100_000}}
    with LocalCluster(masters=3, agents=[agent], settings=settings) as cluster, cluster.client() as client:
        wait(
            lambda: any(found.node.state is NodeState.READY for found in client.list_nodes()),
            START_S,
            "the agent is ready",
        )
        yield Gosched(cluster, client)


def per_second(jobs: int, work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return jobs / (time.monotonic() - began)


def round_of(peer: Slurm | Gosched, jobs: int) -> dict[str, float]:
    """Jobs per second of each measurement, with empty queues before and after."""
    few = max(AT_ONCE, jobs // 10)

    def many() -> None:
        peer.submit_many(jobs)
        peer.drain()

    def array() -> None:
        peer.submit_array(jobs)
        peer.drain()

    found = {"submitted by commands": per_second(few, lambda: submit_by_commands(peer.submit_one, few))}
    peer.drain()
    found["ended, single jobs"] = per_second(jobs, many)
    found["ended, one array"] = per_second(jobs, array)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description="Jobs that do nothing, through Slurm and through gosched.")
    options.add_argument("--jobs", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    if lacking := missing():
        raise SystemExit(f"{', '.join(lacking)} is missing: as root on Debian, apt-get install slurm-wlm munge")
    peers: dict[str, Callable[[], AbstractContextManager[Slurm | Gosched]]] = {
        "slurm": lambda: slurm(AS_IT_COMES),
        "slurm, tuned": lambda: slurm(TUNED),
        "gosched": gosched,
    }
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(asked.rounds):
        for name, start in peers.items():
            with start() as peer:
                for what, value in round_of(peer, asked.jobs).items():
                    found.setdefault((what, name), []).append(value)
                    print(f"{what:24} {name:14} {value:8.1f} jobs/s", flush=True)
    print(f"\nmedians of {asked.rounds} rounds, {asked.jobs} jobs, {os.cpu_count()} cores")
    for (what, name), values in sorted(found.items()):
        print(f"{what:24} {name:14} {statistics.median(values):8.1f} jobs/s   {min(values):.1f} to {max(values):.1f}")


if __name__ == "__main__":
    main()
