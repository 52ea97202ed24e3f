"""The job of these tests for each framework: three ranks of 2 CPUs, spread over the nodes."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

INSTALL_S = 1800.0
PROGRAM = Path(__file__).with_name("program.py")
PYTHON = "/usr/bin/python3"  # Debian's, which sees python3-torch and python3-mpi4py
RANKS = 3
# Policies, as lines of a job file.
LOST = "retry: {max: 5, when: [node_lost, preempted]}"
FAILED = "retry: {max: 5, when: [node_lost, preempted, failed]}"
ELASTIC = "gang: {min: 2}"
CONTINUE = "gang: {min: 2, on_member_failure: continue}"

# By framework: its words for `distributed`, and its command.
_FRAMEWORKS = {
    "torch": ("{framework: torch}", f"exec {PYTHON} {{program}} torch {{shared}}"),
    "torchrun": ("{framework: torch, launcher: torchrun}", "exec torchrun {program} torch {shared}"),
    "torchrun c10d": (
        "{framework: torch, launcher: torchrun}",
        "exec torchrun --max_restarts 3 {program} torch {shared}",
    ),
    "alone": ("{framework: none}", f"exec {PYTHON} {{program}} alone {{shared}}"),
    "mpi": ("{framework: mpi}", f"exec {PYTHON} {{program}} mpi {{shared}}"),
}


def job(framework: str, shared: Path, *, more: str) -> str:
    """Return the job file. `more`: further keys of the job."""
    if framework == "torchft":
        return _torchft(shared, more)
    if framework == "torchrun c10d, own store":
        return _own_store(shared, more)
    distributed, command = _FRAMEWORKS[framework]
    run = command.format(program=PROGRAM, shared=shared)
    return f"""\
name: train
{more}
tasks:
  worker:
    count: {RANKS}
    resources: {{cpu: 2, memory: 1Gi}}
    placement: {{strategy: spread}}
    distributed: {distributed}
    env: {{OMP_NUM_THREADS: 1, PET_REDIRECTS: "0:1", PET_TEE: "0:1"}}
    run: {run}
"""


def _own_store(shared: Path, more: str) -> str:
    """Return a job whose ranks meet at a store that is none of theirs, so that each of them may be lost."""
    return f"""\
name: train
{more}
tasks:
  store:
    resources: {{cpu: 1, memory: 256Mi}}
    run: |
      exec {PYTHON} -c 'import os, signal; from torch.distributed import TCPStore
      store = TCPStore("0.0.0.0", int(os.environ["GOSCHED_PORT"]), None, True, wait_for_workers=False)
      signal.pause()'
  worker:
    count: {RANKS}
    resources: {{cpu: 2, memory: 1Gi}}
    placement: {{strategy: spread}}
    env: {{OMP_NUM_THREADS: 1, PET_REDIRECTS: "0:1", PET_TEE: "0:1"}}
    run: |
      exec torchrun --nnodes 2:{RANKS} --max_restarts 3 --rdzv_backend c10d --rdzv_id $GOSCHED_JOB_ID \
        --rdzv_endpoint $GOSCHED_HOSTS_STORE:$GOSCHED_PORT --rdzv_conf is_host=0 {PROGRAM} torch {shared}
"""


def _torchft(shared: Path, more: str) -> str:
    """Return a job of three replicas, and the lighthouse that tells them who is there."""
    programs = installed("torchft") / "bin"
    return f"""\
name: train
{more}
tasks:
  lighthouse:
    resources: {{cpu: 1, memory: 256Mi}}
    run: exec {programs}/torchft_lighthouse --min_replicas 2 --join_timeout_ms 1000 --bind [::]:$GOSCHED_PORT
  replica:
    count: {RANKS}
    resources: {{cpu: 2, memory: 2Gi}}
    placement: {{strategy: spread}}
    env: {{OMP_NUM_THREADS: 1}}
    run: |
      export TORCHFT_LIGHTHOUSE=http://$GOSCHED_HOSTS_LIGHTHOUSE:$GOSCHED_PORT
      exec {programs}/python {PROGRAM} torchft {shared}
"""


def sleepers(name: str, *, cpu: int = 2, seconds: int = 600, more: str = "") -> str:
    """Return a job of three tasks that only hold what they ask for."""
    return f"""\
name: {name}
{more}
tasks:
  worker:
    count: {RANKS}
    resources: {{cpu: {cpu}, memory: 1Gi}}
    placement: {{strategy: spread}}
    run: exec sleep {seconds}
"""


@cache
def installed(framework: str) -> Path:
    """Return the environment of a framework that is not Debian's."""
    script = Path(__file__).parents[2] / "tools" / "frameworks.sh"
    done = subprocess.run([script, framework], capture_output=True, text=True, timeout=INSTALL_S, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())
