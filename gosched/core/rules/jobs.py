"""Checks a job's spec.

Invariant: whatever is accepted here can be planned, sent, stored and shown without another check.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter

from gosched.core.amounts import amounts_text, bytes_text, duration_text
from gosched.core.features import FeatureLevel
from gosched.core.limits import (
    MAX_DEPENDENCIES,
    MAX_GROUPS_PER_JOB,
    MAX_JOB_DEMAND,
    MAX_NAME_LENGTH,
    MAX_PRIORITY,
    MAX_SIGNAL,
    MAX_SPEC_BYTES,
    MAX_TASKS_PER_JOB,
)
from gosched.core.rules.arrays import array_bytes, check_array
from gosched.core.rules.finding import Finding
from gosched.core.rules.groups import check_group, group_bytes, map_bytes
from gosched.core.rules.values import (
    check_duration,
    check_id,
    check_job_name,
    check_map,
    check_moment,
    check_name,
    check_not_negative,
    check_range,
)
from gosched.core.sharing import charge_of
from gosched.core.spec.dependency import Condition
from gosched.core.spec.job_spec import JobSpec, OnDisconnect, OnMiss
from gosched.core.spec.policies import MemberFailure, Preemption, PreemptionPolicy, RetryCause

MAX_PARENT_NAME_LENGTH = MAX_NAME_LENGTH - 24  # its children's names end with their numbers: ".RUN.ELEMENT"
MAX_KNOWN_SHAPES, MAX_KNOWN_BYTES = 1024, 4 * 1024
_SIGKILL, _SIGSTOP = 9, 19
# All of a spec but its name. Thousands of jobs differ in that alone, and each process checks each of them: shapes that
# were found sound are remembered, and then the name alone is looked at.
_SHAPE = attrgetter(*[field.name for field in fields(JobSpec) if field.name != "name"])
_sound: dict[tuple[object, ...], None] = {}


def check_job(spec: JobSpec, level: int) -> Finding | None:
    """Return the first thing that is wrong with a job in a cluster of that feature level, or None."""
    is_strict = level >= FeatureLevel.BOUNDED
    shape = (is_strict, *_SHAPE(spec))
    if shape in _sound:
        return check_name("job name", spec.name, "name") or (_check_parent(spec) if spec.is_parent else None)
    found = _check_whole(spec, is_strict=is_strict)
    if found is None and _texts(spec) <= MAX_KNOWN_BYTES:
        if len(_sound) >= MAX_KNOWN_SHAPES:
            _sound.clear()
        _sound[shape] = None
    return found


def _check_whole(spec: JobSpec, *, is_strict: bool) -> Finding | None:
    if not 0 < len(spec.groups) <= MAX_GROUPS_PER_JOB:
        problem = f"a job has 1 to {MAX_GROUPS_PER_JOB} task groups; this one has {len(spec.groups)}"
        return Finding(path=("tasks",), problem=problem)
    return (
        check_name("job name", spec.name, "name")
        or check_name("tenant", spec.tenant, "tenant")
        or _check_policy(spec)
        or _check_begin(spec, is_strict=is_strict)
        or _check_replace_after(spec, is_strict=is_strict)
        or _check_cheap(spec, is_strict=is_strict)
        or _check_preemption(spec.preemption)
        or _check_after(spec, is_strict=is_strict)
        or check_map("label", spec.labels, "labels")
        or _check_groups(spec, is_strict=is_strict)
        or check_array(spec, is_strict=is_strict)
        or (_check_parent(spec) if spec.is_parent else None)
        or _check_size(spec)
    )


def _check_policy(spec: JobSpec) -> Finding | None:
    found = check_range("priority", spec.priority, 0, MAX_PRIORITY, "priority")
    if found:
        return found
    if spec.gang.on_member_failure is MemberFailure.UNSPECIFIED:
        return _must_be("gang.on_member_failure", "restart_gang, fail_job or continue")
    if spec.on_disconnect is OnDisconnect.UNSPECIFIED:
        return _must_be("on_disconnect", "keep or stop")
    found = check_not_negative("retry.max", spec.retry.max_restarts, "retry", "max")
    if found:
        return found
    if len(spec.retry.when) > len(RetryCause) or RetryCause.UNSPECIFIED in spec.retry.when:
        problem = "names node_lost, preempted and failed, each at most once"
        return Finding(path=("retry", "when"), subject="retry.when", problem=problem)
    return _check_durations(spec) or _check_deadline(spec)


def _check_durations(spec: JobSpec) -> Finding | None:
    found = (
        check_duration("retry.backoff", spec.retry.backoff_ms, "retry", "backoff")
        or check_duration("stop grace", spec.stop_grace_ms, "stop_grace")
        or check_duration("gang.wait", spec.gang.wait_ms, "gang", "wait")
        or check_duration("gang.replace_after", spec.gang.replace_after_ms, "gang", "replace_after")
        or check_duration("timeout", spec.timeout_ms, "timeout")
        or check_duration("estimate", spec.estimate_ms, "estimate")
    )
    if found:
        return found
    if 0 < spec.timeout_ms < spec.estimate_ms:
        subject = f"the estimate of {spec.estimate_ms} ms"
        problem, advice = f"is beyond the timeout of {spec.timeout_ms} ms", "it would never end"
        in_units = f"is beyond the timeout of {duration_text(spec.timeout_ms)}"
        return Finding(path=("estimate",), subject=subject, problem=problem, in_units=in_units, advice=advice)
    return None


def _check_deadline(spec: JobSpec) -> Finding | None:
    if spec.deadline_at_ms and spec.deadline_in_ms:
        problem, advice = "the deadline is given twice", "give deadline.at or deadline.in"
        return Finding(path=("deadline",), problem=problem, advice=advice)
    if spec.on_miss is OnMiss.UNSPECIFIED:
        return _must_be("deadline.on_miss", "continue or refuse")
    return check_duration("deadline.in", spec.deadline_in_ms, "deadline", "in") or check_moment(
        "deadline.at", spec.deadline_at_ms, "deadline", "at"
    )


def _check_replace_after(spec: JobSpec, *, is_strict: bool) -> Finding | None:
    goes_on = spec.gang.on_member_failure is MemberFailure.CONTINUE
    if not spec.gang.replace_after_ms or (goes_on and is_strict):
        return None
    problem = "is of a gang that goes on without a member, and this one does not"
    advice = "leave it out, or set on_member_failure: continue"
    if goes_on:
        problem, advice = "is not known to all masters yet", "set it to 0, or finalize the upgrade"
    return Finding(path=("gang", "replace_after"), subject="gang.replace_after", problem=problem, advice=advice)


def _check_cheap(spec: JobSpec, *, is_strict: bool) -> Finding | None:
    if not spec.preemption.cheap or is_strict:
        return None
    problem, advice = "is not known to all masters yet", "leave it out, or finalize the upgrade"
    return Finding(path=("preemption", "cheap"), subject="preemption.cheap", problem=problem, advice=advice)


def _check_begin(spec: JobSpec, *, is_strict: bool) -> Finding | None:
    if not spec.begin_at_ms and not spec.begin_in_ms:
        return None
    if not is_strict:
        problem, advice = "this feature level has no begin", "finalize the upgrade, or hold the job and release it then"
        return Finding(path=("begin",), problem=problem, advice=advice)
    if spec.begin_at_ms and spec.begin_in_ms:
        problem, advice = "the begin is given twice", "give begin.at or begin.in"
        return Finding(path=("begin",), problem=problem, advice=advice)
    if spec.cron:
        problem, advice = "is for a job that runs once", "say in schedule.cron when the runs begin"
        return Finding(path=("begin",), subject="begin", problem=problem, advice=advice)
    same = (spec.begin_at_ms and spec.deadline_at_ms) or (spec.begin_in_ms and spec.deadline_in_ms)
    return (
        check_duration("begin.in", spec.begin_in_ms, "begin", "in")
        or check_moment("begin.at", spec.begin_at_ms, "begin", "at")
        or (check_begin_in_time(spec, 0) if same else None)
    )


def check_begin_in_time(spec: JobSpec, submitted_at_ms: int) -> Finding | None:
    """Return that a job that is submitted then begins too late for its deadline, or None."""
    begin_ms, deadline_ms = spec.begin_ms(submitted_at_ms), spec.deadline_ms(submitted_at_ms)
    if not begin_ms or not deadline_ms or begin_ms < deadline_ms:
        return None
    problem, advice = "the job would begin when its deadline is over", "give it an earlier begin or a later deadline"
    return Finding(path=("begin",), problem=problem, advice=advice)


def _check_preemption(preemption: Preemption) -> Finding | None:
    if preemption.policy not in (PreemptionPolicy.NEVER, PreemptionPolicy.LOWER_PRIORITY):
        return _must_be("preemption.policy", "never or lower_priority")
    number, path = preemption.checkpoint_signal, ("preemption", "checkpoint_signal")
    found = check_range("preemption.checkpoint_signal", number, 0, MAX_SIGNAL, *path)
    if found:
        return found
    if number in (_SIGKILL, _SIGSTOP):
        problem, advice = f"{number} cannot be caught", "take another one, such as SIGUSR1"
        return Finding(path=path, subject="preemption.checkpoint_signal", problem=problem, advice=advice)
    return check_duration("preemption.grace", preemption.grace_ms, "preemption", "grace") or check_duration(
        "preemption.min_runtime", preemption.min_runtime_ms, "preemption", "min_runtime"
    )


def _check_after(spec: JobSpec, *, is_strict: bool) -> Finding | None:
    if len(spec.after) > MAX_DEPENDENCIES:
        problem = f"waits for {len(spec.after)} jobs; at most {MAX_DEPENDENCIES} are allowed"
        return Finding(path=("after",), subject="the job", problem=problem)
    if len(dict.fromkeys(wanted.job for wanted in spec.after)) != len(spec.after):
        return Finding(path=("after",), subject="after", problem="names a job twice")
    check = check_job_name if is_strict else check_name
    for wanted in spec.after:
        found = check("after: job", wanted.job, "after", wanted.job)
        if found:
            return found
        if wanted.condition is Condition.UNSPECIFIED:
            problem = "the condition must be success, failure or any"
            return Finding(path=("after", wanted.job), subject=f"after {wanted.job}:", problem=problem)
    return None


def _check_parent(spec: JobSpec) -> Finding | None:
    if len(spec.name) > MAX_PARENT_NAME_LENGTH:
        what = "a schedule" if spec.cron else "an array"
        problem = f"has {len(spec.name)} characters; of {what}, at most {MAX_PARENT_NAME_LENGTH} are allowed"
        return Finding(path=("name",), subject="job name", problem=problem)
    if spec.cron and not spec.timezone:
        problem, advice = "lacks its time zone", "give one, such as UTC or Europe/Berlin"
        return Finding(path=("schedule",), subject=f"schedule {spec.name}", problem=problem, advice=advice)
    return check_id("schedule.cron", spec.cron, "schedule", "cron") or check_id(
        "schedule.timezone", spec.timezone, "schedule", "timezone"
    )


def _check_groups(spec: JobSpec, *, is_strict: bool) -> Finding | None:
    names: dict[str, None] = {}
    for group in spec.groups:
        found = check_name("group name", group.name, "tasks", group.name) or check_group(group, is_strict=is_strict)
        if found:
            return found
        if group.name in names:
            return Finding(path=("tasks", group.name), problem=f"two groups are named {group.name}")
        names[group.name] = None
    ends_with, path = spec.gang.ends_with, ("gang", "ends_with")
    if ends_with and ends_with not in names:
        problem = f"is {ends_with[:MAX_NAME_LENGTH]!a}; the groups are {', '.join(names)}"
        return Finding(path=path, subject="gang.ends_with", problem=problem)
    tasks = sum(group.count for group in spec.groups)
    if tasks > MAX_TASKS_PER_JOB:
        problem = f"a job has at most {MAX_TASKS_PER_JOB} tasks; this one has {tasks}"
        only = (spec.groups[0].name, "count") if len(spec.groups) == 1 else ()
        return Finding(path=("tasks", *only), problem=problem)
    floors = sum(group.floor for group in spec.groups)
    initial = spec.gang.initial_tasks
    if initial and not (is_strict and floors <= initial <= tasks):
        problem = f"is {initial}; it must be between {floors}, which start together, and {tasks}, which are all"
        advice = "" if is_strict else "this feature level has no such jobs: finalize the upgrade"
        return Finding(path=("gang", "initial"), subject="gang.initial", problem=problem, advice=advice)
    if initial and not ends_with:
        advice = "name the group whose success ends the job with ends_with"
        problem = "a task that succeeds waits until it is wanted again, so the job would never end"
        return Finding(path=("gang", "initial"), subject="gang.initial:", problem=problem, advice=advice)
    if initial and any(group.name == ends_with and group.floor < group.count for group in spec.groups):
        problem = f"group {ends_with}, with whose success the job ends, has tasks that may not be wanted"
        return Finding(path=path, subject="gang.ends_with:", problem=problem, advice="let all of them start together")
    if spec.gang.min_tasks != floors:
        problem = f"is {spec.gang.min_tasks}; the minima of the groups add up to {floors}"
        return Finding(path=("gang", "min"), subject="gang.min", problem=problem, advice="they must be equal")
    if beyond := {name: MAX_JOB_DEMAND for name, amount in charge_of(spec.demand).items() if amount > MAX_JOB_DEMAND}:
        problem = f"the tasks together ask for more than {MAX_JOB_DEMAND} of a resource"
        in_units = f"the tasks together ask for more than {amounts_text(beyond)}"
        return Finding(path=("tasks",), problem=problem, in_units=in_units)
    return _check_world(spec) if any(group.mpi_ranks for group in spec.groups) else None


def _check_world(spec: JobSpec) -> Finding | None:
    """Check that the tasks of a job whose ranks gosched starts can be one MPI world, of a fixed size."""
    other = next((group.name for group in spec.groups if not group.mpi_ranks), "")
    if other:
        problem = f"group {other} is none: all tasks of the job are one world"
        return Finding(path=("tasks", other), subject="framework: mpi:", problem=problem, advice="make it another job")
    if spec.gang.min_tasks < spec.task_count:
        problem = "an MPI program starts with all of its ranks"
        return Finding(path=("gang", "min"), subject="gang.min:", problem=problem, advice="leave min out")
    return None


def _texts(spec: JobSpec) -> int:
    """Return the length of all texts of which a shape may have many."""
    return _size(spec) + len(spec.queue) + sum([len(wanted.job) for wanted in spec.after])


def _size(spec: JobSpec) -> int:
    return map_bytes(spec.labels) + array_bytes(spec.array) + sum([group_bytes(group) for group in spec.groups])


def _check_size(spec: JobSpec) -> Finding | None:
    size = _size(spec)
    if size > MAX_SPEC_BYTES:
        problem = f"the job's texts take {size} bytes; at most {MAX_SPEC_BYTES} are allowed"
        in_units = f"the job's texts take {bytes_text(size)}; at most {bytes_text(MAX_SPEC_BYTES)} are allowed"
        return Finding(problem=problem, in_units=in_units, advice="keep data in files")
    return None


def _must_be(key: str, expected: str) -> Finding:
    return Finding(path=tuple(key.split(".")), subject=key, problem=f"must be {expected}")
