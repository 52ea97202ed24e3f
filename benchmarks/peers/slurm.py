"""`python -m benchmarks.peers.slurm [--jobs N] [--rounds N]`: jobs that do nothing, through a real Slurm and through
gosched with three masters, in turns on this machine.

Both have one node of 64 CPUs, as declared. What is measured, in jobs a second: commands that submit one job each, eight
at once (`sbatch`, `goschedctl submit`); single jobs from the first submission until none is left, submitted by these
commands to Slurm, which has no other way, and by one `goschedctl submit -` to gosched; and the same as one array. Slurm
runs twice: as it comes, and with a scheduler that looks at once and at everything.

Needs root, and Slurm with MUNGE (Debian: `apt-get install slurm-wlm munge`). The daemons listen on loopback, keep their
files in a directory of this run, and are ended by their process ids.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient
from gosched.core.records.node import NodeState
from tests.ports import HeldPort

CPUS = 64
AT_ONCE = 8
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "sinfo")
AS_IT_COMES = "default_queue_depth=100"
TUNED = "default_queue_depth=10000,sched_min_interval=0,batch_sched_delay=0,bf_interval=1,partition_job_depth=10000"
GOSCHEDCTL = str(Path(sys.executable).parent / "goschedctl")
START_S, DRAIN_S = 30.0, 600.0

_CONFIG = """\
ClusterName=benchmark
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MailProg=/bin/true
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters={scheduler}
MaxJobCount=200000
MaxArraySize=100001
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1024 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A controller and one node, until the block ends."""

    def __init__(self, folder: Path, scheduler: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        for name in ("state", "spool"):
            (folder / name).mkdir()
        folder.chmod(0o755)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        ports = [HeldPort(), HeldPort()]
        config = _CONFIG.format(
            host=socket.gethostname().partition(".")[0],
            folder=folder,
            scheduler=scheduler,
            cpus=CPUS,
            controller_port=ports[0].number,
            node_port=ports[1].number,
        )
        (folder / "slurm.conf").write_text(config)
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")

    def start(self) -> None:
        files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid", "seed-file": "munge.seed"}
        words = [f"--{option}={self.folder / file}" for option, file in files.items()]
        self.run("munged", "--force", f"--log-file={self.folder / 'munged.log'}", *words)
        self.run("slurmctld", "-c", "-f", self.environment["SLURM_CONF"])
        self.run("slurmd", "-f", self.environment["SLURM_CONF"])
        wait(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T"), START_S, "Slurm's node is idle")

    def stop(self) -> None:
        for name in ("slurmd", "slurmctld", "munged"):
            file = self.folder / f"{name}.pid"
            if file.exists():
                pid = int(file.read_text())
                os.kill(pid, 15)
                wait(partial(_has_ended, pid), START_S, f"{name} has ended")

    def run(self, *words: str) -> str:
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=DRAIN_S, check=False)
        if done.returncode:
            raise SystemExit(f"{words[0]} ended with {done.returncode}: {done.stderr[-500:]}")
        return done.stdout

    def submit_one(self, number: int) -> None:
        self.run("sbatch", "-Q", "-n1", "-o", "/dev/null", "--wrap", "true")

    def submit_many(self, jobs: int) -> None:
        submit_by_commands(self.submit_one, jobs)

    def submit_array(self, jobs: int) -> None:
        self.run("sbatch", "-Q", "-n1", "-o", "/dev/null", f"--array=1-{jobs}", "--wrap", "true")

    def drain(self) -> None:
        wait(lambda: not self.run("squeue", "-h", "-o", "%i"), DRAIN_S, "Slurm's queue is empty")


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


def wait(condition: Callable[[], object], limit_s: float, what: str) -> None:
    ends = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > ends:
            raise SystemExit(f"not within {limit_s:g} s: {what}")
        time.sleep(0.05)


def _has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@contextmanager
def slurm(scheduler: str) -> Iterator[Slurm]:
    with tempfile.TemporaryDirectory(prefix="gosched-slurm-") as folder:
        running = Slurm(Path(folder), scheduler)
        try:
            running.start()
            yield running
        finally:
            running.stop()


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
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing or os.geteuid():
        raise SystemExit(
            f"needs root and {', '.join(PROGRAMS)} (missing: {', '.join(missing) or 'root'}): on Debian,"
            " apt-get install slurm-wlm munge"
        )
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
