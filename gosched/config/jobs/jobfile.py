"""Job files into job specs.

Invariant: a job that is returned passes the state machine's own check, and what that check finds is said with the file,
the line and the key. What is checked here is the form alone: types, units, keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gosched.config.errors import ConfigError, shown
from gosched.config.jobs.draft import JobDraft, Override
from gosched.config.jobs.group_model import GroupFile
from gosched.config.jobs.job_model import GangFile, JobFile
from gosched.config.jobs.many_jobs import in_order, job_documents
from gosched.config.jobs.overrides import overridden, read_set
from gosched.config.jobs.spark_model import DRIVER, SparkFile
from gosched.config.node_labels import RUNTIME_LABEL
from gosched.config.tree import Document, Path
from gosched.config.validation import validate
from gosched.core.features import NEWEST_LEVEL
from gosched.core.limits import REPLACE_AFTER_MS
from gosched.core.rules.finding import Finding
from gosched.core.rules.groups import check_group
from gosched.core.rules.jobs import check_job
from gosched.core.spec.array import Array
from gosched.core.spec.job_spec import JobSpec, OnDisconnect, OnMiss, Overlap
from gosched.core.spec.placement_rules import Affinity, LabelOp, Strategy
from gosched.core.spec.policies import GangPolicy, MemberFailure, RetryCause, RetryPolicy
from gosched.core.spec.task_group import Framework, Runtime, TaskGroup

FLAT_GROUP = "task"  # the name of the only group of a flat job
_GROUP_KEYS = frozenset(GroupFile.model_fields)


def read_draft(draft: JobDraft) -> list[JobSpec]:
    """Return the jobs of a draft, at least one. Raise ConfigError."""
    overrides = [*draft.overrides, *map(read_set, draft.sets)]
    if draft.text is None:
        return [job_from_flags({}, {}, overrides)]
    return parse_job_file(draft.text, draft.source, overrides)


def parse_job_file(text: bytes | str, source: str, overrides: Sequence[Override] = ()) -> list[JobSpec]:
    """Return all jobs of a file, at least one; those that wait for others of the file come after them. The overrides
    are of each job. Raise ConfigError."""
    read = job_documents(text, source)
    if len(read) > 1 and (naming := [override.origin for override in overrides if override.path == ("name",)]):
        raise ConfigError(f"{naming[0]}: names one job; there are {len(read)} in {source}")
    documents = [overridden(document, overrides) for document in read]
    return in_order([job_of(document) for document in documents], documents)


def job_from_flags(
    job: Mapping[str, object], origins: Mapping[Path, str], overrides: Sequence[Override] = ()
) -> JobSpec:
    """Return the job that the command line describes by the keys of a job file. `origins`: the flag of each path.
    Raise ConfigError."""
    return job_of(overridden(Document(value=dict(job), source="command line", origins=origins), overrides))


def job_of(document: Document) -> JobSpec:
    """Return the job of one document. Raise ConfigError."""
    document = _with_groups(document)
    job = validate(JobFile, document)
    groups = job.groups()
    _check_floor(document, job.gang, {name: group.count for name, group in groups.items()})
    spec = _spec(job, groups)
    found = check_job(spec, NEWEST_LEVEL)
    if found:
        of_groups = [check_group(group, is_strict=True) for group in spec.groups]
        others = [finding for finding in of_groups if finding and finding != found]
        first, *rest = [_error(document, job, finding) for finding in (found, *others)]
        first.others = tuple(rest)
        raise first
    return spec


def _error(document: Document, job: JobFile, found: Finding) -> ConfigError:
    return document.error(_written(document, _of_spark(found.path) if job.spark else found.path), found.words)


def _check_floor(document: Document, gang: GangFile, counts: Mapping[str, int]) -> None:
    """Check that a number of tasks says how many of each task group start together."""
    floor, count = gang.min, sum(counts.values())
    if isinstance(floor, int) and floor > count:
        raise document.error(("gang", "min"), f"{floor} is more than the {count} tasks of the job")
    if isinstance(floor, int) and floor < count and len(counts) > 1:
        problem = f"{floor} does not say which task group it is of: use all, or a percent of each group"
        raise document.error(("gang", "min"), problem)


def _of_spark(path: Path) -> Path:
    """Return where `spark` says what stands at a path of its two task groups."""
    match path:
        case ("tasks", "driver", "resources", *rest):
            return ("spark", "driver", *rest)
        case ("tasks", "executor", "resources" | "count" as key, *rest):
            return ("spark", "executors", key, *rest)
        case ("tasks", "driver" | "executor", *rest):
            return ("spark", *rest)
        case ("tasks", *rest):
            return ("spark", *rest)
    return path


def _written(document: Document, path: Path) -> Path:
    """Return the path up to the last key that is in the file: what is left out there has a default in the record."""
    value = document.value
    for place, part in enumerate(path):
        if isinstance(value, dict):
            if part not in value:
                return path[:place]
            value = value[part]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
    return path


def _with_groups(document: Document) -> Document:
    """Move the keys of a flat job into its only group; errors still name them as they were written."""
    job = document.value
    if not isinstance(job, dict):
        raise document.error((), f"expected a job (name, run, ...), got {shown(job)}")
    flat = {key: job[key] for key in job if key in _GROUP_KEYS}
    if "spark" in job and (flat or "tasks" in job):
        key = next(iter(flat), "tasks")
        problem = "cannot be combined with spark, which makes all tasks of the job: " + (
            "move it into spark" if key in SparkFile.model_fields else "leave one of them out"
        )
        raise document.error((key,), problem)
    if "tasks" in job and flat:
        raise document.error((next(iter(flat)),), "cannot be combined with tasks: move it into a task group")
    if "tasks" in job or "spark" in job:
        return document
    rest = {key: value for key, value in job.items() if key not in flat}
    return replace(document, value={**rest, "tasks": {FLAT_GROUP: flat}}, hidden=("tasks", FLAT_GROUP))


def _replace_after_ms(job: JobFile) -> int:
    """Return how long a member on a silent node may live on. Another executor of Spark is another one to its driver."""
    if job.gang.replace_after_ms is not None:
        return job.gang.replace_after_ms
    return REPLACE_AFTER_MS if job.gang.on_member_failure == "continue" and job.spark is None else 0


def _spec(job: JobFile, files: Mapping[str, GroupFile]) -> JobSpec:
    groups = tuple([_group(name, group, job.gang.min) for name, group in files.items()])
    return JobSpec(
        name=job.name,
        queue=job.queue,
        tenant=job.tenant,
        priority=job.priority,
        labels=job.labels,
        gang=GangPolicy(
            min_tasks=sum(group.floor for group in groups),
            on_member_failure=MemberFailure[job.gang.on_member_failure.upper()],
            wait_ms=job.gang.wait_ms,
            ends_with=job.gang.ends_with or (DRIVER if job.spark else ""),
            initial_tasks=job.gang.initial or 0,
            replace_after_ms=_replace_after_ms(job),
        ),
        groups=groups,
        retry=RetryPolicy(
            max_restarts=job.retry.max,
            backoff_ms=job.retry.backoff_ms,
            when=tuple(sorted({RetryCause[cause.upper()] for cause in job.retry.when})),
        ),
        on_disconnect=OnDisconnect[job.on_disconnect.upper()],
        stop_grace_ms=job.stop_grace_ms,
        deadline_at_ms=(job.deadline and job.deadline.at_ms) or 0,
        deadline_in_ms=(job.deadline and job.deadline.in_ms) or 0,
        on_miss=OnMiss[job.deadline.on_miss.upper()] if job.deadline else OnMiss.CONTINUE,
        estimate_ms=job.estimate_ms or 0,
        timeout_ms=job.timeout_ms or 0,
        preemption=job.preemption.record(),
        hold=job.hold,
        after=job.after,
        array=job.array.record() if job.array else Array(),
        cron=job.schedule.cron if job.schedule else "",
        timezone=job.schedule.timezone if job.schedule else "",
        overlap=Overlap[job.schedule.overlap.upper()] if job.schedule else Overlap.UNSPECIFIED,
        begin_at_ms=(job.begin and job.begin.at_ms) or 0,
        begin_in_ms=(job.begin and job.begin.in_ms) or 0,
    )


def _group(name: str, group: GroupFile, gang_min: int | str | None) -> TaskGroup:
    asked, placement, runtime = group.resources, group.placement, group.runs_in
    floor = _floor(group.count, gang_min)
    return TaskGroup(
        name=name,
        count=group.count,
        resources=asked.record(),
        gpu_model=asked.gpu.model or "",
        runtime=runtime,
        image=group.image or "",
        command=group.command(),
        env=group.env,
        working_dir=group.working_dir or "",
        node_selector=placement.node_selector,
        strategy=Strategy[(placement.strategy or "unspecified").upper()],
        framework=Framework[group.distributed.framework.upper()],
        min_count=floor if floor < group.count else 0,
        gpu_memory_bytes=asked.gpu.memory,
        topology=tuple([rule.record() for rule in placement.topology]),
        spread=tuple([rule.record() for rule in placement.spread]),
        affinity=_on_nodes_with(runtime, tuple([rule.record() for rule in placement.affinity])),
        anti_affinity=tuple([rule.record() for rule in placement.anti_affinity]),
        tolerations=tuple([rule.record() for rule in placement.tolerations]),
        isolation=group.isolation(),
        mpi_ranks=group.distributed.mpi_ranks if runtime is Runtime.PROCESS else 0,
        mpi_implementation=group.distributed.implementation or "",
        secrets=tuple([use.record() for use in group.secrets]),
    )


def _on_nodes_with(runtime: Runtime, affinity: tuple[Affinity, ...]) -> tuple[Affinity, ...]:
    """Add the condition that the node has the runtime, by its label. Every node runs processes."""
    label = f"{RUNTIME_LABEL}{runtime.name.lower()}"
    if runtime is Runtime.PROCESS or any(term.label == label for term in affinity):
        return affinity
    return (*affinity, Affinity(label=label, op=LabelOp.EXISTS))


def _floor(count: int, gang_min: int | str | None) -> int:
    """Return how many tasks of a group of `count` start together. A number beyond `count` is of several
    groups: all tasks."""
    if isinstance(gang_min, str):
        return -(-count * int(gang_min.removesuffix("%")) // 100)
    return count if gang_min is None else min(gang_min, count)
