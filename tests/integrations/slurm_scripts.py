"""Batch scripts after what the documentation of public clusters shows: what they ask for, and what they do.

Programs of the scripts are stand-ins, which `tools_for_scripts` writes. `asks` is what the job file must have: the
tasks of each group, the CPUs of each, and more keys where a script is about them. A script that is refused names the
option. Those with `compared` run through a real Slurm and through gosched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gosched.api.details import NodeDetail
from gosched.config.node_labels import NODE_LABEL
from gosched.core.records.node import Node, NodeState
from gosched.core.resources import MILLI, ZERO, Resources
from gosched.core.spec.placement_rules import Taint


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One script."""

    name: str
    text: str
    #: Number of tasks and CPUs of each group of the job.
    groups: tuple[tuple[int, int], ...] = ()
    #: More of the job, by dotted key; of the first group behind `group.`.
    asks: dict[str, Any] = field(default_factory=dict)
    #: The option that is refused; empty: none is.
    refused: str = ""
    #: Options that a warning names.
    warned: tuple[str, ...] = ()
    compared: bool = True


CASES = (
    Case(
        name="serial",
        text="""#!/bin/bash
#SBATCH --job-name=serial
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=00:10:00

module purge
module load tools
simulate input.dat
""",
        groups=((1, 1),),
        asks={"timeout": "600s", "group.resources.memory": "2048Mi"},
    ),
    Case(
        name="threads",
        text="""#!/bin/bash
#SBATCH -J threads
#SBATCH -N 1
#SBATCH -n 1
#SBATCH -c 4
#SBATCH -t 30

export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
echo threads $OMP_NUM_THREADS
simulate
""",
        groups=((1, 4),),
        asks={"timeout": "1800s"},
    ),
    Case(
        name="ranks-by-nodes",
        text="""#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=3
#SBATCH --time=1-00:00:00
#SBATCH --mem-per-cpu=500M

module load mpi
srun simulate
""",
        groups=((2, 3),),
        asks={
            "timeout": "86400s",
            "group.resources.memory": "1500Mi",
            "group.placement.anti_affinity": [{"job": "self", "level": "node"}],
        },
    ),
    Case(
        name="ranks-anywhere",
        text="""#!/bin/bash
#SBATCH --ntasks=6
#SBATCH --mem-per-cpu=100

srun simulate
""",
        groups=((6, 1),),
        asks={"group.placement.topology": [{"level": "node", "mode": "preferred"}]},
    ),
    Case(
        name="hybrid",
        text="""#!/bin/bash
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --hint=nomultithread
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
srun --cpus-per-task=$SLURM_CPUS_PER_TASK simulate
""",
        groups=((3, 4),),
        warned=("--hint",),
    ),
    Case(
        name="uneven",
        text="""#!/bin/bash
#SBATCH --ntasks=5
#SBATCH --ntasks-per-node=2
srun simulate | sort
""",
        groups=((3, 2),),
    ),
    Case(
        name="array",
        text="""#!/bin/bash
#SBATCH --array=0-2
#SBATCH --output=logs-%A-%a.txt
INPUTS=(alpha beta gamma)
echo ${INPUTS[$SLURM_ARRAY_TASK_ID]} of $SLURM_ARRAY_TASK_COUNT from $SLURM_ARRAY_TASK_MIN to $SLURM_ARRAY_TASK_MAX
""",
        groups=((1, 1),),
        asks={"array": {"range": "0-2:1"}},
    ),
    Case(
        name="array-list",
        text="""#!/bin/bash
#SBATCH --array=1,4,7%2
echo element $SLURM_ARRAY_TASK_ID step $SLURM_ARRAY_TASK_STEP
exit $(( SLURM_ARRAY_TASK_ID == 4 ? 9 : 0 ))
""",
        groups=((1, 1),),
        asks={"array": {"matrix": {"SLURM_ARRAY_TASK_ID": ["1", "4", "7"]}, "parallelism": 2}},
    ),
    Case(
        name="gpu",
        text="""#!/bin/bash
#SBATCH --partition=gpu
#SBATCH --gres=gpu:a100:2
#SBATCH --cpus-per-task=8
#SBATCH --account=project7
nvidia-smi
train --epochs 3
""",
        groups=((1, 8),),
        asks={"queue": "gpu", "tenant": "project7", "group.resources.gpu": "a100:2"},
        compared=False,
    ),
    Case(
        name="gpus-of-tasks",
        text="""#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-task=1 --cpus-per-task=6
#SBATCH --constraint="ib&a100"
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun train
""",
        groups=((2, 24),),
        asks={
            "group.resources.gpu": "4",
            "group.placement.affinity": [{"label": "ib", "op": "exists"}, {"label": "a100", "op": "exists"}],
        },
        compared=False,
    ),
    Case(
        name="master-of-many",
        text="""#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
nodes=( $(scontrol show hostnames $SLURM_JOB_NODELIST) )
echo head ${nodes[0]} of ${#nodes[@]}
srun --nodes=1 --ntasks=1 -w ${nodes[1]} simulate
srun -N1 -n1 --relative=1 simulate
""",
        groups=((2, 1),),
    ),
    Case(
        name="task-farm",
        text="""#!/bin/bash
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=1
for item in 1 2 3 4; do
    srun --ntasks=1 --nodes=1 --exclusive sh -c "echo item $item on local \\$SLURM_LOCALID" &
done
wait
""",
        groups=((2, 1),),
    ),
    Case(
        name="saves-before-the-limit",
        text="""#!/bin/bash
#SBATCH --signal=B:USR1@59
#SBATCH --time=1
#SBATCH --requeue
#SBATCH --open-mode=append
trap 'echo saved; exit 0' USR1
echo restarts ${SLURM_RESTART_COUNT:-0}
sleep 60 & wait
""",
        groups=((1, 1),),
        asks={"timeout": "60s"},
        compared=False,  # Slurm looks every half minute; test_slurm_jobs.py has it on gosched
    ),
    Case(
        name="fails",
        text="""#!/bin/bash
#SBATCH -n 2
set -e
srun sh -c 'exit $((SLURM_PROCID * 5))'
echo never
""",
        groups=((2, 1),),
    ),
    Case(
        name="quoted",
        text="""#!/bin/sh
#SBATCH --job-name="two words" --comment='a # b' # it's a comment
##SBATCH --exclusive
# SBATCH --exclusive
#SBATCH -n2 -c 2
echo $SLURM_JOB_NAME $1 $2
#SBATCH --ntasks=4
:
#SBATCH --exclusive
srun simulate
""",
        groups=((2, 2),),
        asks={"labels.slurm/name": "two words", "labels.slurm/comment": "a # b"},
    ),
    Case(
        name="two-steps",
        text="""#!/bin/bash
#SBATCH --ntasks=4
srun -n 2 -l simulate
srun --ntasks=4 --output=step-%s-rank-%t.txt simulate
cat step-1-rank-*.txt
""",
        groups=((4, 1),),
    ),
    Case(
        name="python",
        text="""#!/usr/bin/env python3
#SBATCH --ntasks=1 --cpus-per-task=2 --time=5:00
import os
import subprocess

print("cpus", os.environ["SLURM_CPUS_PER_TASK"], flush=True)
raise SystemExit(subprocess.run(["srun", "sh", "-c", "exit 6"]).returncode)
""",
        groups=((1, 2),),
        asks={"timeout": "300s"},
    ),
    Case(
        name="mail",
        text="#!/bin/bash\n#SBATCH --mail-type=END,FAIL\n#SBATCH --mail-user=me@example.org\nsimulate\n",
        refused="--mail-type",
        compared=False,
    ),
    Case(
        name="input",
        text="""#!/bin/bash
#SBATCH --ntasks=3
echo lines >input.txt
srun sh -c 'echo rank $SLURM_PROCID: $(cat)' <<END
of a document
END
seq 30000 | srun -n 2 wc
srun -n 2 --input input.txt sh -c 'echo rank $SLURM_PROCID: $(cat)'
echo one | srun -i 1 sh -c 'echo rank $SLURM_PROCID: $(cat)'
echo none | srun -i none sh -c 'echo rank $SLURM_PROCID: $(cat)'
""",
        groups=((3, 1),),
    ),
    Case(
        name="whole-nodes",
        text="""#!/bin/bash
#SBATCH --nodes=2
#SBATCH --exclusive
echo cpus $SLURM_JOB_CPUS_PER_NODE tasks $SLURM_TASKS_PER_NODE
srun simulate
srun -n 5 simulate
srun -c 32 simulate
srun -n 129 true || echo too many
""",
        groups=((2, 64),),
    ),
    Case(
        name="whole-node-of-tasks",
        text="""#!/bin/bash
#SBATCH --ntasks-per-node=3 --cpus-per-task=2 --exclusive
srun -c 2 simulate
srun -n 4 -c 2 simulate
""",
        groups=((1, 64),),
        asks={"labels.slurm/cpus": "64"},
    ),
    Case(
        name="whole-nodes-for-tasks",
        text="""#!/bin/bash
#SBATCH --ntasks=128 --exclusive
echo cpus $SLURM_JOB_CPUS_PER_NODE tasks $SLURM_TASKS_PER_NODE of $SLURM_NTASKS
srun -n 5 simulate
""",
        groups=((2, 64),),
        asks={"labels.slurm/nodes": "2"},
    ),
    Case(
        name="no-such-option",
        text="#!/bin/bash\n#SBATCH --ntask-per-node=4\nsimulate\n",
        refused="--ntask-per-node",
        compared=False,
    ),
)

_REPORT = (
    "echo rank ${SLURM_PROCID} local ${SLURM_LOCALID} node ${SLURM_NODEID} ${SLURMD_NODENAME} of ${SLURM_NTASKS:-}"
    " step ${SLURM_STEP_ID:-} ${SLURM_STEP_NUM_TASKS:-} on ${SLURM_STEP_NODELIST:-} ${SLURM_STEP_TASKS_PER_NODE:-}"
    " threads ${OMP_NUM_THREADS:-}"
)


def node(
    node_id: str,
    *,
    name: str = "",
    cpu: float = 4,
    gpus: int = 0,
    gpu_model: str = "",
    labels: Mapping[str, str] = MappingProxyType({}),
    taints: tuple[Taint, ...] = (),
    state: NodeState = NodeState.READY,
) -> NodeDetail:
    """Return a node as its agent describes it, with 64 GiB."""
    found = Node(
        id=node_id,
        name=name or node_id,
        address="127.0.0.1:1",
        capacity=Resources(cpu_millis=round(cpu * MILLI), memory_bytes=64 << 30, gpu_millis=gpus * MILLI),
        gpu_model=gpu_model,
        labels=tuple(sorted({NODE_LABEL: node_id, **labels}.items())),
        taints=taints,
        state=state,
        incarnation="1",
        registered_at_ms=1,
        changed_at_ms=1,
    )
    return NodeDetail(node=found, used=ZERO, tasks=0, heartbeat_age_ms=1)


def tools_for_scripts(directory: Path) -> None:
    """Write the programs that the scripts call."""
    directory.mkdir(exist_ok=True)
    for name, line in (("simulate", _REPORT), ("train", _REPORT), ("module", ":")):
        (directory / name).write_text(f"#!/bin/sh\n{line}\n")
        (directory / name).chmod(0o755)
