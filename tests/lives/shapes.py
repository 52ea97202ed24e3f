"""Jobs of every shape at random: elastic ones, groups, arrays, schedules, dependencies, deadlines, checkpoints."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from gosched.core.resources import MILLI, Resources
from gosched.core.spec.array import Array, Axis
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import JobSpec, OnDisconnect, OnMiss, Overlap
from gosched.core.spec.placement_rules import (
    Affinity,
    AntiAffinity,
    LabelOp,
    Mode,
    SpreadRule,
    Strategy,
    Toleration,
    TopologyRule,
)
from gosched.core.spec.policies import GangPolicy, MemberFailure, Preemption, PreemptionPolicy, RetryCause, RetryPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState

SECOND_MS, MINUTE_MS = 1000, 60_000
LEVELS = ("zone", "rack")
QUEUES = ("prod", "dev.a", "dev.b", "free")
TENANTS = ("x", "y", "z")
_ALL_CAUSES = (RetryCause.NODE_LOST, RetryCause.PREEMPTED, RetryCause.FAILED)


def job(r: Random, state: ClusterState, number: int) -> JobSpec:
    """Return a spec that the state machine mostly accepts; names are used again now and then."""
    groups = tuple([_group(r, state, name) for name in ("worker", "server", "extra")[: r.choice((1, 1, 1, 2, 2, 3))]])
    spec = JobSpec(
        name=f"job-{number if r.random() < 0.9 else r.randrange(20)}",
        queue=r.choice((*QUEUES, "prod", "free")),
        tenant=r.choice(TENANTS),
        priority=r.choice((0, 0, 5, 5, 9)),
        gang=_gang(r, groups),
        groups=groups,
        retry=_retry(r),
        on_disconnect=r.choice((OnDisconnect.KEEP, OnDisconnect.STOP)),
        stop_grace_ms=r.choice((0, 10 * SECOND_MS, 10 * MINUTE_MS)),
        preemption=_preemption(r),
        hold=r.random() < 0.05,
        timeout_ms=r.choice((0, 0, 5 * MINUTE_MS, 40 * MINUTE_MS)),
        after=_after(r, state),
    )
    if r.random() < 0.5:
        spec = replace(spec, estimate_ms=r.choice((MINUTE_MS, 5 * MINUTE_MS)))
    if r.random() < 0.2:
        spec = replace(spec, deadline_in_ms=r.choice((10, 30, 120)) * MINUTE_MS, on_miss=OnMiss.CONTINUE)
    if r.random() < 0.1:
        spec = replace(spec, begin_in_ms=r.choice((30 * SECOND_MS, 5 * MINUTE_MS)))
    if spec.gang.initial_tasks == 0 and r.random() < 0.15:
        spec = replace(spec, array=_array(r))
    if r.random() < 0.05:
        spec = replace(spec, cron="*/5 * * * *", timezone="UTC", overlap=r.choice([*Overlap]), begin_in_ms=0)
    return spec


def _group(r: Random, state: ClusterState, name: str) -> TaskGroup:
    count = r.choice((1, 1, 2, 2, 3, 4, 6))
    gpus = r.choice((0, 0, 0, 0, 300, 500, MILLI, 2 * MILLI))
    return TaskGroup(
        name=name,
        count=count,
        min_count=r.choice((0, 0, r.randint(1, count))),
        command=("true",),
        resources=Resources(
            cpu_millis=r.choice((500, 1000, 1000, 2000)),
            memory_bytes=r.choice((0, 1 << 30)),
            gpu_millis=gpus,
            custom=r.choice(((), (), (), (), (("license", 1),))),
        ),
        gpu_model=r.choice(("", "", "h100")) if gpus else "",
        node_selector=r.choice((*[()] * 9, (("pool", "a"),))),
        strategy=r.choice([*Strategy, Strategy.UNSPECIFIED, Strategy.UNSPECIFIED]),
        topology=_topology(r),
        spread=_spread(r),
        affinity=_affinity(r),
        anti_affinity=_anti_affinity(r, state),
        tolerations=r.choice(((), (), (), (Toleration(),))),
    )


def _topology(r: Random) -> tuple[TopologyRule, ...]:
    if r.random() < 0.75:
        return ()
    return (TopologyRule(level=r.choice((*LEVELS, "node")), mode=r.choice((Mode.REQUIRED, Mode.PREFERRED))),)


def _spread(r: Random) -> tuple[SpreadRule, ...]:
    if r.random() < 0.9:
        return ()
    mode = r.choice((Mode.REQUIRED, Mode.PREFERRED))
    return (SpreadRule(level=r.choice((*LEVELS, "node")), max_skew=r.choice((1, 2)), mode=mode),)


def _affinity(r: Random) -> tuple[Affinity, ...]:
    if r.random() < 0.85:
        return ()
    return (Affinity(label="zone", op=LabelOp.IN, values=("z1",), weight=r.choice((0, 50, -50))),)


def _anti_affinity(r: Random, state: ClusterState) -> tuple[AntiAffinity, ...]:
    if r.random() < 0.9:
        return ()
    names = [job.spec.name for job in state.jobs.values()]
    return (AntiAffinity(job=r.choice(("self", *names[-3:])), level=r.choice(("node", "rack"))),)


def _gang(r: Random, groups: tuple[TaskGroup, ...]) -> GangPolicy:
    least, most = sum(g.floor for g in groups), sum(g.count for g in groups)
    whole = [g.name for g in groups if g.floor == g.count]
    ends_with = r.choice(("", *whole)) if r.random() < 0.5 else ""
    policies = (*[MemberFailure.RESTART_GANG] * 3, MemberFailure.FAIL_JOB, *[MemberFailure.CONTINUE] * 2)
    policy = r.choice(policies)
    return GangPolicy(
        min_tasks=least,
        on_member_failure=policy,
        replace_after_ms=r.choice((0, 5 * MINUTE_MS)) if policy is MemberFailure.CONTINUE else 0,
        wait_ms=r.choice((0, 0, 0, 0, 60 * MINUTE_MS)),
        ends_with=ends_with,
        initial_tasks=r.randint(least, most) if ends_with and r.random() < 0.5 else 0,
    )


def _retry(r: Random) -> RetryPolicy:
    return RetryPolicy(
        max_restarts=r.choice((0, 1, 5, 50, 50, 50)),
        backoff_ms=r.choice((0, 0, 10 * SECOND_MS)),
        when=r.choice((*[_ALL_CAUSES] * 5, _ALL_CAUSES[:1], _ALL_CAUSES[:2], ())),
    )


def _preemption(r: Random) -> Preemption:
    return Preemption(
        policy=r.choice((PreemptionPolicy.LOWER_PRIORITY, PreemptionPolicy.LOWER_PRIORITY, PreemptionPolicy.NEVER)),
        preemptible=r.random() < 0.8,
        grace_ms=r.choice((0, 0, MINUTE_MS)),
        checkpoint_signal=r.choice((0, 0, 10)),
        min_runtime_ms=r.choice((0, 0, 0, 2 * MINUTE_MS)),
        cheap=r.random() < 0.2,
    )


def _after(r: Random, state: ClusterState) -> tuple[Dependency, ...]:
    if r.random() < 0.85 or not state.jobs:
        return ()
    others = r.sample([*state.jobs], min(len(state.jobs), r.choice((1, 1, 2))))
    conditions = (Condition.SUCCESS, Condition.FAILURE, Condition.ANY)
    return tuple([Dependency(job=other, condition=r.choice(conditions)) for other in others])


def _array(r: Random) -> Array:
    parallelism, failures = r.choice((0, 1, 3)), r.choice((-1, -1, 0, 2))
    if r.random() < 0.3:
        matrix = (Axis(name="LR", values=("1", "2")), Axis(name="SEED", values=("a", "b")))
        return Array(matrix=matrix, parallelism=parallelism, max_failures=failures)
    return Array(first=1, last=r.randint(1, 8), step=r.choice((1, 2)), parallelism=parallelism, max_failures=failures)
