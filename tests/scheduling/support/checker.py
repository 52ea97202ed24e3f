"""Checks a plan by the words of the records alone: slow, plain Python, and none of the planner's code.

Labels and taints are matched by `core.matching`, and ceilings come from `core.sharing`, as in the state machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

from gosched.core.commands.plans import GangPlacement
from gosched.core.cpulist import parse_cpulist
from gosched.core.matching import blocking_taint, meets
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.job import Job, JobState
from gosched.core.records.node import Node, NodeState
from gosched.core.records.task import TaskState, task_id
from gosched.core.resources import MILLI, Resources
from gosched.core.sharing import Amounts, add_to, ceilings, charge_of, lineage
from gosched.core.spec.placement_rules import SELF, Mode, SpreadRule
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState

LEVELS = ("zone", "rack")  # of the topology in these tests

Place = tuple[str, str]  # (group, node id)
Counts = dict[str, list[int]]  # group -> tasks on each node, in the order of ids


class Ledger:
    """What is held while a plan grows. `broken`: lines that begin with the property that does not hold."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.broken: list[str] = []
        self.free = {n.id: n.capacity - state.usage[n.id] for n in state.nodes.values()}
        self.gpus = {n.id: _devices(state, n) for n in state.nodes.values()}
        self.cpus = {n: state.node_cpus_held(n) for n in state.nodes}
        self.standing: dict[str, list[Place]] = {
            job.id: [(t.group, t.node_id) for t in state.tasks_of(job) if t.state.is_active]
            for job in state.jobs.values()
        }
        self.ceilings = ceilings(state.queues, state.total)
        self.used: dict[tuple[str, str], Amounts] = {}  # ("queue" or "tenant", name)
        self.running: Counter[tuple[str, str]] = Counter()
        for (queue, tenant, model), held in state.charges.items():
            self._charge(queue, tenant, charge_of(held, model))
        for (queue, tenant), jobs in state.counts.running.items():
            self.running.update(dict.fromkeys(_payers(queue, tenant), jobs))

    def take(self, gang: GangPlacement) -> None:
        """Looks at one gang, and takes what it takes."""
        job = self.state.jobs[gang.job_id]
        starts = job.state is JobState.PENDING
        self._whole(job, gang)
        for group, task in _with_groups(job, gang):
            node = self.state.nodes[task.node_id]
            self._expect(not misfits(group, node), "suits", job, misfits(group, node))
            self._amounts(job, group, task)
            self._devices(job, group, task, alone=len(gang.tasks) == 1)
            self.standing[job.id].append((group.name, task.node_id))
        self._rules(job, gang)
        charge: Amounts = {}
        for group, task in _with_groups(job, gang):
            add_to(charge, charge_of(group.resources, self.state.nodes[task.node_id].gpu_model))
        self._limits(job, charge, starts)

    def could_take(self, job: Job) -> bool:
        """Brute force: every way to put the smallest start (or one more elastic task) on the nodes. At most one group
        wants GPUs, and no limit is on a single GPU model."""
        counts = smallest(self.state, job)
        charge: Amounts = {}
        for group in job.spec.groups:
            add_to(charge, charge_of(group.resources, group.gpu_model), counts.get(group.name, 0))
        if self._over(job, charge, starts=job.state is JobState.PENDING):
            return False
        groups = [group for group in job.spec.groups if counts.get(group.name)]
        ways = [list(self._ways(group, counts[group.name])) for group in groups]
        return any(self._together(job, groups, chosen) for chosen in product(*ways))

    # One gang's placement

    def _whole(self, job: Job, gang: GangPlacement) -> None:
        ranks = [task.rank for task in gang.tasks]
        known = all(0 <= rank < job.spec.task_count for rank in ranks)
        self._expect(known and len(set(ranks)) == len(ranks) and ranks == sorted(ranks), "ranks", job, ranks)
        if not known:
            return
        placed = Counter(group.name for group, _ in _with_groups(job, gang))
        if job.state is JobState.PENDING:
            floors = {group.name: group.floor for group in job.spec.groups}
            self._expect(all(placed[name] >= least for name, least in floors.items()), "whole", job, placed)
        waiting = [self.state.tasks[_task_of(job, rank)].state is TaskState.PENDING for rank in ranks]
        self._expect(all(waiting), "ranks", job, "some hold a place")

    def _amounts(self, job: Job, group: TaskGroup, task: TaskPlacement) -> None:
        self.free[task.node_id] -= group.resources
        self._expect(not _short(self.free[task.node_id], group.resources), "capacity", job, task)

    def _devices(self, job: Job, group: TaskGroup, task: TaskPlacement, *, alone: bool) -> None:
        node, free = self.state.nodes[task.node_id], self.gpus[task.node_id]
        millis = group.resources.gpu_millis
        number = 1 if 0 < millis < MILLI else millis // MILLI
        known = len(set(task.gpus)) == number and all(0 <= gpu < len(free) for gpu in task.gpus)
        self._expect(known, "GPUs", job, task)
        if not known:
            return
        islands = Counter(_at(node.hardware.gpu_links, gpu) for gpu, left in enumerate(free) if left == MILLI)
        for gpu in task.gpus:
            free[gpu] -= min(millis, MILLI)
            self._expect(free[gpu] >= 0, "GPUs", job, task)
        straddles = len({_at(node.hardware.gpu_links, gpu) for gpu in task.gpus}) > 1
        may = max(islands.values(), default=0) < number
        self._expect(not straddles or (may and not _requires(group, "gpu_link")) or not alone, "islands", job, task)
        self._expect(not straddles or not _requires(group, "gpu_link"), "islands", job, task)
        mask = parse_cpulist(task.cpus)
        there = sum(parse_cpulist(text) for text in node.hardware.numa_cpus)
        own = not mask or mask.bit_count() * 1000 == group.resources.cpu_millis
        self._expect(own and not mask & ~there and not mask & self.cpus[node.id], "CPUs", job, task)
        self.cpus[node.id] |= mask
        if _requires(group, "numa"):
            near = {_at(node.hardware.gpu_numa, gpu) for gpu in task.gpus}
            near |= {i for i, text in enumerate(node.hardware.numa_cpus) if parse_cpulist(text) & mask}
            self._expect(len(near) <= 1 and bool(node.hardware.numa_cpus), "NUMA", job, task)

    def _rules(self, job: Job, gang: GangPlacement) -> None:
        new = [(group.name, task.node_id) for group, task in _with_groups(job, gang)]
        for what, fine in self._where(job, new):
            self._expect(fine, what, job, self.standing[job.id])

    def _where(self, job: Job, new: Sequence[Place]) -> Iterator[tuple[str, bool]]:
        """Topology, spread and anti-affinity of all that stands, the `new` ones included."""
        standing = self.standing[job.id]
        bound: list[str] = []
        for level in ("node", *reversed(LEVELS)):
            here = [g.name for g in job.spec.groups if _requires(g, level)]
            # Of a gang that starts, one group's node is in the other group's rack; later each goes by its own.
            bound = [*bound, *here] if job.state is JobState.PENDING else here
            domains = {self._domain(node, level) for name, node in standing if name in bound}
            yield "topology", not here or (len(domains) <= 1 and None not in domains)
        for group in job.spec.groups:
            for rule in group.spread:
                if rule.mode is Mode.REQUIRED and any(name == group.name for name, _ in new):
                    yield "spread", self._even(group, rule, standing, new)
            for anti in group.anti_affinity:
                own = [self._domain(node, anti.level) for name, node in standing if name == group.name]
                fresh = [self._domain(node, anti.level) for name, node in new if name == group.name]
                if anti.job == SELF:
                    rest = [self._domain(node, anti.level) for name, node in standing if name != group.name]
                    shared = {d for d, n in Counter(own).items() if n > 1} | (set(own) & set(rest))
                else:
                    others = self._nodes_of(anti.full_name(job.spec.tenant))
                    shared = set(fresh) & {self._domain(node, anti.level) for node in others}
                yield "apart", shared <= {None}

    def _even(self, group: TaskGroup, rule: SpreadRule, standing: Sequence[Place], new: Sequence[Place]) -> bool:
        """Domains that got tasks hold at most `max_skew` more than the emptiest that may be used."""
        required = [level for level in (*LEVELS, "node") if _requires(group, level)]
        wanted = {(level, self._domain(node, level)) for level in required for name, node in new if name == group.name}
        domains = {
            self._domain(node.id, rule.level)
            for node in self.state.nodes.values()
            if not misfits(group, node) and all(self._domain(node.id, level) == domain for level, domain in wanted)
        } - {None}
        counts = Counter(self._domain(node, rule.level) for name, node in standing if name == group.name)
        touched = {self._domain(node, rule.level) for name, node in new if name == group.name}
        least = min([counts[domain] for domain in domains], default=0)
        return None not in touched and all(counts[domain] <= least + rule.max_skew for domain in touched)

    def _nodes_of(self, full_name: str) -> list[str]:
        tenant, _, name = full_name.partition("/")
        job = self.state.jobs.get(self.state.names.id_of(tenant, name))
        return [node for _, node in self.standing[job.id]] if job is not None else []

    def _domain(self, node_id: str, level: str) -> object:
        """The path of labels down to the level; None: in no domain."""
        labels = dict(self.state.nodes[node_id].labels)
        if level == "node":
            return node_id
        if level not in labels:
            return None
        return *[labels.get(above) for above in LEVELS[: LEVELS.index(level)]], labels[level]

    # QueueLimits

    def _limits(self, job: Job, charge: Amounts, starts: bool) -> None:
        over = self._over(job, charge, starts=starts)
        self._expect(not over, "limits", job, over)
        self._charge(job.spec.queue, job.spec.tenant, charge)
        if starts:
            self.running.update(_payers(job.spec.queue, job.spec.tenant))

    def _over(self, job: Job, charge: Amounts, *, starts: bool) -> str:
        """The first queue or tenant whose limit would be exceeded."""
        for payer in _payers(job.spec.queue, job.spec.tenant):
            kind, name = payer
            if kind == "queue":
                ceiling, jobs = self.ceilings[name], self.state.queues[name].max_running_jobs
            elif (quota := self.state.quotas.get(name)) is not None:
                ceiling, jobs = dict(quota.limit), quota.max_running_jobs
            else:
                continue
            used = self.used.get(payer, {})
            if starts and jobs and self.running[payer] >= jobs:
                return f"running jobs of {payer}"
            for resource, amount in charge.items():
                if amount and used.get(resource, 0) + amount > ceiling.get(resource, 1 << 62):
                    return f"{resource} of {payer}"
        return ""

    def _charge(self, queue: str, tenant: str, charge: Amounts) -> None:
        for payer in _payers(queue, tenant):
            add_to(self.used.setdefault(payer, {}), charge)

    # Brute force

    def _ways(self, group: TaskGroup, count: int) -> Iterator[list[int]]:
        """All counts per node that each node has room for, if the group were alone."""
        most = [self._slots(group, node, count) for node in self._nodes()]
        for counts in product(*[range(n + 1) for n in most]):
            if sum(counts) == count:
                yield list(counts)

    def _together(self, job: Job, groups: Sequence[TaskGroup], chosen: Sequence[list[int]]) -> bool:
        nodes = self._nodes()
        for i, node in enumerate(nodes):
            wanted = Resources()
            for group, counts in zip(groups, chosen, strict=True):
                wanted = wanted + group.resources.times(counts[i])
            if any(counts[i] for counts in chosen) and not wanted.fits_in(_positive(self.free[node.id])):
                return False
        new = [
            (group.name, node.id)
            for group, counts in zip(groups, chosen, strict=True)
            for node, count in zip(nodes, counts, strict=True)
            for _ in range(count)
        ]
        before = self.standing[job.id]
        self.standing[job.id] = [*before, *new]
        fine = all(holds for _, holds in self._where(job, new))
        self.standing[job.id] = before
        return fine

    def _nodes(self) -> list[Node]:
        return [self.state.nodes[node_id] for node_id in sorted(self.state.nodes)]

    def _slots(self, group: TaskGroup, node: Node, count: int) -> int:
        """How many tasks of the group the node would take, up to `count`."""
        if misfits(group, node):
            return 0
        found = 0
        while found < count and group.resources.times(found + 1).fits_in(_positive(self.free[node.id])):
            found += 1
        return min(found, self._device_slots(group, node))

    def _device_slots(self, group: TaskGroup, node: Node) -> int:
        millis, free = group.resources.gpu_millis, self.gpus[node.id]
        if 0 < millis < MILLI:
            return sum(left // millis for left in free)
        whole = [gpu for gpu, left in enumerate(free) if left == MILLI]
        number = millis // MILLI
        if _requires(group, "numa"):
            owns = group.resources.cpu_millis // 1000 if number and group.resources.cpu_millis % 1000 == 0 else 0
            slots = 0
            for i, text in enumerate(node.hardware.numa_cpus):
                here = sum(_at(node.hardware.gpu_numa, gpu) == i for gpu in whole)
                spare = (parse_cpulist(text) & ~self.cpus[node.id]).bit_count()
                slots += min(here // number if number else 99, spare // owns if owns else 99)
            return slots
        if not number:
            return 99
        if _requires(group, "gpu_link"):
            return sum(n // number for n in Counter(_at(node.hardware.gpu_links, gpu) for gpu in whole).values())
        return len(whole) // number

    def _expect(self, holds: bool, what: str, job: Job, detail: object) -> None:
        if not holds:
            self.broken.append(f"{what}: {job.id} {detail}")


def misfits(group: TaskGroup, node: Node) -> str:
    """Why no task of the group may stand on the node, however empty it is."""
    labels = dict(node.labels)
    if node.state is not NodeState.READY:
        return "not ready"
    if any(labels.get(key) != value for key, value in group.node_selector):
        return "selector"
    if any(not meets(term, labels) for term in group.affinity if not term.weight):
        return "affinity"
    if blocking_taint(group.tolerations, node.taints) is not None:
        return "taint"
    if group.resources.gpu_millis and group.gpu_model not in ("", node.gpu_model):
        return "model"
    if group.gpu_memory_bytes * MILLI > node.hardware.gpu_memory_bytes * min(group.resources.gpu_millis, MILLI):
        return "GPU memory"
    if _requires(group, "numa") and not node.hardware.numa_cpus:
        return "NUMA"
    levels = [rule.level for rule in (*group.topology, *group.spread) if rule.mode is Mode.REQUIRED]
    levels += [rule.level for rule in group.anti_affinity if rule.job == SELF]
    if any(level in LEVELS and level not in labels for level in levels):
        return "no such domain"
    return ""


def smallest(state: ClusterState, job: Job) -> dict[str, int]:
    """How many tasks of each group must start together; of a job that runs, one task of the first group that waits."""
    if job.state is JobState.PENDING:
        return {group.name: group.floor for group in job.spec.groups}
    waiting = [task.group for task in state.tasks_of(job) if task.state is TaskState.PENDING]
    return {waiting[0]: 1} if waiting else {}


def _with_groups(job: Job, gang: GangPlacement) -> list[tuple[TaskGroup, TaskPlacement]]:
    of_rank = [group for group in job.spec.groups for _ in range(group.count)]
    return [(of_rank[task.rank], task) for task in gang.tasks if 0 <= task.rank < len(of_rank)]


def _task_of(job: Job, rank: int) -> str:
    return [task_id(job.id, group.name, i) for group in job.spec.groups for i in range(group.count)][rank]


def _payers(queue: str, tenant: str) -> list[tuple[str, str]]:
    return [*[("queue", path) for path in lineage(queue)], ("tenant", tenant)]


def _requires(group: TaskGroup, level: str) -> bool:
    return any(rule.level == level and rule.mode is Mode.REQUIRED for rule in group.topology)


def _devices(state: ClusterState, node: Node) -> list[int]:
    held = state.node_gpus_held(node.id)
    bad = node.hardware.bad_gpus
    return [0 if gpu in bad else MILLI - held.get(gpu, 0) for gpu in range(node.capacity.gpu_millis // MILLI)]


def _at(numbers: Sequence[int], index: int) -> int:
    return numbers[index] if numbers else -1


def _short(left: Resources, asked: Resources) -> bool:
    """Whether something that was asked for is below zero now."""
    names = ("cpu_millis", "memory_bytes", "storage_bytes", "gpu_millis")
    below = any(getattr(asked, name) and getattr(left, name) < 0 for name in names)
    return below or any(dict(left.custom).get(name, 0) < 0 for name, _ in asked.custom)


def _positive(left: Resources) -> Resources:
    return Resources(
        cpu_millis=max(left.cpu_millis, 0),
        memory_bytes=max(left.memory_bytes, 0),
        storage_bytes=max(left.storage_bytes, 0),
        gpu_millis=max(left.gpu_millis, 0),
        custom=tuple([(name, amount) for name, amount in left.custom if amount > 0]),
    )
