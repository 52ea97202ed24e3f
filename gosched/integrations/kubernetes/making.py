"""The jobs of pods that have none yet, with what rules about other pods ask of the masters.

Invariant: a pod whose rules cannot be kept now gets no job, and is told why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gosched.core.records.job import JobState
from gosched.core.spec.job_spec import JobSpec
from gosched.integrations.kube_objects.pod_rules import Refused
from gosched.integrations.kube_objects.pods import GroupRef, Pod
from gosched.integrations.kube_objects.translate import Wanted
from gosched.integrations.kubernetes import conditions
from gosched.integrations.kubernetes.binder import Binder
from gosched.integrations.kubernetes.conditions import Conditions
from gosched.integrations.kubernetes.jobs import KnownJob, gang_job, job_name, kinds, marks, single_job
from gosched.integrations.kubernetes.neighbours import Neighbours
from gosched.integrations.kubernetes.placing import Asking, Coming, Places, Placing, Waits
from gosched.integrations.kubernetes.tasks import Tasks, job_of
from gosched.integrations.kubernetes.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Pods that are to be one job."""

    pods: tuple[Asking, ...]
    #: None: one pod by itself.
    gang: GroupRef | None = None


class Making:
    """`wanted_of` returns what a pod asks for; None: it is not known."""

    def __init__(
        self, world: World, tasks: Tasks, said: Conditions, wanted_of: Callable[[Pod], Wanted | None], cluster: str
    ) -> None:
        self._world = world
        self._tasks = tasks
        self._said = said
        self._wanted_of = wanted_of
        self._cluster = cluster
        self.binder: Binder  # which knows where pods are being bound

    def specs(self, planned: Sequence[Planned], live: Mapping[str, KnownJob]) -> list[JobSpec]:
        """Return the jobs of these pods, in this order. `live`: the jobs that are there, by id."""
        if not planned:
            return []
        making = {pod.uid: job_name(_pods(job), job.gang) for job in planned for pod in _pods(job)}
        placing = self._placing(live, making, waits=True)
        found = []
        for job in planned:
            try:
                places = _places(placing, job)
            except (Refused, Waits) as error:
                reason = conditions.NOT_SUPPORTED if isinstance(error, Refused) else conditions.UNSCHEDULABLE
                for pod in _pods(job):
                    self._said.say(pod, reason, str(error))
                continue
            placing.made(_pods(job))
            found.append(self._spec(job, places))
        return found

    def looked_at_again(
        self, waiting: Iterable[tuple[KnownJob, Sequence[Asking]]], live: Mapping[str, KnownJob]
    ) -> tuple[list[KnownJob], dict[str, str]]:
        """Return the jobs whose pods other pods leave other nodes now than when they were submitted; and, by id, why
        jobs of the same pods would be refused now."""
        placing = self._placing(live, {}, waits=False)  # two of them would keep each other as they are
        outdated, refused = [], {}
        for job, pods in waiting:
            of_gang = pods[0][0].group if job.group else None
            try:
                places = _places(placing, Planned(pods=tuple(pods), gang=of_gang))
            except Refused as error:  # it keeps its turn, for this may pass; it is looked at before it is bound
                refused[job.id] = str(error)
                continue
            except Waits:
                continue  # a new job would say so
            if marks(places) != job.places:
                outdated.append(job)
        return outdated, refused

    def _placing(self, live: Mapping[str, KnownJob], making: Mapping[str, str], *, waits: bool) -> Placing:
        of_pod = {job.pod: job.name for job in live.values() if job.pod}
        of_gang: dict[str, list[str]] = {}
        for job in live.values():
            if job.group:
                of_gang.setdefault(job.group, []).append(job.name)

        def jobs_of(pod: Pod) -> Collection[str]:
            if allocation := self._tasks.allocation_of(pod):
                job = live.get(job_of(allocation))
                return [job.name] if job is not None else []
            if pod.uid in of_pod:
                return [of_pod[pod.uid]]
            return of_gang.get(pod.group.key, []) if pod.group is not None and pod.waits else []

        # A job that the masters looked at, and could not start, may wait for good. Whatever it is given later is looked
        # at before it is bound.
        coming: dict[str, Coming] = {}
        for job in live.values():
            found = _comes(job)
            if job.pod:
                coming[job.pod] = max(coming.get(job.pod, Coming.NO), found)
            elif found is Coming.SOON and self._has_places(job):  # what is too much for a gang may do for one pod
                coming[job.group] = found

        def comes(pod: Pod) -> Coming:
            if pod.uid in of_pod or pod.group is None:
                return coming.get(pod.uid, Coming.NO)
            return coming.get(pod.group.key, Coming.NO) if pod.waits and not pod.gates else Coming.NO

        neighbours = Neighbours(self._world, self.binder.node_of)
        return Placing(neighbours, jobs_of, comes, self._wanted_of, making, waits=waits)

    def _has_places(self, job: KnownJob) -> bool:
        """Return whether a gang's job has places that no pod has taken yet."""
        return job.tasks - job.ended > len(self._tasks.bound_of_job(job.id))

    def _spec(self, job: Planned, places: Mapping[str, Places]) -> JobSpec:
        if job.gang is not None:
            return gang_job(job.gang, job.pods, self._cluster, places)
        ((pod, wanted),) = job.pods
        (of_pod,) = places.values()
        return single_job(pod, wanted, self._cluster, of_pod)


def _comes(job: KnownJob) -> Coming:
    if job.state is JobState.SUSPENDED or job.held:
        return Coming.NO
    return Coming.WAITS if job.why else Coming.SOON


def _pods(job: Planned) -> list[Pod]:
    return [pod for pod, _ in job.pods]


def _places(placing: Placing, job: Planned) -> dict[str, Places]:
    """Return the places of each kind of its pods. Raises Refused, Waits."""
    return {name: placing.places(kind, job.pods) for name, kind in kinds(job.pods).items()}
