"""Pods that wait, as jobs of gosched: which of a gang's pods are submitted together, and under which names.

Invariant: all of it follows from the pods and the masters' list of jobs. A job's name is made of the uids of its pods,
so that a repeated submission finds the job that is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from gosched.api.job_row import JobRow
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.records.job import JobState
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy, Preemption, RetryCause, RetryPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.integrations.kube_objects.pod_rules import NO_RULES
from gosched.integrations.kube_objects.pods import GroupRef, Pod
from gosched.integrations.kube_objects.translate import CLUSTER, Wanted
from gosched.integrations.kubernetes.placing import ANYWHERE, Asking, Places
from gosched.integrations.kubernetes.tasks import GROUP_VARIABLE, POD_VARIABLE, SINGLE

POD_LABEL = "gosched.io/pod-uid"  # of a job that is one pod
GROUP_LABEL = "gosched.io/pod-group"  # of a job that is a gang: key of its PodGroup
PLACES_LABEL = "gosched.io/pod-places"  # of a job that other pods leave some nodes: `Places.mark`
NAME_LABEL = "gosched.io/pod"  # of a job that is one pod: NAMESPACE/NAME, for people

# A start that was lost, or made room for others, is followed by another, as long as its pods wait.
_AGAIN = RetryPolicy(max_restarts=1, backoff_ms=1000, when=(RetryCause.NODE_LOST, RetryCause.PREEMPTED))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownJob:
    """A live job that is a pod or a gang, as the masters listed it last, or as it was submitted since."""

    id: str
    name: str
    queue: str
    state: JobState
    #: Uid of its pod; empty: it is a gang.
    pod: str
    #: Key of its PodGroup; empty: it is a pod by itself.
    group: str
    tasks: int
    #: Tasks whose pods have ended. Members that were lost or stopped count as places that are still to be filled: their
    #: gang starts anew.
    ended: int
    #: Changes with the nodes that other pods leave it; empty: all of them.
    places: str
    #: A person holds it back.
    held: bool
    #: Why it waits, in one line; empty: it does not, or it is not known yet.
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """What is known of one PodGroup."""

    ref: GroupRef
    #: How many pods must start together.
    needed: int
    #: Its pods that are bound and have not failed.
    bound: int
    #: Its pods that wait, can be placed, and have no allocation and no job of their own, the oldest first.
    free: tuple[Pod, ...]
    #: Places that live jobs of the gang have, and no pod yet.
    promised: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What becomes of a gang's free pods."""

    #: They are submitted as one job.
    together: tuple[Pod, ...] = ()
    #: Each is submitted by itself: the gang is complete without them.
    alone: tuple[Pod, ...] = ()
    #: They wait until there are enough of them, or until those that start together are bound.
    waiting: tuple[Pod, ...] = ()
    #: How many more are needed; 0: none.
    missing: int = 0


def split(gang: Gang) -> Split:
    """Decide what becomes of the free pods of a gang. Those that live jobs wait for are left to them. One beyond the
    gang is not placed before the gang is: it could take the place that the gang waits for."""
    free = gang.free[gang.promised :]
    if gang.bound >= gang.needed or gang.needed == 1:
        return Split(alone=free)
    needed = max(0, gang.needed - gang.bound - gang.promised)
    if len(free) < needed:
        return Split(waiting=free, missing=needed - len(free))
    return Split(together=free[:needed], waiting=free[needed:])


def shape(wanted: Wanted) -> str:
    """Return the name of the task group of a gang whose pods ask for this."""
    asked = repr(wanted.group) if wanted.rules == NO_RULES else repr((wanted.group, wanted.rules))
    return f"gang-{blake2b(asked.encode(), digest_size=8).hexdigest()}"


def job_name(pods: Sequence[Pod], ref: GroupRef | None) -> str:
    """Return the name of the job of a pod, or of these pods of a gang."""
    name = f"{pods[0].namespace}.{ref.name if ref else pods[0].name}"
    mark = blake2b("".join(sorted(pod.uid for pod in pods)).encode(), digest_size=5).hexdigest()
    return f"{name[:200]}.{mark}"


def single_job(pod: Pod, wanted: Wanted, cluster: str, places: Places = ANYWHERE) -> JobSpec:
    """Return the job of a pod by itself."""
    group = replace(places.add_to(wanted.group), name=SINGLE, env=((POD_VARIABLE, pod.uid),))
    labels = {CLUSTER: cluster, POD_LABEL: pod.uid, NAME_LABEL: pod.path[:250], PLACES_LABEL: places.mark}
    return _job(job_name([pod], None), [pod], wanted, (group,), labels)


def kinds(members: Sequence[Asking]) -> dict[str, list[Asking]]:
    """Return the pods of a gang that ask for the same, by the name of their task group."""
    found: dict[str, list[Asking]] = {}
    for each in members:
        found.setdefault(shape(each[1]), []).append(each)
    return found


def gang_job(ref: GroupRef, members: Sequence[Asking], cluster: str, places: Mapping[str, Places]) -> JobSpec:
    """Return the job of a gang: pods that ask for the same are one task group, whose places they may swap. `places`: by
    the name of the group."""
    groups = tuple(
        [
            replace(places[name].add_to(kind[0][1].group), name=name, count=len(kind), env=((GROUP_VARIABLE, ref.key),))
            for name, kind in kinds(members).items()
        ]
    )
    labels = {CLUSTER: cluster, GROUP_LABEL: ref.key, PLACES_LABEL: marks(places)}
    pods = [pod for pod, _ in members]
    first = max((wanted for _, wanted in members), key=lambda wanted: wanted.priority)
    return _job(job_name(pods, ref), pods, first, groups, labels)


def marks(places: Mapping[str, Places]) -> str:
    """Return the marks of all places of a gang."""
    return "-".join([each.mark for _, each in sorted(places.items()) if each.mark])[:MAX_NAME_LENGTH]


def _job(
    name: str, pods: Sequence[Pod], wanted: Wanted, groups: tuple[TaskGroup, ...], labels: dict[str, str]
) -> JobSpec:
    grace_s = max((pod.raw.get("spec") or {}).get("terminationGracePeriodSeconds") or 0 for pod in pods)
    return JobSpec(
        name=name,
        queue=wanted.queue,
        tenant=pods[0].namespace,
        priority=wanted.priority,
        labels=tuple(sorted([(key, value) for key, value in labels.items() if value])),
        gang=GangPolicy(min_tasks=sum(group.count for group in groups)),
        groups=groups,
        retry=_AGAIN,
        stop_grace_ms=int(grace_s) * 1000,
        preemption=Preemption(policy=wanted.preemption),
    )


def known_job(row: JobRow) -> KnownJob:
    labels = dict(row.labels)
    return KnownJob(
        id=row.id,
        name=row.name,
        queue=row.queue,
        state=row.state,
        pod=labels.get(POD_LABEL, ""),
        group=labels.get(GROUP_LABEL, ""),
        tasks=row.task_count,
        ended=row.succeeded,
        places=labels.get(PLACES_LABEL, ""),
        held=row.held,
        why=row.wait_message,
    )


def submitted_job(job_id: str, spec: JobSpec) -> KnownJob:
    labels = dict(spec.labels)
    return KnownJob(
        id=job_id,
        name=spec.name,
        queue=spec.queue,
        state=JobState.PENDING,
        pod=labels.get(POD_LABEL, ""),
        group=labels.get(GROUP_LABEL, ""),
        tasks=spec.task_count,
        ended=0,
        places=labels.get(PLACES_LABEL, ""),
        held=spec.hold,
        why="",
    )
