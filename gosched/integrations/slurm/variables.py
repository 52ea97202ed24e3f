"""The SLURM_ variables of a script and of its ranks, and the names of files that hold such things: `slurm-%j.out`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gosched.integrations.slurm.batch import Batch
from gosched.integrations.slurm.hostlist import compressed, counted

_PATTERN = re.compile(r"%(\d{0,2})([%AaJjNnstux])|\\")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the allocation, as Slurm's commands name it."""

    name: str
    #: The gosched tasks on it, by index.
    tasks: tuple[int, ...]
    #: Ranks that fit on it.
    ranks: int


def nodes_of(places: Sequence[tuple[str, str]], ranks: Sequence[int]) -> tuple[Node, ...]:
    """Return the nodes, in the order of their first tasks. `places`: of each task its node's id and its host's name,
    which names the node where no other has it."""
    tasks: dict[str, list[int]] = {}
    for index, (node, _) in enumerate(places):
        tasks.setdefault(node, []).append(index)
    hosts = [places[indexes[0]][1] for indexes in tasks.values()]
    return tuple(
        Node(
            name=host if hosts.count(host) == 1 else node,
            tasks=tuple(indexes),
            ranks=sum(ranks[index] for index in indexes),
        )
        for (node, indexes), host in zip(tasks.items(), hosts, strict=True)
    )


def script_variables(batch: Batch, nodes: Sequence[Node], own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the script. `own`: the environment of the task that runs it."""
    cpus = batch.cpus_per_task or 1
    names = compressed([node.name for node in nodes])
    job = own["GOSCHED_JOB_ID"]
    found = {
        "SLURM_JOB_ID": job,
        "SLURM_JOBID": job,
        "SLURM_JOB_NAME": batch.name,
        "SLURM_JOB_NODELIST": names,
        "SLURM_NODELIST": names,
        "SLURM_JOB_NUM_NODES": str(len(nodes)),
        "SLURM_NNODES": str(len(nodes)),
        "SLURM_TASKS_PER_NODE": counted([_tasks_on(node, batch) for node in nodes]),
        "SLURM_JOB_CPUS_PER_NODE": counted([batch.cpus_per_node or node.ranks * cpus for node in nodes]),
        "SLURM_CPUS_ON_NODE": str(batch.cpus_per_node or nodes[0].ranks * cpus),
        "SLURM_SUBMIT_DIR": batch.submit_dir,
        "SLURM_SUBMIT_HOST": batch.submit_host,
        "SLURM_JOB_USER": batch.user,
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_GID": str(os.getgid()),
        "SLURM_TASK_PID": str(os.getpid()),
        "SLURM_CLUSTER_NAME": "gosched",
        "SLURM_JOB_PARTITION": batch.partition or "default",
        "SLURMD_NODENAME": nodes[0].name,
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_GTIDS": "0",
    }
    found |= {name: str(value) for name, value in _asked(batch).items() if value}
    if int(own.get("GOSCHED_ATTEMPT", "1")) > 1:
        found["SLURM_RESTART_COUNT"] = str(int(own["GOSCHED_ATTEMPT"]) - 1)
    if gpus := own.get("GOSCHED_GPUS", ""):
        found |= {"SLURM_JOB_GPUS": gpus, "SLURM_GPUS_ON_NODE": str(len(gpus.split(",")))}
    return found | _array_variables(batch, own)


def rank_variables(
    step: int, rank: int, local: int, node: int, nodes: Sequence[str], per_node: Sequence[int]
) -> dict[str, str]:
    """Return the variables of one rank of a step: its number in the step and on its node, and the step's nodes with
    the ranks on each."""
    count, names, layout = str(sum(per_node)), compressed(nodes), counted(per_node)
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(local),
        "SLURM_NODEID": str(node),
        "SLURMD_NODENAME": nodes[node],
        "SLURM_STEP_ID": str(step),
        "SLURM_STEPID": str(step),
        "SLURM_NTASKS": count,
        "SLURM_NPROCS": count,
        "SLURM_NNODES": str(len(nodes)),
        "SLURM_NODELIST": names,
        "SLURM_TASKS_PER_NODE": layout,
        "SLURM_STEP_NUM_TASKS": count,
        "SLURM_STEP_NUM_NODES": str(len(nodes)),
        "SLURM_STEP_NODELIST": names,
        "SLURM_STEP_TASKS_PER_NODE": layout,
        "SLURM_GTIDS": ",".join(str(rank - local + place) for place in range(per_node[node])),
    }


def file_name(pattern: str, own: Mapping[str, str], *, node: int = 0, rank: int = 0) -> str:
    """Return the name that a pattern stands for, by SLURM_ variables; a backslash in it turns patterns off."""
    if "\\" in pattern:
        return pattern.replace("\\", "")
    known = {
        "%": "%",
        "A": own.get("SLURM_ARRAY_JOB_ID", own["SLURM_JOB_ID"]),
        "a": own.get("SLURM_ARRAY_TASK_ID", "4294967294"),
        "J": own["SLURM_JOB_ID"] + (f".{own['SLURM_STEP_ID']}" if "SLURM_STEP_ID" in own else ""),
        "j": own["SLURM_JOB_ID"],
        "N": own["SLURMD_NODENAME"],
        "n": str(node),
        "s": own.get("SLURM_STEP_ID", "batch"),
        "t": str(rank),
        "u": own["SLURM_JOB_USER"],
        "x": own["SLURM_JOB_NAME"],
    }
    return _PATTERN.sub(lambda found: known[found[2]].zfill(int(found[1] or 0)), pattern)


def _tasks_on(node: Node, batch: Batch) -> int:
    """Return how many ranks a node is for: where their number was not given, all that a whole node has CPUs for."""
    if batch.ntasks or not batch.cpus_per_node:
        return node.ranks
    return sum(batch.room[task] for task in node.tasks)


def _asked(batch: Batch) -> dict[str, object]:
    return {
        "SLURM_NTASKS": batch.ntasks,
        "SLURM_NPROCS": batch.ntasks,
        "SLURM_NTASKS_PER_NODE": batch.ntasks_per_node,
        "SLURM_CPUS_PER_TASK": batch.cpus_per_task,
        "SLURM_GPUS_PER_TASK": batch.gpus_per_task,
        "SLURM_MEM_PER_NODE": batch.mem_per_node,
        "SLURM_MEM_PER_CPU": batch.mem_per_cpu,
        "SLURM_JOB_ACCOUNT": batch.account,
        "SLURM_JOB_QOS": batch.qos,
    }


def _array_variables(batch: Batch, own: Mapping[str, str]) -> dict[str, str]:
    if not batch.array:
        return {}
    first, last, step, count = batch.array
    index = own.get("SLURM_ARRAY_TASK_ID") or own.get("GOSCHED_ARRAY_INDEX", str(first))
    return {
        "SLURM_ARRAY_JOB_ID": own["GOSCHED_JOB_ID"].rpartition(".")[0],
        "SLURM_ARRAY_TASK_ID": index,
        "SLURM_ARRAY_TASK_COUNT": str(count),
        "SLURM_ARRAY_TASK_MIN": str(first),
        "SLURM_ARRAY_TASK_MAX": str(last),
        "SLURM_ARRAY_TASK_STEP": str(step),
    }
