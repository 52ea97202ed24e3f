"""Checks a job's spec. Rule: whatever is accepted here can be planned, sent, stored and shown without another check."""

from __future__ import annotations

from gosched.core.job import Framework, JobSpec, MemberFailure, OnDisconnect, RetryCause, Runtime, StringMap, TaskGroup
from gosched.core.limits import (
    MAX_AMOUNT,
    MAX_DURATION_MS,
    MAX_GROUPS_PER_JOB,
    MAX_JOB_DEMAND,
    MAX_NAME_LENGTH,
    MAX_PRIORITY,
    MAX_SPEC_BYTES,
    MAX_TASKS_PER_JOB,
)
from gosched.core.sharing import charge_of
from gosched.machine.names import id_problem, map_problem, name_problem, order_problem, request_problem
from gosched.machine.placement_rules import rules_bytes, rules_problem

_MAX_TIME_MS = 253_402_300_800_000  # the year 10000


def spec_problem(spec: JobSpec) -> str:
    """One line on the first thing that is wrong, or an empty string."""
    if not 0 < len(spec.groups) <= MAX_GROUPS_PER_JOB:
        return f"a job has 1 to {MAX_GROUPS_PER_JOB} task groups; this one has {len(spec.groups)}"
    return (
        name_problem("job name", spec.name)
        or name_problem("tenant", spec.tenant)
        or _policy_problem(spec)
        or map_problem("label", spec.labels)
        or _groups_problem(spec)
        or _size_problem(spec)
    )


def _policy_problem(spec: JobSpec) -> str:
    if not 0 <= spec.priority <= MAX_PRIORITY:
        return f"priority {spec.priority} is not between 0 and {MAX_PRIORITY}"
    if spec.gang.on_member_failure is MemberFailure.UNSPECIFIED:
        return "gang.on_member_failure must be restart_gang or fail_job"
    if spec.on_disconnect is OnDisconnect.UNSPECIFIED:
        return "on_disconnect must be keep or stop"
    if spec.retry.max_restarts < 0:
        return f"retry.max {spec.retry.max_restarts} must not be negative"
    if len(spec.retry.when) > len(RetryCause) or RetryCause.UNSPECIFIED in spec.retry.when:
        return "retry.when names node_lost, preempted and failed, each at most once"
    for what, duration in (("retry.backoff", spec.retry.backoff_ms), ("stop grace", spec.stop_grace_ms)):
        if not 0 <= duration <= MAX_DURATION_MS:
            return f"{what} of {duration} ms is not between 0 and {MAX_DURATION_MS} ms"
    return _deadline_problem(spec)


def _deadline_problem(spec: JobSpec) -> str:
    if spec.deadline_at_ms and spec.deadline_in_ms:
        return "the deadline is given twice: give deadline.at or deadline.in"
    if not 0 <= spec.deadline_in_ms <= MAX_DURATION_MS:
        return f"deadline.in of {spec.deadline_in_ms} ms is not between 0 and {MAX_DURATION_MS} ms"
    if not 0 <= spec.deadline_at_ms < _MAX_TIME_MS:
        return f"deadline.at {spec.deadline_at_ms} ms is not between the years 1970 and 10000"
    return ""


def _groups_problem(spec: JobSpec) -> str:
    names: dict[str, None] = {}
    for group in spec.groups:
        problem = name_problem("group name", group.name) or _group_problem(group)
        if problem:
            return problem
        if group.name in names:
            return f"two groups are named {group.name}"
        names[group.name] = None
    tasks = spec.task_count
    if tasks > MAX_TASKS_PER_JOB:
        return f"a job has at most {MAX_TASKS_PER_JOB} tasks; this one has {tasks}"
    floors = sum(group.floor for group in spec.groups)
    if spec.gang.min_tasks != floors:
        return f"gang.min is {spec.gang.min_tasks}; the minima of the groups add up to {floors}: they must be equal"
    if max(charge_of(spec.demand).values(), default=0) > MAX_JOB_DEMAND:
        return f"the tasks together ask for more than {MAX_JOB_DEMAND} of a resource"
    return ""


def _group_problem(group: TaskGroup) -> str:
    name = group.name
    if group.count <= 0:
        return f"group {name}: count is {group.count}; it must be at least 1"
    if not 0 <= group.min_count <= group.count:
        return f"group {name}: min is {group.min_count}; it must be between 0 and the count, {group.count}"
    if group.runtime is not Runtime.PROCESS:
        return f"group {name}: runtime {group.runtime.name.lower()} is not supported by this version yet; use process"
    if group.framework is Framework.UNSPECIFIED:
        return f"group {name}: framework must be none, torch or mpi"
    if not group.command or not group.command[0]:
        return f"group {name}: the command is empty: say what to run"
    if any("\0" in part for part in group.command):
        return f"group {name}: the command holds a NUL character"
    return (
        request_problem(f"group {name}: resources", group.resources)
        or _gpu_memory_problem(group)
        or id_problem(f"group {name}: GPU model", group.gpu_model)
        or id_problem(f"group {name}: image", group.image)
        or map_problem(f"group {name}: node selector", group.node_selector)
        or rules_problem(f"group {name}", group)
        or _env_problem(name, group.env)
        or ("\0" in group.working_dir and f"group {name}: the working directory holds a NUL character")
        or ""
    )


def _gpu_memory_problem(group: TaskGroup) -> str:
    if not 0 <= group.gpu_memory_bytes <= MAX_AMOUNT:
        return f"group {group.name}: gpu memory {group.gpu_memory_bytes} is not between 0 and {MAX_AMOUNT}"
    if group.gpu_memory_bytes and not group.resources.gpu_millis:
        return f"group {group.name}: gpu memory without a GPU: ask for GPUs too"
    return ""


def _env_problem(group: str, env: StringMap) -> str:
    for key, value in env:
        if not key or "=" in key or not key.isprintable() or len(key) > MAX_NAME_LENGTH:
            return f"group {group}: {key[:MAX_NAME_LENGTH]!a} cannot be the name of an environment variable"
        if "\0" in value:
            return f"group {group}: the value of {key} holds a NUL character"
    return order_problem(f"group {group}: env keys", [key for key, _ in env])


def _size_problem(spec: JobSpec) -> str:
    size = _map_bytes(spec.labels)
    for group in spec.groups:
        size += sum([len(part.encode()) for part in group.command]) + len(group.working_dir.encode())
        size += _map_bytes(group.env) + _map_bytes(group.node_selector) + rules_bytes(group)
    if size > MAX_SPEC_BYTES:
        return f"the job's texts take {size} bytes; at most {MAX_SPEC_BYTES} are allowed: keep data in files"
    return ""


def _map_bytes(pairs: StringMap) -> int:
    return sum([len(key.encode()) + len(value.encode()) for key, value in pairs])
