"""What a bug of the planner may be about, and views without it.

A cycle that raises is not repaired half-way: it is planned again without what it stumbled over. Here is what can be
left out, and what the code had at hand when it raised.

Invariant: what is left out costs nobody else anything. A running job that is left out keeps its place, a window its
nodes, and the jobs of a queue or tenant whose limits are not known wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from enum import StrEnum
from types import TracebackType
from typing import NamedTuple

from gosched.core.commands.plans import GangPlacement
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation
from gosched.core.records.tenant import Account, Quota
from gosched.core.records.window import Window
from gosched.core.sharing import lineage
from gosched.scheduling.backfill.reserved_starts import ReservedStart
from gosched.scheduling.plugins.interface import Plugin
from gosched.scheduling.policy import Policy
from gosched.scheduling.snapshot.running_gangs import RunningGang
from gosched.scheduling.snapshot.task_requests import PendingGang
from gosched.scheduling.snapshot.view import View

Given = tuple[View, Policy]


class Kind(StrEnum):
    """What a planner works on, in the order in which kinds are suspected: what costs least to leave out comes first."""

    ACCOUNT = "account"
    REPAIR = "repair"
    RUNNING = "running job"
    RESERVATION = "reservation"
    WINDOW = "window"
    PLUGIN = "plugin"
    JOB = "job"
    QUOTA = "quota"
    QUEUE = "queue"


class Suspect(NamedTuple):
    """One thing that the planner may stumble over. `name`: a job's id, a window's or plugin's name, a queue's path, a
    tenant, or "queue/tenant" of an account."""

    kind: Kind
    name: str


#: Is told what a cycle stumbles over, and goes on without it, or raises.
Stumble = Callable[[Suspect, Exception], None]


def raised(suspect: Suspect, error: Exception) -> None:
    """Go on with nothing: the cycle raises."""
    raise error


def named(given: Given, kind: Kind) -> dict[str, object]:
    """Return all things of a kind by their names."""
    view, policy = given
    match kind:
        case Kind.ACCOUNT:
            return {f"{account.queue}/{account.tenant}": account for account in view.accounts}
        case Kind.REPAIR:
            return {repair.job_id: repair for repair in view.repairs}
        case Kind.RUNNING:
            return dict(view.holders)
        case Kind.RESERVATION:
            return dict(view.reservations)
        case Kind.WINDOW:
            return {window.name: window for window in view.windows}
        case Kind.PLUGIN:
            return {plugin.name: plugin for plugin in policy.plugins}
        case Kind.JOB:
            return {gang.job_id: gang for gang in view.pending}
        case Kind.QUOTA:
            return dict(view.quotas)
        case Kind.QUEUE:
            return dict(view.queues)


def without(given: Given, suspects: Collection[Suspect], now_ms: int) -> Given:
    """Return the view and the policy without these."""
    if not suspects:
        return given
    view, policy = given
    out: dict[Kind, dict[str, None]] = {kind: {} for kind in Kind}
    for kind, name in suspects:
        out[kind][name] = None
    jobs, running, repairs = out[Kind.JOB], out[Kind.RUNNING], out[Kind.REPAIR] | out[Kind.RUNNING]
    queues, tenants, windows = out[Kind.QUEUE], out[Kind.QUOTA], out[Kind.WINDOW]

    def is_planned(gang: PendingGang) -> bool:
        return gang.job_id not in jobs and gang.tenant not in tenants and not _is_below(gang.queue, queues)

    view = replace(
        view,
        pending=tuple([gang for gang in view.pending if is_planned(gang)]),
        repairs=tuple([repair for repair in view.repairs if repair.job_id not in repairs]),
        holders={job_id: gang for job_id, gang in view.holders.items() if job_id not in running},
        fences=tuple([fence for fence in view.fences if fence.job_id not in running]),
        reservations={job: r for job, r in view.reservations.items() if job not in out[Kind.RESERVATION]},
        accounts=tuple(
            [
                account
                for account in view.accounts
                if f"{account.queue}/{account.tenant}" not in out[Kind.ACCOUNT] and not _is_below(account.queue, queues)
            ]
        ),
        quotas={tenant: quota for tenant, quota in view.quotas.items() if tenant not in tenants},
        queues={path: queue for path, queue in view.queues.items() if not _is_below(path, queues)},
    )
    if windows:
        view = _without_windows(view, windows, now_ms)
    plugins = tuple([plugin for plugin in policy.plugins if plugin.name not in out[Kind.PLUGIN]])
    return view, policy if len(plugins) == len(policy.plugins) else replace(policy, plugins=plugins)


def at_hand(error: BaseException) -> list[tuple[Suspect, ...]]:
    """Return what functions had in their variables when it was raised, the innermost one first; those without anything
    are left out."""
    found = []
    for trace in reversed([*_traces(error.__traceback__)]):
        own = [suspect for value in [*trace.tb_frame.f_locals.values()] if (suspect := _suspect(value)) is not None]
        found += [tuple(own)] if own else []
    return found


def _traces(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _suspect(value: object) -> Suspect | None:
    match value:
        case PendingGang() | GangPlacement():
            return Suspect(Kind.JOB, value.job_id)
        case RunningGang():
            return Suspect(Kind.RUNNING, value.job_id)
        case Reservation():
            return Suspect(Kind.RESERVATION, value.job_id)
        case ReservedStart():
            return Suspect(Kind.RESERVATION, value.gang.job_id)
        case Window():
            return Suspect(Kind.WINDOW, value.name)
        case Queue():
            return Suspect(Kind.QUEUE, value.path)
        case Quota():
            return Suspect(Kind.QUOTA, value.tenant)
        case Account():
            return Suspect(Kind.ACCOUNT, f"{value.queue}/{value.tenant}")
        case Plugin():
            return Suspect(Kind.PLUGIN, value.name)
        case _:
            return None


def _is_below(queue: str, paths: Collection[str]) -> bool:
    return bool(paths) and any(path in paths for path in lineage(queue))


def _without_windows(view: View, names: Collection[str], now_ms: int) -> View:
    """Return the view without these windows. One that has begun keeps its nodes: they take nothing."""
    nodes = view.nodes.copy()
    for window in view.windows:
        if window.name in names and window.start_ms <= now_ms:
            nodes.ready[nodes.rows(window.nodes)] = False
    return replace(view, nodes=nodes, windows=tuple([w for w in view.windows if w.name not in names]))
