"""The loop that keeps the masters' jobs and the pods that wait together."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import structlog

from gosched.client import GoSchedError, NotFound, NotSubmitted
from gosched.client import Refused as ClientRefused
from gosched.client.aio.client import AsyncGoSchedClient
from gosched.client.aio.handle import AsyncJobHandle
from gosched.client.records import JobQuery, JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.job_spec import JobSpec
from gosched.integrations.kube_objects.pod_rules import Refused
from gosched.integrations.kube_objects.pods import Pod
from gosched.integrations.kube_objects.translate import CLUSTER, Wanted, translate
from gosched.integrations.kubernetes import conditions
from gosched.integrations.kubernetes.api import KubeError
from gosched.integrations.kubernetes.binder import RULE_BROKEN, Binder
from gosched.integrations.kubernetes.conditions import Conditions
from gosched.integrations.kubernetes.groups import Groups, NoGroup
from gosched.integrations.kubernetes.jobs import Gang, KnownJob, known_job, shape, split, submitted_job
from gosched.integrations.kubernetes.making import Making, Planned
from gosched.integrations.kubernetes.placing import Asking
from gosched.integrations.kubernetes.tasks import Tasks
from gosched.integrations.kubernetes.volumes import NotBound, Volumes
from gosched.integrations.kubernetes.world import World

LOOK_S = 2.0  # at the masters' list of jobs, while pods wait
IDLE_LOOK_S = 30.0
SETTLE_S = 0.05
AGAIN_S = 30.0  # a pod whose job was refused, or failed before its pod was bound, gets another one
MAX_BATCH = 2000
MAX_CALLS = 16  # at once

_LIVE = (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED)

log = structlog.get_logger()


class Submitting:
    def __init__(
        self,
        client: AsyncGoSchedClient,
        world: World,
        tasks: Tasks,
        groups: Groups,
        volumes: Volumes,
        said: Conditions,
        *,
        cluster: str,
        queue: str,
        holds: Callable[[], bool],
    ) -> None:
        """`holds` returns whether no other bridge serves the cluster."""
        self._client = client
        self._world = world
        self._tasks = tasks
        self._groups = groups
        self._volumes = volumes
        self._said = said
        self._cluster = cluster
        self._queue = queue
        self._holds = holds
        self._binder: Binder
        self._making = Making(world, tasks, said, self._known_wanted, cluster)
        self.wake = asyncio.Event()
        self._jobs: dict[str, KnownJob] = {}  # live ones, by id
        self._of_pod: dict[str, str] = {}  # uid -> id of its live job
        self._wanted: dict[str, tuple[Pod, Wanted]] = {}  # by uid
        self._again: dict[str, float] = {}  # uid -> when it may be submitted again
        self._broke: dict[str, float] = {}  # uid -> when it was last planned against a rule
        self._parked: dict[str, None] = {}  # uids of pods whose job a person has cancelled
        self._moot: set[str] = set()  # ids of jobs that waited for nothing at the last look
        self._looked = -LOOK_S

    @property
    def binder(self) -> Binder:
        """What binds the pods of the jobs, and asks this one for shapes."""
        return self._binder

    @binder.setter
    def binder(self, binder: Binder) -> None:
        self._binder = self._making.binder = binder

    def shape_of(self, pod: Pod) -> str:
        """Return the name of the task group that a pod of a gang belongs to; empty: it is not known yet."""
        wanted = self._known_wanted(pod)
        return shape(wanted) if wanted else ""

    def _known_wanted(self, pod: Pod) -> Wanted | None:
        _, wanted = self._wanted.get(pod.uid, (None, None))
        return wanted

    def forget(self, pod: Pod) -> None:
        """Drop what was known of a pod that waits no more."""
        for known in (self._wanted, self._again, self._broke, self._parked):
            known.pop(pod.uid, None)

    async def begin(self) -> None:
        """Read what there is, before any order comes: the jobs, and what the pods ask for. Tasks of gangs whose pods
        have gone meanwhile have ended. Raises GoSchedError, KubeError."""
        await self._look()
        for pod in list(self._world.waiting.values()):
            if pod.scheduled_reason == conditions.JOB_CANCELLED:
                self._parked[pod.uid] = None
            await self._want(pod)
        gangs = [job for job in self._jobs.values() if job.group and job.state is JobState.RUNNING]
        await _all(self._end_lost, gangs)

    async def run(self) -> None:
        """Go on for good."""
        failing = ""
        while True:
            try:
                async with asyncio.timeout(LOOK_S):
                    await self.wake.wait()
                await asyncio.sleep(SETTLE_S)
            except TimeoutError:
                pass
            self.wake.clear()
            if not self._holds():  # what it knows of the pods may be old: it would cancel jobs of others
                continue
            try:
                await self._pass()
                failing = ""
            except (GoSchedError, KubeError) as error:
                if str(error) != failing:
                    log.warning("pods wait until the masters and the API server answer", why=str(error))
                failing = str(error)
                await asyncio.sleep(LOOK_S)

    async def _pass(self) -> None:
        since = time.monotonic() - self._looked
        if since >= (LOOK_S if self._world.waiting or self._waiting_jobs() else IDLE_LOOK_S):
            await self._look()
            await self._cancel_moot()
            outdated, refused = self._look_again()
            self._explain(refused)
            await self._cancel_outdated(outdated)
        specs = [*await self._singles_and_gangs()]
        for start in range(0, len(specs), MAX_BATCH):
            await self._submit(specs[start : start + MAX_BATCH])

    def _waiting_jobs(self) -> list[KnownJob]:
        return [job for job in self._jobs.values() if job.state is JobState.PENDING]

    async def _look(self) -> None:
        """List the live jobs; those that have ended meanwhile while their pods wait are looked at."""
        query = JobQuery(states=_LIVE, labels=((CLUSTER, self._cluster),))
        found = {row.id: known_job(row) async for page in self._client.job_rows(query) for row in page}
        gone = [job for job in self._jobs.values() if job.id not in found]
        self._jobs = found
        self._of_pod = {job.pod: job.id for job in found.values() if job.pod}
        self._looked = time.monotonic()
        await _all(self._on_ended, [job for job in gone if self._free_pods_of(job)])
        self.binder.keep_retired(found)

    async def _on_ended(self, job: KnownJob) -> None:
        """Say why a job has ended whose pods still wait. One that a person cancelled gets no other; one that was
        planned against a rule gets one now, unless that is so again and again, and one that failed after a while."""
        if self.binder.is_retired(job.id):
            return  # it was cancelled to be submitted anew, and the answer was lost
        try:
            ended = (await self._client.get_job(job.id)).job
        except NotFound:
            return
        said = f"job {job.name} is {ended.state.name}: {ended.detail or ended.reason or 'no reason is given'}"
        for pod in self._free_pods_of(job):
            if ended.reason == RULE_BROKEN and self._breaks_seldom(pod):
                self._said.say(pod, conditions.UNSCHEDULABLE, f"{ended.detail}. It is submitted anew")
                continue
            self._again[pod.uid] = time.monotonic() + AGAIN_S
            if ended.state is JobState.CANCELLED:
                self._parked[pod.uid] = None
                self._said.say(pod, conditions.JOB_CANCELLED, f"{said}. To try again, delete the pod and make it anew")
            else:
                self._said.say(pod, conditions.NOT_SUBMITTED, f"{said}. It is submitted again")

    def _breaks_seldom(self, pod: Pod) -> bool:
        now = time.monotonic()
        before, self._broke[pod.uid] = self._broke.get(pod.uid, -AGAIN_S), now
        return now - before >= AGAIN_S

    async def _end_lost(self, job: KnownJob) -> None:
        names = {node.uid: node.name for node in self._world.nodes.values()}
        for task in (await self._client.get_job(job.id)).tasks:
            ran = task.state in (TaskState.STARTING, TaskState.RUNNING)
            if ran and task.allocation_id not in self._tasks.bound and task.node_id in names:
                node, detail = names[task.node_id], "the pod was deleted while the bridge was away"
                self._tasks.end(task.allocation_id, node, TaskState.SUCCEEDED, "POD_DELETED", detail)

    async def _cancel_moot(self) -> None:
        """Cancel the jobs that wait for nothing. One look may be older than the job's start: two in a row are not."""
        moot = {job.id: job for job in self._waiting_jobs() if self._is_moot(job)}
        await _all(self._cancel, [job for job in moot.values() if job.id in self._moot])
        self._moot = set(moot)

    def _is_moot(self, job: KnownJob) -> bool:
        """Return whether a job that waits has no pods (any more) that it could place."""
        if job.pod:
            pod = self._world.pods.get(job.pod)
            if pod is None or pod.deleting or pod.has_ended:
                return True
            return bool(pod.node) and not self._tasks.bound_of_job(job.id) and self.binder.is_free(pod)
        waiting = [pod for pod in self._world.members(job.group) if pod.waits and pod.uid not in self._of_pod]
        return len(waiting) + len(self._tasks.bound_of_job(job.id)) < job.tasks

    async def _cancel(self, job: KnownJob) -> None:
        log.info("a job's pods are gone; it is cancelled", job=job.name)
        await self._request_cancel(job, "its pods are gone, or wait no more")

    def _look_again(self) -> tuple[list[KnownJob], dict[str, str]]:
        """Return what other pods have changed for the jobs that wait and have rules about them, as
        `Making.looked_at_again` does."""
        waiting = []
        for job in self._waiting_jobs():
            pods = [self._wanted[pod.uid] for pod in self._free_pods_of(job) if pod.uid in self._wanted][: job.tasks]
            if len(pods) == job.tasks and (job.places or any(wanted.rules.spread for _, wanted in pods)):
                waiting.append((job, pods))
        return self._making.looked_at_again(waiting, self._jobs) if waiting else ([], {})

    async def _cancel_outdated(self, outdated: Iterable[KnownJob]) -> None:
        """Cancel the jobs whose pods may be elsewhere now, by rules about other pods: they are submitted anew."""
        for job in outdated:
            if self.binder.retire(job.id):
                log.info("other pods leave a job other nodes now; it is submitted anew", job=job.name)
        retired = [job for job in self._waiting_jobs() if self.binder.is_retired(job.id)]
        await _all(lambda job: self._request_cancel(job, "it is submitted anew"), retired)

    async def _request_cancel(self, job: KnownJob, reason: str) -> None:
        with contextlib.suppress(NotFound):
            await self._client.request_cancel(job.id, reason=reason)
        self._drop(job)

    def _drop(self, job: KnownJob) -> None:
        self._jobs.pop(job.id, None)
        if self._of_pod.get(job.pod) == job.id:
            del self._of_pod[job.pod]

    def _explain(self, refused: Mapping[str, str]) -> None:
        """Tell the pods of the jobs that wait why. `refused`: why jobs of the same pods would be refused, by id."""
        for job in self._waiting_jobs():
            reason, words = conditions.UNSCHEDULABLE, job.why and f"job {job.name} in queue {job.queue}: {job.why}"
            if job.id in refused:
                reason, words = conditions.NOT_SUPPORTED, refused[job.id]
            for pod in self._free_pods_of(job)[: job.tasks] if words else []:
                self._said.say(pod, reason, words)

    def _free_pods_of(self, job: KnownJob) -> list[Pod]:
        if job.pod:
            found = [pod for pod in [self._world.waiting.get(job.pod)] if pod is not None]
        else:
            found = [pod for pod in self._world.members(job.group) if pod.waits and pod.uid not in self._of_pod]
        return [pod for pod in found if self.binder.is_free(pod)]

    async def _singles_and_gangs(self) -> list[JobSpec]:
        """Return the jobs of the pods that have none yet."""
        singles: list[Planned] = []
        gangs: dict[str, list[Asking]] = {}
        for pod in list(self._world.waiting.values()):
            if pod.gates or not self.binder.is_free(pod) or not self._may_be_submitted(pod):
                continue
            wanted = await self._want(pod)
            if wanted is not None and pod.group is not None:
                gangs.setdefault(pod.group.key, []).append((pod, wanted))
            elif wanted is not None:
                singles.append(Planned(pods=((pod, wanted),)))
        planned: list[Planned] = []
        for asking in gangs.values():
            planned += await self._gang(sorted(asking, key=lambda each: (each[0].created, each[0].name)))
        return self._making.specs([*planned, *singles], self._jobs)

    def _may_be_submitted(self, pod: Pod) -> bool:
        due = self._again.get(pod.uid, 0.0) <= time.monotonic()
        return due and pod.uid not in self._of_pod and pod.uid not in self._parked

    async def _want(self, pod: Pod) -> Wanted | None:
        """Return what a pod asks for; None, and the pod is told why, if it cannot be placed."""
        known, wanted = self._wanted.get(pod.uid, (None, None))
        if wanted is not None and known is pod:
            return wanted
        try:
            volumes = await self._volumes.required(pod)
            wanted = translate(pod, cluster=self._cluster, queue=self._queue, volumes=volumes)
        except Refused as error:
            self._said.say(pod, conditions.NOT_SUPPORTED, str(error))
            return None
        except NotBound as error:
            self._said.say(pod, conditions.UNSCHEDULABLE, str(error))
            return None
        except KubeError as error:
            if error.may_pass:
                raise
            self._said.say(pod, conditions.UNSCHEDULABLE, str(error))  # it alone: a name may be any text
            return None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self._said.say(pod, conditions.NOT_SUPPORTED, f"its spec cannot be read: {error}")
            return None
        self._wanted[pod.uid] = (pod, wanted)
        return wanted

    async def _gang(self, asking: Sequence[Asking]) -> list[Planned]:
        """Return the jobs of a gang's free pods."""
        ref = asking[0][0].group
        assert ref is not None
        try:
            needed = await self._groups.needed(ref)
        except NoGroup as error:
            self._tell([pod for pod, _ in asking], conditions.WAITING_FOR_GANG, str(error))
            return []
        asking = [(pod, wanted) for pod, wanted in asking if self._is_still_free(pod)]
        live = [job for job in self._jobs.values() if job.group == ref.key]
        taken = {job.id: len(self._tasks.bound_of_job(job.id)) for job in live}
        decided = split(
            Gang(
                ref=ref,
                needed=needed,
                bound=sum(map(self._is_in_gang, self._world.members(ref.key))),
                free=tuple([pod for pod, _ in asking]),
                promised=sum(max(0, job.tasks - taken[job.id] - job.ended) for job in live),
            )
        )
        if decided.waiting:
            words = f"PodGroup {ref.name} needs {needed} pods together: "
            words += f"{decided.missing} more must come" if decided.missing else "this one comes after these are bound"
            self._tell(decided.waiting, conditions.WAITING_FOR_GANG, words)
        wanted_by = {pod.uid: wanted for pod, wanted in asking}
        planned = [Planned(pods=((pod, wanted_by[pod.uid]),)) for pod in decided.alone]
        if decided.together:
            together = tuple([(pod, wanted_by[pod.uid]) for pod in decided.together])
            planned.insert(0, Planned(pods=together, gang=ref))
        return planned

    def _is_in_gang(self, pod: Pod) -> bool:
        """Return whether its gang has this pod: bound, or done. One that failed is another's place to take."""
        return bool(self._tasks.allocation_of(pod) or (pod.allocation and pod.phase == "Succeeded"))

    def _is_still_free(self, pod: Pod) -> bool:
        return pod.uid in self._world.waiting and self.binder.is_free(pod)

    def _tell(self, pods: Iterable[Pod], reason: str, words: str) -> None:
        for pod in pods:
            self._said.say(pod, reason, words)

    async def _submit(self, specs: list[JobSpec]) -> None:
        outcomes: Sequence[object]
        try:
            outcomes = await self._client.submit_all(specs)
        except ClientRefused as error:
            outcomes = [error] * len(specs)
        for spec, outcome in zip(specs, outcomes, strict=True):
            if isinstance(outcome, AsyncJobHandle):
                job = submitted_job(outcome.job_id, spec)
                self._jobs[job.id] = job
                if job.pod:
                    self._of_pod[job.pod] = job.id
                continue
            words = outcome.problem if isinstance(outcome, NotSubmitted) else str(outcome)
            refused = submitted_job("", spec)
            for pod in self._free_pods_of(refused)[: refused.tasks]:
                self._again[pod.uid] = time.monotonic() + AGAIN_S
                self._said.say(pod, conditions.NOT_SUBMITTED, f"the masters refuse it: {words}")


async def _all(work: Callable[[KnownJob], Coroutine[Any, Any, None]], jobs: Iterable[KnownJob]) -> None:
    """Do the work for each job, some at a time; raise the first error once all are done."""
    calls = asyncio.Semaphore(MAX_CALLS)

    async def one(item: KnownJob) -> None:
        async with calls:
            await work(item)

    done = await asyncio.gather(*[one(item) for item in jobs], return_exceptions=True)
    for error in done:
        if isinstance(error, BaseException):
            raise error
