"""Pods and Jobs of Kubernetes as job files.

A pod is a job of one task; the pods of a PodGroup are the tasks of one job. A Job is an array of such jobs, since its
pods do not start together, unless its pods name a PodGroup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gosched.config.errors import ConfigError
from gosched.config.jobs.jobfile import FLAT_GROUP, parse_job_file
from gosched.config.jobs.writer import job_text
from gosched.config.queues import DEFAULT_QUEUE
from gosched.core.limits import MAX_PARALLEL
from gosched.core.spec.array import NO_ARRAY, Array
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy, Preemption, PreemptionPolicy, RetryCause, RetryPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.integrations.kube_objects.gang_rules import NOTHING, Member, Within, by_node, within
from gosched.integrations.kube_objects.pod_group import read_group
from gosched.integrations.kube_objects.pod_notes import OF_JOB, notes
from gosched.integrations.kube_objects.pod_rules import NO_RULES, Refused, Rules, read_rules, without_rules
from gosched.integrations.kube_objects.pods import COSCHEDULING_LABEL, QUEUE, TASK_GROUP, group_ref
from gosched.integrations.kube_objects.reading import Found, part, text_of, texts, whole
from gosched.integrations.kube_objects.translate import priority
from gosched.integrations.notes import Note

_OWN_LABELS = (QUEUE, TASK_GROUP, COSCHEDULING_LABEL)
_OF_CONTROLLERS = ("batch.kubernetes.io/", "controller-uid", "job-name")
_JOB = (
    *("template", "parallelism", "completions", "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes"),
    *("activeDeadlineSeconds", "suspend"),
)
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_GRACE_S = 30  # where a pod says nothing
_AS_IN_FILES = RetryPolicy(max_restarts=3, when=(RetryCause.NODE_LOST, RetryCause.PREEMPTED))
_FAILED_PODS = 6  # of a Job that says nothing
_BACKOFF_MS = 10_000
_EVERY_CAUSE = (RetryCause.NODE_LOST, RetryCause.PREEMPTED, RetryCause.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedJobs:
    """Job files, and what they do not carry."""

    jobs: tuple[JobSpec, ...]
    #: All of them in one file.
    text: str
    notes: tuple[Note, ...]


@dataclass(slots=True, kw_only=True)
class _Import:
    classes: dict[str, tuple[int, bool]] = field(default_factory=dict)  # value, and whether it never preempts
    minima: dict[tuple[str, str], int] = field(default_factory=dict)  # of PodGroups
    notes: list[Note] = field(default_factory=list)


def read_jobs(objects: Sequence[Found], source: str) -> ImportedJobs:
    """Return the pods and Jobs among the objects as jobs. Raises ConfigError."""
    found = _Import()
    jobs: list[JobSpec] = []
    gangs: dict[tuple[str, str], list[tuple[Found, JobSpec]]] = {}
    for each in objects:
        try:
            _read_beside(found, each)
        except ValueError as error:
            raise each.error(str(error)) from error
    for each in [each for each in objects if each.kind in ("Pod", "Job")]:
        try:
            job, gang = _pod(found, each) if each.kind == "Pod" else (_job(found, each), "")
        except ValueError as error:
            raise each.error(str(error)) from error
        if gang:
            gangs.setdefault((job.tenant, gang), []).append((each, job))
        else:
            jobs.append(job)
    jobs += [_gang(found, key, members) for key, members in gangs.items()]
    if not jobs:
        raise ConfigError(f"{source}: no Pod and no Job in it")
    text = "---\n".join([job_text(job) for job in jobs])
    parsed = parse_job_file(text, f"{source}, as a job file")
    return ImportedJobs(jobs=tuple(parsed), text=text, notes=tuple(found.notes))


def _read_beside(found: _Import, each: Found) -> None:
    """Keep what pods refer to; of other objects, say so."""
    if each.kind == "PriorityClass":
        found.classes[each.name] = (whole(each.raw, "value", 0), text_of(each.raw, "preemptionPolicy") == "Never")
    elif each.kind == "PodGroup":
        spec = part(each.raw, "spec")
        least = part(part(spec, "schedulingPolicy"), "gang").get("minCount", spec.get("minMember"))
        found.minima[each.namespace or "default", each.name] = whole({"minMember": least}, "minMember", 1)
    elif each.kind not in ("Pod", "Job"):
        found.notes.append(Note(name=each.kind, value=each.path, advice="not read: this makes jobs of Pods and Jobs"))


def _pod(found: _Import, each: Found) -> tuple[JobSpec, str]:
    """Return the pod as a job by itself, and the name of its gang; empty: it is in none."""
    metadata, spec = part(each.raw, "metadata"), part(each.raw, "spec")
    if metadata.get("ownerReferences"):
        advice = "a controller made it: import that, if it is a Job, rather than its pods"
        found.notes.append(Note(name="Pod", value=each.path, advice=advice))
    job = _of_template(found, each, metadata, spec)
    gang = group_ref(job.tenant, texts(metadata, "labels"), texts(metadata, "annotations"), spec)
    name = texts(metadata, "labels").get(TASK_GROUP, FLAT_GROUP)
    return replace(job, groups=(replace(job.groups[0], name=name),)), gang.name if gang else ""


def _rules(found: _Import, spec: Mapping[str, Any], namespace: str, where: str) -> Rules:
    """Return the rules of a gang's pod about other pods. Raises ValueError."""
    try:
        return read_rules(spec, namespace)
    except Refused as error:
        found.notes.append(Note(name=f"rules about other pods of {where}", value="", advice=f"left out: {error}"))
        return NO_RULES
    except (AttributeError, TypeError) as error:
        raise ValueError(f"its rules about other pods cannot be read: {error}") from error


def _about_itself(found: _Import, kind: Sequence[Member], gang: Sequence[Member], where: str) -> Within:
    """Return the rules of a gang's task group about the gang."""
    rules = kind[0].rules
    elsewhere = [*rules.apart, *([rules.together] if rules.together else [])]
    if any(not any(member.is_of(term) for member in gang) for term in elsewhere):
        advice = "left out: it is about pods of other jobs; write placement.anti_affinity with the name of a job"
        found.notes.append(Note(name=f"required affinity of {where}", value="", advice=advice))
    try:
        return by_node(within(kind, gang))
    except Refused as error:
        found.notes.append(Note(name=f"rules about other pods of {where}", value="", advice=f"left out: {error}"))
        return NOTHING


def _of_template(found: _Import, each: Found, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> JobSpec:
    """Return the job of one task that a pod is, or the pods that a template makes."""
    where = f"{each.kind} {each.path}"
    labels = texts(metadata, "labels")
    is_of_gang = group_ref(each.namespace or "default", labels, texts(metadata, "annotations"), spec) is not None
    group, said = read_group(_without_rules(spec) if is_of_gang else spec, where)
    found.notes += said
    grace_s = whole(spec, "terminationGracePeriodSeconds", _GRACE_S)
    value, never = _priority(found, spec, where)
    kept = {key: text for key, text in labels.items() if key not in _OWN_LABELS and not key.startswith(_OF_CONTROLLERS)}
    return JobSpec(
        name=each.name.rstrip("-"),
        queue=labels.get(QUEUE) or texts(metadata, "annotations").get(QUEUE) or DEFAULT_QUEUE,
        tenant=each.namespace or "default",
        priority=priority(value),
        labels=tuple(sorted(kept.items())),
        gang=GangPolicy(min_tasks=1),
        groups=(group,),
        retry=_AS_IN_FILES,
        timeout_ms=whole(spec, "activeDeadlineSeconds", 0) * 1000,
        stop_grace_ms=grace_s * 1000,
        preemption=Preemption(policy=PreemptionPolicy.NEVER if never else PreemptionPolicy.LOWER_PRIORITY),
    )


def _without_rules(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return without_rules(spec)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"its rules about other pods cannot be read: {error}") from error


def _priority(found: _Import, spec: Mapping[str, Any], where: str) -> tuple[int, bool]:
    """Return the priority that the API server gives the pod, and whether it evicts nobody."""
    name, never = text_of(spec, "priorityClassName"), spec.get("preemptionPolicy") == "Never"
    of_class = found.classes.get(name) or ((_SYSTEM[name], False) if name in _SYSTEM else None)
    if spec.get("priority") is not None:
        return whole(spec, "priority", 0), never or bool(of_class and of_class[1])
    if of_class is not None:
        return of_class[0], never or of_class[1]
    if name:
        advice = "not in the file, 0 is taken: add it (kubectl get priorityclasses -o yaml)"
        found.notes.append(Note(name=f"priorityClassName of {where}", value=name, advice=advice))
    return 0, never


def _gang(found: _Import, key: tuple[str, str], members: Sequence[tuple[Found, JobSpec]]) -> JobSpec:
    """Return the job of a PodGroup: pods that are equal are one task group."""
    kinds: dict[tuple[TaskGroup, Rules], list[Member]] = {}
    for each, job in members:
        try:
            rules = _rules(found, part(each.raw, "spec"), job.tenant, f"Pod {each.path}")
            member = Member(job.tenant, texts(part(each.raw, "metadata"), "labels"), rules)
        except ValueError as error:
            raise each.error(str(error)) from error
        kinds.setdefault((job.groups[0], rules), []).append(member)
    everyone = [member for kind in kinds.values() for member in kind]
    names = [group.name for group, _ in kinds]
    are_named = len(set(names)) == len(names)
    where = f"PodGroup {key[0]}/{key[1]}"
    groups = [
        _about_itself(found, kind, everyone, where).add_to(
            replace(group, count=len(kind), name=group.name if are_named else f"pods-{place}")
        )
        for place, ((group, _), kind) in enumerate(kinds.items())
    ]
    least = found.minima.get(key, 0)
    if least and least < len(members):
        if len(groups) == 1:
            groups = [replace(groups[0], min_count=least)]
        else:
            advice = "left out, all start together: write gang: {min: PERCENT}, of each of its task groups"
            found.notes.append(Note(name=f"minMember of {where}", value=str(least), advice=advice))
    elif not least:
        advice = "is not in the file: all of its pods there start together"
        found.notes.append(Note(name="PodGroup", value=f"{key[0]}/{key[1]}", advice=advice))
    elif least > len(members):
        advice = f"only {len(members)} of its pods are in the file"
        found.notes.append(Note(name=f"minMember of {where}", value=str(least), advice=advice))
    jobs = [job for _, job in members]
    first = max(jobs, key=lambda job: job.priority)
    same = {(job.queue, job.priority, job.labels, job.timeout_ms, job.stop_grace_ms, job.preemption) for job in jobs}
    if len(same) > 1:
        advice = "differ among its pods: those of its pod of the highest priority are taken"
        found.notes.append(Note(name=f"labels, priority and times of {where}", value="", advice=advice))
    gang = GangPolicy(min_tasks=sum([group.floor for group in groups]))
    return replace(first, name=key[1], groups=tuple(groups), gang=gang)


def _job(found: _Import, each: Found) -> JobSpec:
    spec = part(each.raw, "spec")
    template = part(spec, "template")
    metadata, pod = part(template, "metadata"), {**part(template, "spec")}
    pod.pop("restartPolicy", None)  # what a failure leads to is backoffLimit's
    where = f"Job {each.path}"
    found.notes += notes(spec, _JOB, OF_JOB, where)
    job = _of_template(found, each, metadata, pod)
    labels = {**dict(job.labels), **texts(part(each.raw, "metadata"), "labels")}
    kept = {key: text for key, text in labels.items() if key not in _OWN_LABELS}
    parallelism = whole(spec, "parallelism", 1)
    count = whole(spec, "completions", max(1, parallelism))
    if count < 1:
        raise ValueError("completions is 0: it runs nothing")
    limit_s = whole(spec, "activeDeadlineSeconds", 0)
    if group_ref(job.tenant, texts(metadata, "labels"), texts(metadata, "annotations"), pod):
        if parallelism != count:
            advice = f"the gang has all {count} tasks at once"
            found.notes.append(Note(name=f"parallelism of {where}", value=str(parallelism), advice=advice))
        kind = [Member(job.tenant, texts(metadata, "labels"), _rules(found, pod, job.tenant, where))] * count
        group = _about_itself(found, kind, kind, where).add_to(replace(job.groups[0], count=count))
        job = replace(job, groups=(group,), gang=GangPolicy(min_tasks=count))
        count = 1
    if spec.get("completions") is None and parallelism > 1:
        advice = "no completions: here each of its tasks must succeed"
        found.notes.append(Note(name=f"parallelism of {where}", value=str(parallelism), advice=advice))
    if count > 1 and "backoffLimit" in spec:
        advice = "each element of the array has as many retries of its own"
        found.notes.append(Note(name=f"backoffLimit of {where}", value=str(spec["backoffLimit"]), advice=advice))
    if limit_s:
        advice = "it bounds each attempt of each task, not all of them together"
        found.notes.append(Note(name=f"activeDeadlineSeconds of {where}", value=str(limit_s), advice=advice))
    array = NO_ARRAY
    if count > 1:
        at_once = min(max(1, parallelism), count, MAX_PARALLEL)
        array = Array(
            first=0, last=count - 1, step=1, parallelism=at_once, max_failures=whole(spec, "maxFailedIndexes", -1)
        )
    restarts = whole(spec, "backoffLimitPerIndex", whole(spec, "backoffLimit", _FAILED_PODS))
    return replace(
        job,
        labels=tuple(sorted(kept.items())),
        hold=spec.get("suspend") is True or parallelism == 0,
        retry=RetryPolicy(max_restarts=restarts, backoff_ms=_BACKOFF_MS, when=_EVERY_CAUSE),
        timeout_ms=limit_s * 1000 or job.timeout_ms,
        array=array,
    )
