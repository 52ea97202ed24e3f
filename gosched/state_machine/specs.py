"""Checks a job's spec. Rule: whatever is accepted here can be planned, sent, stored and shown without another check."""

from __future__ import annotations

import re

from gosched.core.limits import (
    MAX_AMOUNT,
    MAX_ARRAY,
    MAX_AXES,
    MAX_DEPENDENCIES,
    MAX_GROUPS_PER_JOB,
    MAX_JOB_DEMAND,
    MAX_NAME_LENGTH,
    MAX_PARALLEL,
    MAX_PRIORITY,
    MAX_SIGNAL,
    MAX_SPEC_BYTES,
    MAX_TASKS_PER_JOB,
    MAX_VALUES,
)
from gosched.core.primitives import StringMap
from gosched.core.sharing import charge_of
from gosched.core.spec.array import Axis
from gosched.core.spec.dependency import Condition
from gosched.core.spec.job_spec import JobSpec, OnDisconnect, OnMiss
from gosched.core.spec.policies import MemberFailure, Preemption, PreemptionPolicy, RetryCause
from gosched.core.spec.task_group import Framework, Runtime, TaskGroup
from gosched.state_machine.isolation_rules import isolation_bytes, isolation_problem
from gosched.state_machine.names import (
    duration_problem,
    id_problem,
    map_problem,
    moment_problem,
    name_problem,
    order_problem,
    request_problem,
)
from gosched.state_machine.placement_rules import rules_bytes, rules_problem

MAX_PARENT_NAME_LENGTH = MAX_NAME_LENGTH - 24  # its children's names end with their numbers: ".RUN.ELEMENT"
_MAX_INDEX = 999_999_999
_SIGKILL, _SIGSTOP = 9, 19
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def spec_problem(spec: JobSpec) -> str:
    """One line on the first thing that is wrong, or an empty string."""
    if not 0 < len(spec.groups) <= MAX_GROUPS_PER_JOB:
        return f"a job has 1 to {MAX_GROUPS_PER_JOB} task groups; this one has {len(spec.groups)}"
    return (
        name_problem("job name", spec.name)
        or name_problem("tenant", spec.tenant)
        or _policy_problem(spec)
        or _preemption_problem(spec.preemption)
        or _after_problem(spec)
        or map_problem("label", spec.labels)
        or _groups_problem(spec)
        or ((spec.array.step or spec.array.matrix) and _array_problem(spec))
        or (spec.is_parent and _parent_problem(spec))
        or ""
        or _size_problem(spec)
    )


def _policy_problem(spec: JobSpec) -> str:
    if not 0 <= spec.priority <= MAX_PRIORITY:
        return f"priority {spec.priority} is not between 0 and {MAX_PRIORITY}"
    if spec.gang.on_member_failure is MemberFailure.UNSPECIFIED:
        return "gang.on_member_failure must be restart_gang, fail_job or continue"
    if spec.on_disconnect is OnDisconnect.UNSPECIFIED:
        return "on_disconnect must be keep or stop"
    if spec.retry.max_restarts < 0:
        return f"retry.max {spec.retry.max_restarts} must not be negative"
    if len(spec.retry.when) > len(RetryCause) or RetryCause.UNSPECIFIED in spec.retry.when:
        return "retry.when names node_lost, preempted and failed, each at most once"
    durations = (
        ("retry.backoff", spec.retry.backoff_ms),
        ("stop grace", spec.stop_grace_ms),
        ("gang.wait", spec.gang.wait_ms),
        ("timeout", spec.timeout_ms),
        ("estimate", spec.estimate_ms),
    )
    for what, duration in durations:
        problem = duration_problem(what, duration)
        if problem:
            return problem
    if 0 < spec.timeout_ms < spec.estimate_ms:
        return (
            f"the estimate of {spec.estimate_ms} ms is beyond the timeout of {spec.timeout_ms} ms: it would never end"
        )
    return _deadline_problem(spec)


def _deadline_problem(spec: JobSpec) -> str:
    if spec.deadline_at_ms and spec.deadline_in_ms:
        return "the deadline is given twice: give deadline.at or deadline.in"
    if spec.on_miss is OnMiss.UNSPECIFIED:
        return "deadline.on_miss must be continue or refuse"
    return duration_problem("deadline.in", spec.deadline_in_ms) or moment_problem("deadline.at", spec.deadline_at_ms)


def _preemption_problem(preemption: Preemption) -> str:
    if preemption.policy not in (PreemptionPolicy.NEVER, PreemptionPolicy.LOWER_PRIORITY):
        return "preemption.policy must be never or lower_priority"
    number = preemption.checkpoint_signal
    if not 0 <= number <= MAX_SIGNAL:
        return f"preemption.checkpoint_signal {number} is not between 0 and {MAX_SIGNAL}"
    if number in (_SIGKILL, _SIGSTOP):
        return f"preemption.checkpoint_signal {number} cannot be caught: take another one, such as SIGUSR1"
    return duration_problem("preemption.grace", preemption.grace_ms) or duration_problem(
        "preemption.min_runtime", preemption.min_runtime_ms
    )


def _after_problem(spec: JobSpec) -> str:
    if len(spec.after) > MAX_DEPENDENCIES:
        return f"the job waits for {len(spec.after)} jobs; at most {MAX_DEPENDENCIES} are allowed"
    if len(dict.fromkeys(wanted.job for wanted in spec.after)) != len(spec.after):
        return "after names a job twice"
    for wanted in spec.after:
        problem = name_problem("after: job", wanted.job)
        if problem:
            return problem
        if wanted.condition is Condition.UNSPECIFIED:
            return f"after {wanted.job}: the condition must be success, failure or any"
    return ""


def _parent_problem(spec: JobSpec) -> str:
    what = "a schedule" if spec.cron else "an array"
    if len(spec.name) > MAX_PARENT_NAME_LENGTH:
        return f"job name has {len(spec.name)} characters; of {what}, at most {MAX_PARENT_NAME_LENGTH} are allowed"
    if spec.cron and not spec.timezone:
        return f"schedule {spec.name} lacks its time zone: give one, such as UTC or Europe/Berlin"
    return id_problem("schedule.cron", spec.cron) or id_problem("schedule.timezone", spec.timezone)


def _array_problem(spec: JobSpec) -> str:
    array, tasks = spec.array, sum(group.count for group in spec.groups)
    if array.step and array.matrix:
        return "the array has a range and a matrix: give one of them"
    if array.step < 0 or not 0 <= array.first <= array.last <= _MAX_INDEX:
        return f"array.range {array.first}-{array.last}/{array.step} must ascend between 0 and {_MAX_INDEX}"
    if not 0 < array.size <= MAX_ARRAY:
        return f"the array has {array.size} elements; 1 to {MAX_ARRAY} are allowed"
    if array.parallelism < 0:
        return f"array.parallelism {array.parallelism} must not be negative"
    if array.parallelism > MAX_PARALLEL or (array.parallelism > 1 and array.parallelism * tasks > MAX_TASKS_PER_JOB):
        most = min(MAX_PARALLEL, max(1, MAX_TASKS_PER_JOB // tasks))
        return (
            f"array.parallelism {array.parallelism} of {tasks} tasks each is too much: at most {most} may live at once"
        )
    if array.max_failures < -1:
        return f"array.max_failures {array.max_failures} must be 0 or more, or -1 for any number"
    return _matrix_problem(array.matrix)


def _matrix_problem(matrix: tuple[Axis, ...]) -> str:
    if len(matrix) > MAX_AXES:
        return f"array.matrix has {len(matrix)} axes; at most {MAX_AXES} are allowed"
    if len(dict.fromkeys(axis.name for axis in matrix)) != len(matrix):
        return "array.matrix names an axis twice"
    for axis in matrix:
        if len(axis.name) > MAX_NAME_LENGTH or not _VARIABLE.fullmatch(axis.name):
            return f"array.matrix: {axis.name[:MAX_NAME_LENGTH]!a} cannot be the name of an environment variable"
        if len(axis.values) > MAX_VALUES:
            return f"array.matrix {axis.name}: {len(axis.values)} values; at most {MAX_VALUES} are allowed"
        for value in axis.values:
            problem = id_problem(f"array.matrix {axis.name}: value", value)
            if problem:
                return problem
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
    if spec.gang.ends_with and spec.gang.ends_with not in names:
        return f"gang.ends_with is {spec.gang.ends_with[:MAX_NAME_LENGTH]!a}; the groups are {', '.join(names)}"
    tasks = sum(group.count for group in spec.groups)
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
    if group.runtime is Runtime.UNSPECIFIED:
        return f"group {name}: runtime must be process, rootfs, docker or spark"
    if group.runtime in (Runtime.ROOTFS, Runtime.DOCKER) and not group.image:
        return f"group {name}: runtime {group.runtime.name.lower()} needs an image: say which"
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
        or isolation_problem(f"group {name}", group.isolation)
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
    size = _map_bytes(spec.labels) + sum([len(value.encode()) for axis in spec.array.matrix for value in axis.values])
    for group in spec.groups:
        size += sum([len(part.encode()) for part in group.command]) + len(group.working_dir.encode())
        size += _map_bytes(group.env) + _map_bytes(group.node_selector) + rules_bytes(group)
        size += isolation_bytes(group.isolation)
    if size > MAX_SPEC_BYTES:
        return f"the job's texts take {size} bytes; at most {MAX_SPEC_BYTES} are allowed: keep data in files"
    return ""


def _map_bytes(pairs: StringMap) -> int:
    return sum([len(key.encode()) + len(value.encode()) for key, value in pairs])
