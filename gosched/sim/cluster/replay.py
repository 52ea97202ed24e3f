"""A past cycle again: the view, the plan, its explanations, and whether it is the plan that was committed.

Invariant: the same state, policy, time and seed give the same bytes. A cycle that committed nothing is not in the log;
it is made again at the state's own clock.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from gosched.core.commands.command import Command
from gosched.core.commands.plans import CommitPlan
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.backups.offline import Past
from gosched.scheduling import Plan, Policy, ViewBuilder, schedule
from gosched.scheduling.rng_seed import seed_of
from gosched.wire.batch import encode_command

Json = dict[str, Any]


def replay(past: Past, policy: Policy) -> Json:
    """Return the cycle again. `committed`: whether a plan of this revision is in the log; `equal`: the same bytes, None
    without one."""
    state = past.state
    first = past.plans[0].body if past.plans else None
    now_ms, seed = state.clock_ms, seed_of(state.epoch, state.revision)
    if isinstance(first, CommitPlan) and first.planned_at_ms:
        now_ms, seed = first.planned_at_ms, first.seed
    plan = _plan(state, policy, now_ms, seed)
    commands = plan.commands(state.epoch, now_ms)
    return {
        "revision": state.revision,
        "epoch": state.epoch,
        "planned_at_ms": now_ms,
        "seed": seed,
        "committed": bool(past.plans),
        "equal": _bytes(commands) == _bytes(past.plans) if past.plans else None,
        "plans": [plain(command.body) for command in commands],
        "explanations": {job_id: plain(why) for job_id, why in plan.explanations.items()},
        "names": {gang.job_id: state.jobs[gang.job_id].spec.name for gang in plan.gangs if gang.job_id},
    }


def plain(record: object) -> object:
    """Return a record as JSON has it, with enums by their names."""
    if isinstance(record, Enum):
        return record.name
    if is_dataclass(record) and not isinstance(record, type):
        return {field.name: plain(getattr(record, field.name)) for field in fields(record)}
    if isinstance(record, tuple | list):
        return [plain(item) for item in record]
    return record


def _plan(state: ClusterState, policy: Policy, now_ms: int, seed: int) -> Plan:
    builder = ViewBuilder()
    builder.reset(state)
    return schedule(builder.view(state), policy, now_ms, seed)


def _bytes(commands: tuple[Command, ...] | list[Command]) -> list[bytes]:
    """Return the plans alone: when a command was sent is no part of what was planned."""
    return [encode_command(Command(body=c.body)).SerializeToString(deterministic=True) for c in commands]
