"""A real Slurm on this machine, for tests and benchmarks: a controller, MUNGE, and one or several pretended nodes.

Needs root, and Slurm with MUNGE (Debian: `apt-get install slurm-wlm munge`). The daemons listen on loopback, keep their
files in one directory, and are ended by their process ids.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.ports import HeldPort

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "sinfo")
AS_IT_COMES = "default_queue_depth=100"
START_S, RUN_S = 30.0, 600.0

_CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
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
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A controller and its nodes n1, n2 and so on, until the block of `slurm` ends."""

    def __init__(self, folder: Path, *, nodes: int, cpus: int, scheduler: str) -> None:
        self.folder = folder
        self.nodes = [f"n{number + 1}" for number in range(nodes)]
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        for name in ("state", "spool"):
            (folder / name).mkdir()
        folder.chmod(0o755)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        host = socket.gethostname().partition(".")[0]
        shape = f"NodeAddr=127.0.0.1 NodeHostname={host} CPUs={cpus} RealMemory=65536 State=UNKNOWN"
        self._ports = {name: HeldPort() for name in ("slurmctld", *self.nodes)}
        lines = [f"NodeName={name} Port={self._ports[name].number} {shape}" for name in self.nodes]
        config = _CONFIG.format(
            host=host,
            folder=folder,
            scheduler=scheduler,
            port=self._ports["slurmctld"].number,
            nodes="\n".join(lines),
        )
        (folder / "slurm.conf").write_text(config)
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")

    def start(self) -> None:
        files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid", "seed-file": "munge.seed"}
        words = [f"--{option}={self.folder / file}" for option, file in files.items()]
        self.run("munged", "--force", f"--log-file={self.folder / 'munged.log'}", *words)
        self.run("slurmctld", "-c", "-f", self.environment["SLURM_CONF"])
        for name in self.nodes:
            self.run("slurmd", "-N", name, "-f", self.environment["SLURM_CONF"])
        wait(self._is_idle, START_S, "Slurm's nodes are idle")

    def _is_idle(self) -> bool:
        return self.run("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * len(self.nodes)

    def stop(self) -> None:
        names = [*[f"slurmd-{node}" for node in self.nodes], "slurmctld", "munged"]
        files = [self.folder / f"{name}.pid" for name in names]
        pids = [int(file.read_text()) for file in files if file.exists()]
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        for pid in pids:
            wait(partial(_has_ended, pid), START_S, f"process {pid} of Slurm has ended")

    def run(self, *words: str) -> str:
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=RUN_S, check=False)
        if done.returncode:
            raise SystemExit(f"{words[0]} ended with {done.returncode}: {done.stderr[-500:]}")
        return done.stdout


@contextmanager
def slurm(*, nodes: int = 1, cpus: int = 64, scheduler: str = AS_IT_COMES) -> Iterator[Slurm]:
    with tempfile.TemporaryDirectory(prefix="gosched-slurm-") as folder:
        running = Slurm(Path(folder), nodes=nodes, cpus=cpus, scheduler=scheduler)
        try:
            running.start()
            yield running
        finally:
            running.stop()


def missing() -> list[str]:
    """Return what is not there of what is needed; empty: nothing."""
    return [program for program in PROGRAMS if shutil.which(program) is None] + (["root"] if os.geteuid() else [])


def wait(condition: Callable[[], object], limit_s: float, what: str) -> None:
    ends = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > ends:
            raise SystemExit(f"not within {limit_s:g} s: {what}")
        time.sleep(0.05)


def _has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()
