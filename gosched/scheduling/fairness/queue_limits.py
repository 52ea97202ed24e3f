"""What queues and tenants may still take: ceilings, quotas, and how many jobs may run at once.

Invariant: the arithmetic is that of the state machine, from `core.sharing`, so it accepts what passed here.
"""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.amounts import amount_text
from gosched.core.commands.plans import GangPlacement
from gosched.core.reasons import WaitReason
from gosched.core.sharing import MODEL_PREFIX, Amounts, add_to, beyond, ceilings, charge_of, guarantees, lineage
from gosched.scheduling.fairness.limit import Limit, limit_of_queue, limit_of_tenant
from gosched.scheduling.plugins.calls import Plugins
from gosched.scheduling.snapshot.columns import Column
from gosched.scheduling.snapshot.task_requests import PendingGang, charge_of_one
from gosched.scheduling.snapshot.view import GPU_MODEL, NodeColumns, View


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the limits leave to a gang."""

    #: For each group how many of its tasks may start, the floor at least; empty: all of them.
    most: tuple[int, ...] = ()
    #: GPU models that groups without a model of their own may not use.
    banned: tuple[str, ...] = ()


UNLIMITED = Allowance()


class QueueLimits:
    """The limits of all queues and tenants in one cycle."""

    def __init__(self, view: View) -> None:
        #: What jobs held when the cycle began, by queue path of all levels.
        self.used: dict[str, Amounts] = {}
        #: The same by (queue, tenant).
        self.used_by: dict[tuple[str, str], Amounts] = {}
        tenants: dict[str, Amounts] = {}
        charges = [(queue, tenant, charge_of(held, model)) for (queue, tenant, model), held in view.charges.items()]
        charges += [(fence.queue, fence.tenant, fence.added()) for fence in view.fences]
        for queue, tenant, charge in charges:
            for path in lineage(queue):
                add_to(self.used.setdefault(path, {}), charge)
            add_to(self.used_by.setdefault((queue, tenant), {}), charge)
            add_to(tenants.setdefault(tenant, {}), charge)
        self.ceilings = ceilings(view.queues, view.total)
        self.guarantees = guarantees(view.queues, view.total)
        self._queues = {path: self._of_queue(view, path) for path in view.queues}
        self._tenants = {name: self._of_tenant(view, name, tenants.get(name, {})) for name in view.quotas}
        for fence in view.fences:
            if fence.starts:
                self._start(fence.queue, fence.tenant)
        self._has_windows = bool(view.windows)
        self._limits_of: dict[tuple[str, str], list[Limit]] = {}
        all_limits = [*self._queues.values(), *self._tenants.values()]
        self._any = any(limit.ceiling or limit.jobs for limit in all_limits)

    def limits_of(self, gang: PendingGang) -> list[Limit]:
        """Return the limits that hold for the gang, that of the topmost queue first."""
        if not self._any:
            return []
        payer = (gang.queue, gang.tenant)
        found = self._limits_of.get(payer)
        if found is None:
            chain = [self._queues[path] for path in lineage(gang.queue) if path in self._queues]
            if gang.tenant in self._tenants:
                chain.append(self._tenants[gang.tenant])
            found = self._limits_of[payer] = [limit for limit in chain if limit.ceiling or limit.jobs]
        return found

    def shape(self, gang: PendingGang, plugins: Plugins) -> object:
        """Return a key: gangs with equal keys do not fit for the same reason, as long as capacity only shrinks."""
        shape = plugins.shape(gang)
        if not self.limits_of(gang):
            return shape
        # Tenants without a quota are alike, unless a window admits some of them.
        tenant = gang.tenant if self._has_windows or gang.tenant in self._tenants else ""
        return gang.queue, tenant, shape

    def why_not(self, gang: PendingGang) -> tuple[WaitReason, str] | None:
        """Return a code and a line about the first limit that holds the gang back, or rather one that always will;
        None if none does."""
        limits = self.limits_of(gang)
        held = self._held_now(gang, limits)
        if held is None:
            return None
        never = [(limit.code, line) for limit in limits if (line := limit.obstacle(dict(gang.charge)))]
        return never[0] if never else held

    def _held_now(self, gang: PendingGang, limits: list[Limit]) -> tuple[WaitReason, str] | None:
        for limit in limits:
            if limit.jobs and not gang.joins and limit.running >= limit.jobs:
                return (
                    WaitReason.MAX_RUNNING_JOBS,
                    f"{limit.name} may run {limit.jobs} {_jobs(limit.jobs)} at once, and does",
                )
            charge = dict(gang.charge)
            over = beyond(limit.used, charge, limit.ceiling)
            if over:
                ceiling, used = limit.ceiling[over], limit.used.get(over, 0)
                needs = amount_text(over, charge[over], bare=True)
                amounts = f"limit of {amount_text(over, ceiling)}, {amount_text(over, used, bare=True)} used"
                return limit.code, f"{limit.name}: {amounts}, the job needs {needs}"
        return None

    def allowance(self, gang: PendingGang) -> Allowance:
        """Return what the limits leave to a gang whose floors no limit holds back."""
        limits = self.limits_of(gang)
        if not limits:
            return UNLIMITED
        models = dict.fromkeys(name for limit in limits for name in limit.ceiling if name.startswith(MODEL_PREFIX))
        banned = [name for name in models if self._beyond_floor(gang, limits, name)]
        most = self._most(gang, limits, [name for name in models if name not in banned])
        return Allowance(most, tuple(sorted([name.removeprefix(MODEL_PREFIX) for name in banned])))

    def _beyond_floor(self, gang: PendingGang, limits: list[Limit], model: str) -> bool:
        """Return whether the floors would exceed a limit if all of their GPUs were of the model."""
        wanted = sum([request.each[Column.GPU] * request.floor for request in gang.requests]) or max(
            [request.each[Column.GPU] for request in gang.requests]
        )
        return bool(wanted) and any(
            limit.used.get(model, 0) + wanted > limit.ceiling.get(model, 1 << 62) for limit in limits
        )

    def _most(self, gang: PendingGang, limits: list[Limit], models: list[str]) -> tuple[int, ...]:
        """Return for each group how many tasks may start. GPUs without a named model count as each of the `models`,
        because they may turn out to be of any."""
        charges = [charge_of_one(request) for request in gang.requests]
        taken: Amounts = {}
        for request, each in zip(gang.requests, charges, strict=True):
            if request.each[Column.GPU] and not request.constraints.gpu_model:
                each.update(dict.fromkeys(models, request.each[Column.GPU]))
            add_to(taken, each, request.floor)
        found = []
        for request, each in zip(gang.requests, charges, strict=True):
            extra = request.count - request.floor
            for limit in limits:
                for name in each.keys() & limit.ceiling.keys():
                    spare = limit.ceiling[name] - limit.used.get(name, 0) - taken.get(name, 0)
                    extra = min(extra, max(spare, 0) // each[name])
            add_to(taken, each, extra)
            found.append(request.floor + extra)
        return tuple(found)

    def may_restart(
        self, gang: PendingGang, placement: GangPlacement, held: Amounts, nodes: NodeColumns, *, runs: bool
    ) -> bool:
        """Return whether no limit is against a gang that gives back what it holds and starts again. `runs`: it counts
        as a job that runs."""
        limits = self.limits_of(gang)
        charge = _whole_charge(limits, gang, placement, nodes)
        for limit in limits:
            left = dict(limit.used)
            add_to(left, held, -1)
            running = limit.running + (not runs)
            if (limit.jobs and running > limit.jobs) or beyond(left, charge, limit.ceiling):
                return False
        return True

    def take(self, gang: PendingGang, placement: GangPlacement, nodes: NodeColumns) -> None:
        """Count a placement of this cycle."""
        limits = self.limits_of(gang)
        if not limits:
            return
        charge = _whole_charge(limits, gang, placement, nodes)
        for limit in limits:
            add_to(limit.used, charge)
            limit.running += not gang.joins

    def _start(self, queue: str, tenant: str) -> None:
        for path in lineage(queue):
            if path in self._queues:
                self._queues[path].running += 1
        if tenant in self._tenants:
            self._tenants[tenant].running += 1

    def _of_queue(self, view: View, path: str) -> Limit:
        inside = path + "."
        running = [n for (queue, _), n in view.running.items() if queue == path or queue.startswith(inside)]
        used, ceiling = dict(self.used.get(path, {})), self.ceilings[path]
        return limit_of_queue(view.queues[path], ceiling, used=used, running=sum(running))

    def _of_tenant(self, view: View, tenant: str, used: Amounts) -> Limit:
        running = sum([n for (_, name), n in view.running.items() if name == tenant])
        return limit_of_tenant(view.quotas[tenant], used=used, running=running)


def placed_charge(gang: PendingGang, placement: GangPlacement) -> Amounts:
    """Return what the placed tasks hold; GPUs count as those of a model only where the gang names it."""
    if len(placement.tasks) == gang.tasks:
        return dict(gang.charge)
    charge: Amounts = {}
    for request in gang.requests:
        ranks = frozenset(request.ranks)
        add_to(charge, charge_of_one(request), sum([task.rank in ranks for task in placement.tasks]))
    return charge


def _whole_charge(limits: list[Limit], gang: PendingGang, placement: GangPlacement, nodes: NodeColumns) -> Amounts:
    """Return what the placed tasks hold, with the models of their GPUs where a limit is on one."""
    charge = placed_charge(gang, placement)
    if any(name.startswith(MODEL_PREFIX) for limit in limits for name in limit.ceiling):
        _add_models(charge, gang, placement, nodes)
    return charge


def _add_models(charge: Amounts, gang: PendingGang, placement: GangPlacement, nodes: NodeColumns) -> None:
    """Count GPUs of groups that name no model as those of the nodes' models."""
    unnamed = {
        rank: request.each[Column.GPU]
        for request in gang.requests
        if not request.constraints.gpu_model
        for rank in request.ranks
    }
    models = nodes.label(GPU_MODEL)
    for task in placement.tasks:
        if unnamed.get(task.rank):
            model = nodes.labels.value(int(models[nodes.row(task.node_id)]))
            add_to(charge, {MODEL_PREFIX + model: unnamed[task.rank]})


def _jobs(count: int) -> str:
    return "job" if count == 1 else "jobs"
