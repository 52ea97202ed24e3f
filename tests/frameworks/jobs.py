"""The job of these tests for each framework: three ranks of 2 CPUs, spread over the nodes."""

from __future__ import annotations

from pathlib import Path

PROGRAM = Path(__file__).with_name("program.py")
PYTHON = "/usr/bin/python3"  # Debian's, which sees python3-torch and python3-mpi4py
#: Policies as they stand in the table.
LOST = "{max: 5, when: [node_lost, preempted]}"
FAILED = "{max: 5, when: [node_lost, preempted, failed]}"

# By framework: its words for `distributed`, and its command.
_FRAMEWORKS = {
    "torch": ("{framework: torch}", f"exec {PYTHON} {{program}} torch {{shared}}"),
    "torchrun": ("{framework: torch, launcher: torchrun}", "exec torchrun {program} torch {shared}"),
    "torchrun c10d": (
        "{framework: torch, launcher: torchrun}",
        "exec torchrun --max_restarts 3 {program} torch {shared}",
    ),
    "mpi": ("{framework: mpi}", f"exec {PYTHON} {{program}} mpi {{shared}}"),
}


def job(framework: str, shared: Path, *, more: str = "", name: str = "train") -> str:
    """Return the job file. `more`: further keys of the job."""
    distributed, command = _FRAMEWORKS[framework]
    run = command.format(program=PROGRAM, shared=shared)
    return f"""\
name: {name}
{more}
tasks:
  worker:
    count: 3
    resources: {{cpu: 2, memory: 1Gi}}
    placement: {{strategy: spread}}
    distributed: {distributed}
    env: {{OMP_NUM_THREADS: 1, PET_REDIRECTS: "0:1", PET_TEE: "0:1"}}
    run: {run}
"""


def sleepers(name: str) -> str:
    """Return a job that wants the same as those of the frameworks."""
    return f"""\
name: {name}
tasks:
  worker: {{count: 3, resources: {{cpu: 2, memory: 1Gi}}, placement: {{strategy: spread}}, run: exec sleep 600}}
"""
