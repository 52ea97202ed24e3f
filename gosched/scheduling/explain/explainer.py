"""Says why a gang waits, in one code and one line that is true at the view's revision; then how many nodes each filter
refused, and the nearest miss.

Invariant: a gang that does not fit always has an explanation. What costs a look at every node is done for MAX_EXPLAINED
kinds of gangs in a cycle; the others get the line that their amounts alone justify, and all of it on request (`full`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import gt

import numpy as np

from gosched.api.explanation import Refused
from gosched.core.amounts import amount_text, short_of
from gosched.core.reasons import WaitReason
from gosched.core.sharing import BUILT_IN
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import Affinity, LabelOp
from gosched.scheduling.explain.explanation import Explanation
from gosched.scheduling.placement.domains import reachable_domains, slots_by_domain
from gosched.scheduling.placement.feasibility import Feasibility
from gosched.scheduling.placement.free_capacity import FreeCapacity
from gosched.scheduling.placement.needs import needs_of
from gosched.scheduling.placement.spread import Evenness, keep_apart
from gosched.scheduling.placement.topology import ANYWHERE
from gosched.scheduling.plugins.filters import CLOSED, NO_AFFINITY, NOT_READY, Filter, filters
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.task_requests import PendingGang, TaskRequest, task_requests_of
from gosched.scheduling.snapshot.view import BoolArray, IntArray, NodeColumns, summed

MAX_EXPLAINED = 50
MAX_REMEMBERED = 1024  # kinds of jobs of which is known what the nodes lack for them
_AT_ALL = "are on ready nodes"  # whatever runs there

SHORT_OF = "short of "
_DEVICES = {
    Column.WHOLE: f"{SHORT_OF}whole GPUs",
    Column.SHARE: f"{SHORT_OF}a GPU's share",
    Column.LINK: f"{SHORT_OF}linked GPUs",
}


_FRAGMENTED = Explanation(
    code=WaitReason.FRAGMENTED,
    message="no node has enough free capacity after the jobs ahead of it; run `goschedctl explain` for details",
    brief=True,
)


class Explainer:
    """The explanations of gangs that did not fit in the capacity of one cycle."""

    def __init__(self, capacity: FreeCapacity, feasibility: Feasibility) -> None:
        self._capacity = capacity
        self._feasibility = feasibility
        self._explained = 0

    @property
    def has_time(self) -> bool:
        """Return whether gangs may still be explained at the cost of a look at every node."""
        return self._explained < MAX_EXPLAINED

    def spend(self) -> None:
        """Count a look at every node that was done elsewhere to explain a gang."""
        self._explained += 1

    def of(self, gang: PendingGang, banned: tuple[str, ...] = ()) -> Explanation:
        """Return why the gang waits; brief if there is no time left. `banned`: GPU models that limits keep it off."""
        if not self.has_time:
            total = self._capacity.total
            is_short = any(map(gt, gang.total, total))
            return (_insufficient(gang.total, total, "are free") if is_short else None) or _FRAGMENTED
        self._explained += 1
        return self.full(gang, banned)

    def full(self, gang: PendingGang, banned: tuple[str, ...] = ()) -> Explanation:
        """Return why the gang waits, whatever it costs to find out."""
        capacity, nodes = self._capacity, self._capacity.nodes
        capacity.settle()
        for request in gang.requests:
            if found := _no_node_could(nodes, request, self._feasibility.filters(gang, request)):
                return replace(found, is_hopeless=True)
        if found := _insufficient(gang.total, summed(nodes.capacity[nodes.ready]).tolist(), _AT_ALL):
            return replace(found, is_hopeless=True)
        if found := _insufficient(gang.total, capacity.total, "are free"):
            return found
        for index, request in enumerate(gang.requests):
            if found := self._group_does_not_fit(gang, index, request, banned if request.constraints.wants_gpu else ()):
                return found
        for request in gang.requests:
            if found := self._rules_leave_too_few(gang, request):
                return found
        return Explanation(code=WaitReason.FRAGMENTED, message="each task group fits alone, but not all together")

    def _group_does_not_fit(
        self, gang: PendingGang, index: int, request: TaskRequest, banned: tuple[str, ...]
    ) -> Explanation | None:
        capacity = self._capacity
        allowed = self._feasibility.choice(gang, request).allowed & self._feasibility.without_models(banned)
        refused = self._refused(gang, request, banned)
        wanted = tuple([each * request.floor for each in request.each])
        if found := _insufficient(wanted, summed(capacity.free[allowed]).tolist(), "are free on nodes that it may use"):
            return Explanation(code=found.code, message=found.message, refused=refused)
        fit = int(capacity.slots(request, allowed).sum())
        if fit < max(request.floor, 1):
            needed = f"{_tasks_text(max(request.floor, 1))}{_group_suffix(gang.requests, request)}"
            message = f"{fit} of {needed} fit; {_refusals_text(refused, len(capacity.nodes))}"
            return Explanation(
                code=WaitReason.FRAGMENTED,
                message=message,
                refused=refused,
                nearest=self._nearest_miss(request, allowed),
            )
        return self._no_domain_holds(gang, index, request, refused)

    def _no_domain_holds(
        self, gang: PendingGang, index: int, request: TaskRequest, refused: tuple[Refused, ...]
    ) -> Explanation | None:
        """Return an explanation if there are places enough, but not in one domain of the required level."""
        level, _ = self._feasibility.bounds(gang, request.constraints)
        if level == ANYWHERE:
            return None
        choices = [self._feasibility.choice(gang, a) for a in gang.requests]
        slots = slots_by_domain(gang, choices, self._capacity, self._feasibility, level, index)
        slots = np.where(reachable_domains(gang, request.group, self._feasibility, level, level), slots, 0)
        best = int(slots.argmax())
        floor = max(request.floor, 1)
        if int(slots[best]) >= floor:
            return None
        topology = self._feasibility.topology
        needs, there = _in_tasks_or_gpus(request, floor), _in_tasks_or_gpus(request, int(slots[best])).split()[0]
        where = f"one {topology.levels[level]}; best is {topology.name(level, best)}"
        nearest = f"needs {needs} on {where} with {there}"
        return Explanation(code=WaitReason.TOPOLOGY, message=nearest, refused=refused, nearest=nearest)

    def _rules_leave_too_few(self, gang: PendingGang, request: TaskRequest) -> Explanation | None:
        """Return an explanation if there are places enough, but not where rules about other tasks allow them."""
        constraints, capacity, feasibility = request.constraints, self._capacity, self._feasibility
        if not constraints.anti_affinity and not constraints.spread:
            return None
        allowed = feasibility.choice(gang, request).allowed
        own = feasibility.nodes.rows([node for _, node in gang.placed])
        slots, keys = capacity.slots(request, allowed), np.arange(len(allowed))
        slots = keep_apart(gang, constraints, slots, keys, own, feasibility)
        of_group = feasibility.nodes.rows([node for name, node in gang.placed if name == request.group])
        even = [
            Evenness(rule, feasibility.codes(rule.level), allowed, slots, of_group).available
            for rule in constraints.spread
        ]
        fit, floor = min([int(slots.sum()), *even]), max(request.floor, 1)
        levels = dict.fromkeys(
            [*[rule.level for rule in constraints.anti_affinity], *[rule.level for rule in constraints.spread]]
        )
        rules = f"its spread and anti-affinity rules (by {', '.join(levels)})"
        refused = self._refused(gang, request)
        full = [f"{nodes} {name}" for name, nodes in refused if name.startswith(SHORT_OF)]
        message = f"too few nodes that have room meet {rules}: {', '.join(full)}" if full else f"no node meets {rules}"
        nearest = f"needs {_tasks_text(floor)}; its rules allow {fit}" if fit < floor else ""
        return Explanation(code=WaitReason.CONSTRAINTS, message=message, refused=refused, nearest=nearest)

    def _refused(self, gang: PendingGang, request: TaskRequest, banned: tuple[str, ...] = ()) -> tuple[Refused, ...]:
        """Return how many nodes each filter refused, each node counted at its first one; short resources come last."""
        left = np.ones(len(self._capacity.nodes), dtype=np.bool_)
        counts: list[tuple[str, int]] = []
        models = ("of a GPU model at its limit", self._feasibility.without_models(banned))
        for name, mask in [*self._feasibility.filters(gang, request), models, *self._resources(request)]:
            counts.append((name, int(np.count_nonzero(left & ~mask))))
            left &= mask
        return tuple([Refused(name, count) for name, count in counts if count])

    def _resources(self, request: TaskRequest) -> list[Filter]:
        free = self._capacity.free
        names = {column: name for name, column in self._capacity.nodes.custom.items()}
        found: list[Filter] = []
        for column, amount in needs_of(request, self._capacity.nodes) or ():
            name = _DEVICES.get(column) or f"{SHORT_OF}{short_of(names.get(column) or BUILT_IN[column])}"
            found.append((name, free[:, column] >= amount))
        return found

    def _nearest_miss(self, request: TaskRequest, allowed: BoolArray) -> str:
        """Return a line about the node that lacks least, by the resource of which it lacks the largest part."""
        wanted = needs_of(request, self._capacity.nodes)
        rows = np.flatnonzero(allowed)
        if not wanted or not rows.size:
            return ""
        free = self._capacity.free[rows]
        lacks = np.stack([(amount - free[:, c]) * 1000 // amount for c, amount in wanted])
        worst = lacks.max(axis=0)
        row = int(worst.argmin())
        if worst[row] <= 0:
            return ""
        column, amount = wanted[int(lacks[:, row].argmax())]
        names = {c: name for name, c in self._capacity.nodes.custom.items()}
        name = "gpu" if column in _DEVICES else names.get(column) or BUILT_IN[column]
        has = amount_text(name, max(int(free[row, column]), 0), bare=True)
        best = self._capacity.nodes.ids[int(rows[row])]
        return f"needs {amount_text(name, amount)} on one node; best is {best} with {has}"


def warnings(nodes: NodeColumns, spec: JobSpec) -> Sequence[str]:
    """Return what the ready nodes could not hold even if they were empty; nodes may join, so it is no error. `nodes`:
    of a view. What is found out is remembered for jobs that ask for the same."""
    requests = task_requests_of(spec)
    known: dict[tuple[TaskRequest, ...], Sequence[str]] = nodes.derive("warnings", dict)
    found = known.get(requests)
    if found is None:
        if len(known) >= MAX_REMEMBERED:
            known.clear()
        found = known[requests] = _warnings(nodes, requests)
    return found


def _warnings(nodes: NodeColumns, requests: tuple[TaskRequest, ...]) -> Sequence[str]:
    if _one_node_holds(nodes, requests):
        return ()
    constraints = [list(filters(nodes, request.constraints)) for request in requests]
    masks = [np.logical_and.reduce([mask for _, mask in found]) for found in constraints]
    found: list[Explanation | None] = [
        _no_node_could(nodes, request, r) for request, r in zip(requests, constraints, strict=True)
    ]
    if not any(found):
        found = [
            _insufficient(
                tuple([each * request.floor for each in request.each]), summed(nodes.capacity[mask]).tolist(), _AT_ALL
            )
            for request, mask in zip(requests, masks, strict=True)
        ]
    if not any(found):
        total = tuple([sum([request.each[c] * request.floor for request in requests]) for c in range(len(BUILT_IN))])
        found = [_insufficient(total, summed(nodes.capacity[nodes.ready]).tolist(), _AT_ALL)]
    if not any(found):
        found = [_too_few_slots(nodes, requests, request, mask) for request, mask in zip(requests, masks, strict=True)]
    return tuple(dict.fromkeys(e.message for e in found if e))


def _one_node_holds(nodes: NodeColumns, requests: tuple[TaskRequest, ...]) -> bool:
    """Return whether the node with the most CPU could hold all of it if it were empty: most jobs are small, and ask
    for no more than amounts."""
    if (
        any(
            request.constraints.is_more_than_amounts or request.custom or request.each[Column.GPU]
            for request in requests
        )
        or not nodes.ready.any()
    ):
        return False
    row = int(np.where(nodes.ready, nodes.capacity[:, Column.CPU], -1).argmax())
    if nodes.taint_sets[int(nodes.taints[row])]:
        return False
    capacity = nodes.capacity[row].tolist()
    return all(
        sum([request.each[column] * request.floor for request in requests]) <= capacity[column]
        for column in (Column.CPU, Column.MEMORY, Column.STORAGE)
    )


def _no_node_could(nodes: NodeColumns, request: TaskRequest, found: Sequence[Filter]) -> Explanation | None:
    """Return why no ready node could hold the task even if it were empty; None: one could."""
    mask = np.ones(len(nodes), dtype=np.bool_)
    refused: list[tuple[str, int]] = []
    for name, passes in found:
        refused.append((name, int(np.count_nonzero(mask & ~passes))))
        mask &= passes
        if not mask.any():
            counts = tuple([Refused(n, count) for n, count in refused if count])
            code, message = _filter_reason(nodes, request, name)
            return Explanation(code=code, message=message, refused=counts)
    return _too_small(nodes, request, mask)


def _filter_reason(nodes: NodeColumns, request: TaskRequest, name: str) -> tuple[WaitReason, str]:
    constraints = request.constraints
    labels = f"the labels {', '.join(f'{key}={value}' for key, value in constraints.selector)}"
    if name in (CLOSED, NOT_READY):
        return WaitReason.NO_NODE, _no_ready_node(nodes)
    if name == "without the labels":
        return WaitReason.NODE_SELECTOR, f"no ready node has {labels}"
    if name == "of another GPU model":
        both = f"{constraints.gpu_model} and {labels}" if constraints.selector else constraints.gpu_model
        return WaitReason.GPU_MODEL, f"no ready node has GPUs of model {both}"
    unmet = [term for term in constraints.affinity if not term.weight and not _is_met(nodes, term)]
    if name == NO_AFFINITY and unmet:
        return WaitReason.CONSTRAINTS, f"no ready node {_affinity_text(unmet[0])}"
    return WaitReason.CONSTRAINTS, f"every ready node that fits otherwise is {name}"


def _no_ready_node(nodes: NodeColumns) -> str:
    closed = int(np.count_nonzero(nodes.closed))
    known = f"{len(nodes)} registered" + (f", {closed} {CLOSED}" if closed else "")
    return f"no node is ready ({known})" if len(nodes) else "no node has joined yet"


def _is_met(nodes: NodeColumns, term: Affinity) -> bool:
    return bool((nodes.ready & nodes.labels.meeting(term, len(nodes))).any())


def _affinity_text(term: Affinity) -> str:
    if term.op is LabelOp.EXISTS:  # such as that of a runtime, which no user wrote as an affinity
        return f"has the label {term.label}"
    return f"meets its affinity: {term.label} {term.op.name.lower()} {', '.join(term.values)}".rstrip()


def _too_small(nodes: NodeColumns, request: TaskRequest, mask: BoolArray) -> Explanation | None:
    capacity = nodes.capacity[mask]
    wanted = [(name, column, request.each[column]) for column, name in enumerate(BUILT_IN)]
    wanted += [(name, nodes.custom.get(name, -1), amount) for name, amount in request.custom]
    for name, column, each in wanted:
        largest = int(capacity[:, column].max()) if column >= 0 else 0
        if each > largest:
            has = amount_text(name, largest, bare=True)
            message = f"asks for {amount_text(name, each)} on one node; the largest has {has}"
            return Explanation(code=WaitReason.NODE_TOO_SMALL, message=message)
    fits = np.logical_and.reduce([capacity[:, column] >= each for _, column, each in wanted])
    if not fits.any():
        all_of = ", ".join(amount_text(name, each) for name, _, each in wanted if each)
        return Explanation(code=WaitReason.NODE_TOO_SMALL, message=f"no node has all of {all_of}")
    return None


def _insufficient(wanted: tuple[int, ...], there: Sequence[int], where: str) -> Explanation | None:
    for name, want, have in zip(BUILT_IN, wanted, there, strict=False):
        if want > have:
            number = amount_text(name, int(have), bare=True)
            verb = where if number != "1" else where.replace("are", "is", 1)
            message = f"needs {amount_text(name, int(want))} in all; {number} {verb}"
            return Explanation(code=WaitReason.INSUFFICIENT, message=message)
    return None


def _too_few_slots(
    nodes: NodeColumns, requests: tuple[TaskRequest, ...], request: TaskRequest, mask: BoolArray
) -> Explanation | None:
    slots: IntArray = np.where(mask, request.floor, 0)
    for column, amount in enumerate(request.each):
        if amount and not (column == Column.GPU and request.gpu_share):
            np.minimum(slots, nodes.capacity[:, column] // amount, out=slots)
    fit = int(slots.sum())
    if fit >= request.floor:
        return None
    message = f"{fit} of {request.floor} tasks{_group_suffix(requests, request)} would fit if the cluster were empty"
    return Explanation(code=WaitReason.FRAGMENTED, message=message)


def _refusals_text(refused: tuple[Refused, ...], nodes: int) -> str:
    """Return a text such as "of 4 nodes 3 are short of CPU, 1 is not ready"."""
    said = [f"{count} {'is' if count == 1 else 'are'} {name}" for name, count in refused]
    return f"of {nodes} nodes {', '.join(said) or 'all can take some'}"


def _group_suffix(requests: tuple[TaskRequest, ...], request: TaskRequest) -> str:
    return f" of group {request.group}" if len(requests) > 1 else ""


def _in_tasks_or_gpus(request: TaskRequest, tasks: int) -> str:
    if request.each[Column.GPU]:
        return amount_text("gpu", tasks * request.each[Column.GPU])
    return _tasks_text(tasks)


def _tasks_text(count: int) -> str:
    return f"{count} {'task' if count == 1 else 'tasks'}"
