"""A plan's commands: bounded, whole gangs, and as large as the codec says at most."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gosched.core.commands.plans import CommitPlan, GangPlacement
from gosched.core.records.allocation import TaskPlacement
from gosched.scheduling import Plan
from gosched.scheduling.plan import MAX_COMMAND_BYTES, encoded_bytes, may_encode
from gosched.scheduling.snapshot.task_requests import pending_gang
from gosched.wire.batch import encode_batch, encode_command
from tests.scheduling.support.cluster import group, job, node, plan_of, where, why

ENTRY_BYTES = 512 * 1024


def gang(name: str, tasks: int, node_id: str = "node-0123456789ab", gpus: tuple[int, ...] = ()) -> GangPlacement:
    placed = tuple(TaskPlacement(rank=r, node_id=node_id, gpus=gpus) for r in range(tasks))
    return GangPlacement(job_id=name, attempt=1, tasks=placed)


def test_ten_thousand_placements_are_one_entry_or_two() -> None:
    plan = Plan(revision=9, gangs=[gang(f"job-{i:012}", 1) for i in range(10_000)])
    commands = plan.commands(epoch=3, at_ms=5)
    assert 1 <= len(commands) <= 2
    assert {(c.epoch, c.at_ms, c.body.revision) for c in commands if isinstance(c.body, CommitPlan)} == {(3, 5, 9)}
    for command in commands:
        assert len(encode_batch("a" * 36, 2**60, [encode_command(command)])) <= ENTRY_BYTES


def test_chunks_hold_all_gangs_in_order_and_none_is_split() -> None:
    gangs = [gang(f"j{i}", 1 + i % 7) for i in range(100)]
    bodies = [c.body for c in Plan(revision=1, gangs=gangs).commands(1, 1, max_bytes=1000)]
    assert [g for body in bodies if isinstance(body, CommitPlan) for g in body.gangs] == gangs
    assert len(bodies) > 10


def test_an_empty_plan_has_no_command() -> None:
    assert Plan(revision=1).commands(1, 1) == []


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    tasks=st.integers(1, 40),
    rank=st.sampled_from([0, 127, 128, 16_384, 19_999]),
    node_id=st.text(min_size=1, max_size=140),
    job_id=st.text(min_size=1, max_size=140),
    gpus=st.lists(st.integers(0, 300), max_size=70).map(tuple),
)
def test_the_estimate_of_a_gang_is_never_below_the_codecs(
    tasks: int, rank: int, node_id: str, job_id: str, gpus: tuple[int, ...]
) -> None:
    placed = tuple(TaskPlacement(rank=rank + r, node_id=node_id, gpus=gpus) for r in range(tasks))
    one = GangPlacement(job_id=job_id, attempt=2**31 - 1, tasks=placed)
    command = Plan(revision=1, gangs=[one]).commands(1, 1)[0]
    empty = Plan(revision=1, gangs=[]).commands(1, 1)
    assert empty == []
    assert encode_command(command).commit_plan.gangs[0].ByteSize() + 5 <= encoded_bytes(one)


def test_a_gang_that_no_entry_could_hold_is_refused_with_the_way_out() -> None:
    large = job(1, group(count=6_000, cpu=0))
    names = "n" * 100
    plan = plan_of([node(names)], [large, job(2, group())])
    assert not may_encode(pending_gang(large), lambda: len(names))
    assert where(plan) == {"j2": names}
    assert why(plan, "j1") == "has too many tasks for one log entry of 508 KiB; split it into several jobs"


def test_the_largest_job_fits_in_one_entry_with_ids_of_usual_length() -> None:
    assert encoded_bytes(gang("j" * 36, 20_000)) <= MAX_COMMAND_BYTES
