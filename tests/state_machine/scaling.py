"""Random commands in which each job ends with one task, and the others come and go and are scaled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from gosched.core.commands.command import Command
from gosched.core.commands.jobs import Action, ControlJob, SubmitJob
from gosched.core.state.cluster_state import ClusterState
from tests.state_machine import chaos


def commands(r: Random, state: ClusterState, count: int) -> Iterator[Command]:
    for command in chaos.commands(r, state, count):
        yield replace(command, body=submit(r, command.body)) if isinstance(command.body, SubmitJob) else command
        elastic = [job for job in state.jobs.values() if job.active]
        if elastic and r.random() < 0.1:
            job = r.choice(elastic)
            tasks = r.choice((job.spec.gang.min_tasks, job.spec.task_count, r.randint(0, 6)))
            yield Command(body=ControlJob(job_id=job.id, action=Action.SCALE, tasks=tasks), at_ms=state.clock_ms + 1)


def submit(r: Random, body: SubmitJob) -> SubmitJob:
    first = replace(body.spec.groups[0], count=1, min_count=0)
    groups = (first, replace(first, name="workers", count=4, min_count=1))
    gang = replace(body.spec.gang, min_tasks=2, ends_with=first.name, initial_tasks=r.choice((2, 3, 5)))
    return replace(body, spec=replace(body.spec, groups=groups, gang=gang))
