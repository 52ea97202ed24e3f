"""Specs of jobs as a job file says them: the inverse of `parse_job_file`, for what can be written.

What cannot be written has no place here: quantities below zero, and values that stand for a key that is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

from gosched.config.node_labels import RUNTIME_LABEL
from gosched.core.resources import AmountMap, Resources
from gosched.core.spec.array import Array
from gosched.core.spec.isolation import Isolation
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import Affinity, LabelOp, Toleration
from gosched.core.spec.task_group import Framework, Runtime, TaskGroup


def job_text(spec: JobSpec) -> str:
    return json.dumps(_job(spec), ensure_ascii=False)  # YAML reads it


def vector(amounts: AmountMap) -> dict[str, Any]:
    return {name: _amount(name, amount) for name, amount in amounts}


def _amount(name: str, amount: int) -> Any:
    if name == "cpu":
        return f"{amount}m"
    if name in ("memory", "storage"):
        return f"{amount}B"
    return _gpus(amount) if name.partition(":")[0] == "gpu" else amount


def _job(spec: JobSpec) -> dict[str, Any]:
    gang: dict[str, Any] = {
        "on_member_failure": _word(spec.gang.on_member_failure),
        "replace_after": f"{spec.gang.replace_after_ms}ms",
        "wait": _ms(spec.gang.wait_ms),
        **_set(ends_with=spec.gang.ends_with),
    }
    if len(spec.groups) == 1 and spec.groups[0].min_count:
        gang["min"] = spec.groups[0].min_count
    return {
        "name": spec.name,
        "queue": spec.queue,
        "tenant": spec.tenant,
        "priority": spec.priority,
        "labels": dict(spec.labels),
        "gang": gang,
        "tasks": {group.name: _group(group) for group in spec.groups},
        "retry": {
            "max": spec.retry.max_restarts,
            "backoff": _ms(spec.retry.backoff_ms),
            "when": [_word(cause) for cause in spec.retry.when],
        },
        "on_disconnect": _word(spec.on_disconnect),
        "stop_grace": _ms(spec.stop_grace_ms),
        "hold": spec.hold,
        "preemption": _preemption(spec),
        "after": {wanted.job: _word(wanted.condition) for wanted in spec.after},
        **_set(
            estimate=spec.estimate_ms and _ms(spec.estimate_ms),
            timeout=spec.timeout_ms and _ms(spec.timeout_ms),
            begin=_moment(spec.begin_at_ms, spec.begin_in_ms),
            deadline=_deadline(spec),
            array=_array(spec.array),
        ),
        **(
            {"schedule": {"cron": spec.cron, "timezone": spec.timezone, "overlap": _word(spec.overlap)}}
            if spec.cron
            else {}
        ),
    }


def _preemption(spec: JobSpec) -> dict[str, Any]:
    rules = spec.preemption
    return {
        "policy": _word(rules.policy),
        "preemptible": rules.preemptible,
        "grace": _ms(rules.grace_ms),
        "min_runtime": _ms(rules.min_runtime_ms),
        "cheap": rules.cheap,
        **_set(checkpoint_signal=rules.checkpoint_signal),
    }


def _deadline(spec: JobSpec) -> dict[str, Any] | None:
    moment = _moment(spec.deadline_at_ms, spec.deadline_in_ms)
    return {"on_miss": _word(spec.on_miss), **moment} if moment else None


def _moment(at_ms: int, in_ms: int) -> dict[str, Any]:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    return _set(at=at_ms and at.isoformat(), **{"in": in_ms and _ms(in_ms)})


def _array(array: Array) -> dict[str, Any] | None:
    if not array.step and not array.matrix:
        return None
    return {
        **_set(
            range=array.step and f"{array.first}-{array.last}:{array.step}",
            matrix={axis.name: list(axis.values) for axis in array.matrix},
            parallelism=array.parallelism,
        ),
        **({} if array.max_failures == -1 else {"max_failures": array.max_failures}),
    }


def _group(group: TaskGroup) -> dict[str, Any]:
    isolation = group.isolation
    return {
        "count": group.count,
        "run": list(group.command),
        "runtime": _word(group.runtime),
        "env": dict(group.env),
        "resources": _resources(group.resources, group),
        "distributed": _distributed(group),
        "placement": _placement(group),
        "rlimits": {limit.name: [_rlimit(limit.soft), _rlimit(limit.hard)] for limit in isolation.rlimits},
        "volumes": [
            {"host": volume.host, "to": volume.to, "mode": "ro" if volume.read_only else "rw"}
            for volume in isolation.volumes
        ],
        "read_only": isolation.read_only,
        "limits": _limits(isolation),
        **_set(
            image=group.image,
            working_dir=group.working_dir,
            user=isolation.user,
            registry=isolation.registry,
            network=isolation.network and _word(isolation.network),
            pull=isolation.pull and _word(isolation.pull),
        ),
        **({} if isolation.umask is None else {"umask": f"{isolation.umask:03o}"}),
    }


def _resources(asked: Resources, group: TaskGroup) -> dict[str, Any]:
    gpu = _set(model=group.gpu_model, memory=group.gpu_memory_bytes and f"{group.gpu_memory_bytes}B")
    amounts = (
        ("cpu", asked.cpu_millis),
        ("memory", asked.memory_bytes),
        ("storage", asked.storage_bytes),
        *asked.custom,
    )
    return {**vector(amounts), "gpu": {"count": _gpus(asked.gpu_millis), **gpu}}


def _limits(isolation: Isolation) -> dict[str, Any]:
    io = _set(
        weight=isolation.io_weight,
        read=isolation.io_read_bytes and f"{isolation.io_read_bytes}B",
        write=isolation.io_write_bytes and f"{isolation.io_write_bytes}B",
        reads=isolation.io_reads,
        writes=isolation.io_writes,
    )
    return {
        "cpu": "soft" if isolation.cpu_soft else "hard",
        "hugepages": {size: f"{amount}B" for size, amount in isolation.hugepages},
        "io": io,
        **_set(
            memory_low=isolation.memory_low_bytes and f"{isolation.memory_low_bytes}B",
            memory_high=isolation.memory_high_bytes and f"{isolation.memory_high_bytes}B",
            pids=isolation.pids,
        ),
        **({} if isolation.swap_bytes is None else {"swap": f"{isolation.swap_bytes}B"}),
    }


def _placement(group: TaskGroup) -> dict[str, Any]:
    return {
        "node_selector": dict(group.node_selector),
        "topology": [{"level": rule.level, "mode": _word(rule.mode)} for rule in group.topology],
        "spread": [{"level": r.level, "mode": _word(r.mode), "max_skew": r.max_skew} for r in group.spread],
        "affinity": [_affinity(term) for term in group.affinity if term != of_runtime(group.runtime)],
        "anti_affinity": [{"job": rule.job, "level": rule.level} for rule in group.anti_affinity],
        "tolerations": [_toleration(rule) for rule in group.tolerations],
        **_set(strategy=group.strategy and _word(group.strategy)),
    }


def of_runtime(runtime: Runtime) -> Affinity | None:
    """Return the condition that a job file adds to a group: the node has its runtime."""
    if runtime is Runtime.PROCESS:
        return None
    return Affinity(label=f"{RUNTIME_LABEL}{runtime.name.lower()}", op=LabelOp.EXISTS)


def _affinity(term: Affinity) -> dict[str, Any]:
    return {"label": term.label, "op": _word(term.op), "values": list(term.values), **_set(weight=term.weight)}


def _toleration(rule: Toleration) -> dict[str, Any]:
    effect = _set(effect=rule.effect and _word(rule.effect))
    return {"key": rule.key, "op": _word(rule.op), "value": rule.value, **effect}


def _rlimit(value: int) -> int | str:
    return "unlimited" if value == -1 else value


def _gpus(millis: int) -> str:
    return f"{millis // 1000}.{millis % 1000:03}"


def _ms(duration: int) -> str:
    return f"{duration}ms"


def _distributed(group: TaskGroup) -> dict[str, Any]:
    starts = bool(group.mpi_ranks)
    return {
        "framework": _word(group.framework),
        **({"launcher": "mpiexec" if starts else "none"} if starts or group.framework is Framework.MPI else {}),
        **({"ranks_per_task": group.mpi_ranks} if starts else {}),
        **({"implementation": group.mpi_implementation} if group.mpi_implementation else {}),
    }


def _word(value: IntEnum) -> str:
    return value.name.lower()


def _set(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


def sorted_pairs(pairs: Iterable[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(dict(pairs).items()))
