"""The jobs of an array or a schedule whose logs are asked for by its name. Pure."""

from __future__ import annotations

from gosched.core.limits import KEPT_ELEMENTS
from gosched.core.records.job import Job
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.kept_jobs import KeptGroup, KeptKind

MAX_RUNS = 1000  # of a schedule: the newest ones


def children_of(state: ClusterState, parent: Job) -> list[Job]:
    """Return the children that are not forgotten, in their order."""
    if parent.spec.cron:
        numbers = range(max(1, parent.children.made - MAX_RUNS + 1), parent.children.made + 1)
        ids = [state.names.id_of(parent.spec.tenant, f"{parent.spec.name}.{number}") for number in numbers]
    else:
        ended = [KeptGroup(kind, parent.id) for kind in (KeptKind.SUCCEEDED, KeptKind.FAILED)]
        ids = [*state.relatives.children.get(parent.id, ())]
        ids += [job_id for group in ended for job_id in state.kept.newest(group, KEPT_ELEMENTS)]
    found = [state.jobs[job_id] for job_id in ids if job_id in state.jobs]
    return sorted([job for job in found if job.parent == parent.id], key=lambda job: job.element)


def none_started(parent: Job, asked: str) -> str:
    """Return why there is nothing to read of any child. `asked`: the attempt; empty: the newest."""
    name = parent.spec.name
    if not parent.children.made:
        kind = "run" if parent.spec.cron else "element"
        return f"job {name} has no logs: it is {parent.shown_state.name} and has had no {kind} yet"
    kind = "runs" if parent.spec.cron else "elements"
    if asked:
        return f"none of the {kind} of job {name} that are not forgotten has had {asked}"
    return f"job {name} has no logs: none of its {kind} that are not forgotten has started"
