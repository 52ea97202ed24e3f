"""Task groups as the keys of a job file: the inverse of `group_model`, `placement_model` and `isolation_model`."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from gosched.config.node_labels import RUNTIME_LABEL
from gosched.config.written import cpus, differing, gpus, memory
from gosched.core.rules.isolation import UNLIMITED
from gosched.core.spec.isolation import Isolation, Rlimit, Volume
from gosched.core.spec.placement_rules import (
    NODE_LEVEL,
    SELF,
    Affinity,
    AntiAffinity,
    LabelOp,
    SpreadRule,
    Toleration,
    TolerationOp,
    TopologyRule,
)
from gosched.core.spec.secret_use import SecretUse
from gosched.core.spec.task_group import Framework, Runtime, TaskGroup

Keys = dict[str, Any]
_SHELL = ("/bin/sh", "-c")


def group_keys(group: TaskGroup) -> Keys:
    """Return a task group as the keys of a job file."""
    isolation = group.isolation
    return {
        **differing(
            count=(group.count, 1),
            runtime=(_word(group.runtime), _runtime_of(group.image)),
            image=(group.image, ""),
            resources=(_resources(group), {}),
            placement=(_placement(group), {}),
            distributed=(_distributed(group), {}),
            env=(dict(group.env), {}),
            secrets=([_secret(use) for use in group.secrets], []),
            working_dir=(group.working_dir, ""),
            user=(isolation.user, ""),
            umask=(None if isolation.umask is None else f"{isolation.umask:03o}", None),
            rlimits=({limit.name: _rlimit(limit) for limit in isolation.rlimits}, {}),
            limits=(_limits(isolation), {}),
            volumes=([_volume(volume) for volume in isolation.volumes], []),
            network=(_word(isolation.network), "unspecified"),
            read_only=(isolation.read_only, False),
            pull=(_word(isolation.pull), "unspecified"),
            registry=(isolation.registry, ""),
        ),
        "run": _run(group),
    }


def _distributed(group: TaskGroup) -> Keys:
    runs_mpiexec = group.framework is Framework.MPI and group.runtime is not Runtime.SPARK
    return differing(
        framework=(_word(group.framework), "none"),
        launcher=("none" if runs_mpiexec and not group.mpi_ranks else "", ""),
        ranks_per_task=(group.mpi_ranks, 1 if group.mpi_ranks else 0),
        implementation=(group.mpi_implementation, ""),
    )


def _run(group: TaskGroup) -> str | list[str]:
    """Return the line for the shell, or the words."""
    words = group.command
    if group.runtime is not Runtime.SPARK and words[:2] == _SHELL and len(words) == 3 and words[2].strip():
        return words[2]
    return list(words)


def _runtime_of(image: str) -> str:
    """Return the runtime that follows from the image."""
    if not image:
        return "process"
    return "rootfs" if image.startswith("/") else "docker"


def _resources(group: TaskGroup) -> Keys:
    wanted = group.resources
    gpu = differing(model=(group.gpu_model, ""), memory=(memory(group.gpu_memory_bytes), memory(0)))
    count = gpus(wanted.gpu_millis)
    return {
        **differing(
            cpu=(cpus(wanted.cpu_millis), 1),
            memory=(memory(wanted.memory_bytes), memory(0)),
            gpu=({"count": count, **gpu} if gpu else count, 0),
            storage=(memory(wanted.storage_bytes), memory(0)),
        ),
        **dict(wanted.custom),
    }


def _placement(group: TaskGroup) -> Keys:
    return differing(
        strategy=(_word(group.strategy), "unspecified"),
        node_selector=(dict(group.node_selector), {}),
        topology=([_topology(rule) for rule in group.topology], []),
        spread=([_spread(rule) for rule in group.spread], []),
        affinity=([_affinity(term) for term in _written_terms(group)], []),
        anti_affinity=([_anti_affinity(rule) for rule in group.anti_affinity], []),
        tolerations=([_toleration(rule) for rule in group.tolerations], []),
    )


def _written_terms(group: TaskGroup) -> tuple[Affinity, ...]:
    """Return the conditions without the one that a job file adds: the node has the runtime."""
    label = f"{RUNTIME_LABEL}{group.runtime.name.lower()}"
    terms = group.affinity
    is_added = (
        group.runtime is not Runtime.PROCESS
        and terms
        and terms[-1] == Affinity(label=label, op=LabelOp.EXISTS)
        and sum([term.label == label for term in terms]) == 1
    )
    return terms[:-1] if is_added else terms


def _topology(rule: TopologyRule) -> Keys:
    return {"level": rule.level, **differing(mode=(_word(rule.mode), "required"))}


def _spread(rule: SpreadRule) -> Keys:
    return {"level": rule.level, **differing(max_skew=(rule.max_skew, 1), mode=(_word(rule.mode), "required"))}


def _affinity(term: Affinity) -> Keys:
    return {
        "label": term.label,
        "op": _word(term.op),
        **differing(values=(list(term.values), []), weight=(term.weight, 0)),
    }


def _anti_affinity(rule: AntiAffinity) -> Keys:
    return {"job": rule.job, "level": rule.level} if (rule.job, rule.level) != (SELF, NODE_LEVEL) else {"job": SELF}


def _toleration(rule: Toleration) -> Keys:
    follows = TolerationOp.EQUAL if rule.value else TolerationOp.EXISTS
    return differing(
        key=(rule.key, ""),
        op=(_word(rule.op), _word(follows) if rule.key or rule.value else ""),  # at least one key
        value=(rule.value, ""),
        effect=(_word(rule.effect), "unspecified"),
    )


def _rlimit(limit: Rlimit) -> int | str | list[int | str]:
    soft, hard = ("unlimited" if value == UNLIMITED else value for value in (limit.soft, limit.hard))
    return soft if soft == hard else [soft, hard]


def _secret(use: SecretUse) -> Keys:
    return {"name": use.name, **differing(file=(use.file or use.name, use.name), env=(use.env, ""))}


def _limits(isolation: Isolation) -> Keys:
    io = differing(
        weight=(isolation.io_weight, 0),
        read=(memory(isolation.io_read_bytes), memory(0)),
        write=(memory(isolation.io_write_bytes), memory(0)),
        reads=(isolation.io_reads, 0),
        writes=(isolation.io_writes, 0),
    )
    swap = isolation.swap_bytes
    return differing(
        cpu=("soft" if isolation.cpu_soft else "hard", "hard"),
        memory_low=(memory(isolation.memory_low_bytes), memory(0)),
        memory_high=(memory(isolation.memory_high_bytes), memory(0)),
        swap=(None if swap is None else memory(swap), None),
        pids=(isolation.pids, 0),
        hugepages=({size: memory(amount) for size, amount in isolation.hugepages}, {}),
        io=(io, {}),
    )


def _volume(volume: Volume) -> Keys:
    return {"host": volume.host, "to": volume.to, **({"mode": "ro"} if volume.read_only else {})}


def _word(value: IntEnum) -> str:
    return value.name.lower()
