"""What a state holds in bytes, and that equal parts of specs are one record, in memory and in snapshots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.cluster import PassTime, SetFeatureLevel, SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.features import FeatureLevel
from gosched.core.invariants.check_state import check
from gosched.core.outcome import Answer, Answered
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.fence import Fence
from gosched.core.records.job import Job
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.task import Task
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.isolation import Isolation, Volume
from gosched.core.spec.placement_rules import Affinity, LabelOp
from gosched.core.state import footprint as footprint_module
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.footprint import Footprint
from gosched.core.state.record_bytes import (
    answer_bytes,
    answered_bytes,
    content_bytes,
    fence_bytes,
    job_bytes,
    reservation_bytes,
    task_bytes,
)
from gosched.core.state.spec_parts import parts_of
from gosched.replication.snapshots.snapshot import Snapshot, decode, encode, restored
from gosched.state_machine import apply
from gosched.wire.batch import decode_batch, encode_batch, encode_command
from tests.state_machine.cluster import Cluster, group, spec

ENVIRONMENT = tuple((f"V{number:03}", "x" * 1000) for number in range(250))
ENDS = (b"p", 1, 1), (b"l", 2, 1)


def as_file(state: ClusterState) -> bytes:
    return b"".join(encode(Snapshot(state.freeze(), *ENDS)))


def from_log(level: int, *bodies: Body) -> ClusterState:
    """Each command is decoded from an entry of its own, so no two share a record."""
    state = ClusterState(feature_level=level)
    for body in (SetQueues(queues=(Queue(path="default"),)), *bodies):
        for command in decode_batch(encode_batch("p", 1, [encode_command(Command(body=body))])).commands:
            apply(state, command)
    assert check(state) == []
    return state


def array_of_400(level: int) -> ClusterState:
    wanted = spec("a", group("w", env=ENVIRONMENT), array=Array(last=399, step=1, parallelism=400))
    state = from_log(level, SubmitJob(job_id="a", spec=wanted))
    while state.follow_ups:
        apply(state, Command(body=PassTime()))
    assert len(state.jobs) == 401
    return state


def copies(state: ClusterState) -> int:
    """Of the environment."""
    return len({id(group.env) for job in state.jobs.values() for group in job.spec.groups})


def test_the_children_of_an_array_share_its_environment_in_the_state_in_a_snapshot_and_after_a_restore() -> None:
    state = array_of_400(FeatureLevel.BOUNDED)
    assert copies(state) == 1
    data = as_file(state)
    assert len(data) < 2 * 250_000
    again = restored(decode(data))
    assert copies(again) == 1
    assert again.digest() == state.digest()
    assert again.jobs == state.jobs
    assert as_file(again) == data
    assert 250_000 < state.footprint.total < 3 * 250_000


def test_a_snapshot_of_the_level_before_has_each_spec_whole_and_is_shared_in_memory_all_the_same() -> None:
    state = array_of_400(FeatureLevel.FIRST)
    data = as_file(state)
    assert len(data) > 401 * 250_000
    snapshot = decode(data)
    assert len({id(job.spec.groups[0]) for job in snapshot.state.jobs.values()}) == 1
    again = restored(snapshot)
    assert copies(again) == 1
    assert again.digest() == state.digest()


def test_equal_parts_of_specs_that_came_in_different_entries_are_one_record() -> None:
    after = (Dependency(job="first", condition=Condition.ANY),)
    labels = (("team", "a"),)
    jobs = [SubmitJob(job_id=name, spec=spec(name, labels=labels, after=after)) for name in ("b", "c")]
    state = from_log(FeatureLevel.BOUNDED, SubmitJob(job_id="first", spec=spec("first")), *jobs)
    for again in (state, restored(decode(as_file(state)))):
        b, c = again.jobs["b"].spec, again.jobs["c"].spec
        assert b.groups[0] is c.groups[0] is again.jobs["first"].spec.groups[0]
        assert b.labels is c.labels
        assert b.after is c.after
        assert len([*parts_of(b)]) == 3
        assert again.digest() == state.digest()


def test_a_part_is_charged_once_to_each_tenant_and_released_with_its_last_job() -> None:
    c = Cluster()
    empty = c.state.footprint.live
    wanted = group(env=ENVIRONMENT)
    c.submit(spec("one", wanted))
    first = c.state.footprint.live
    c.submit(spec("two", wanted))
    assert first - empty > 250_000
    assert c.state.footprint.live - first < 2_000
    c.submit(spec("three", wanted, tenant="other"))
    assert c.state.footprint.live_of("other") > 250_000
    for name in ("one", "two", "three"):
        c.cancel(name)
    assert c.state.footprint.live == empty == 0
    assert 2 * 250_000 < c.state.footprint.kept < 3 * 250_000
    for name in ("id-one", "id-two", "id-three"):
        c.state.drop_job(name)
    assert c.state.footprint.kept == 0


def test_what_a_job_needs_is_what_it_is_charged_for() -> None:
    after = (Dependency(job="id-one", condition=Condition.ANY),)
    c = Cluster()
    for wanted in (
        spec("one", group("a", 3, env=ENVIRONMENT), group("b", 12)),
        spec("two", group("a", 3, env=ENVIRONMENT), group("b", 12), labels=(("k", "v"),)),
        spec("three", group("a"), after=after),
        spec("four", group("a"), cron="* * * * *", timezone="UTC"),
    ):
        before = c.state.footprint.live
        needed = c.state.footprint.needed(f"id-{wanted.name}", wanted)
        c.accept(SubmitJob(job_id=f"id-{wanted.name}", spec=wanted, next_run_at_ms=60_000 if wanted.cron else 0))
        charged = c.state.footprint.live - before
        assert charged <= needed <= charged + 100, wanted.name


def test_the_formulae_are_those_of_the_feature_level() -> None:
    """Whoever changes a figure here makes masters of two releases refuse different commands: make a new level."""
    wanted = spec(
        "train",
        group(
            "w",
            2,
            gpus=1,
            env=(("KEY", "väl"),),
            affinity=(Affinity(label="zone", op=LabelOp.IN, values=("a", "b")),),
            isolation=Isolation(user="u", volumes=(Volume(host="/a", to="/b"),)),
        ),
        labels=(("team", "a"),),
    )
    job = Job(id="j", spec=wanted, sequence=1, submitted_at_ms=1, reason="R", detail="dé", evicted_for=("x", "y"))
    task = Task(id="j/w/0", job_id="j", group="w", index=0, rank=0, reason="R", detail="d", gpus=(0, 1), cpus="0-3")
    placements = (TaskPlacement(rank=0, node_id="n1"), TaskPlacement(rank=1, node_id="n2", gpus=(3,), cpus="4"))
    shares = (Share(group="w", node_id="n1", count=2),)
    assert [content_bytes(part) for part in parts_of(wanted)] == [104, 9]
    assert job_bytes(job) == 287
    assert task_bytes(task) == 289
    assert answer_bytes(Answer(client_id="c", request_id="r", detail="d", subject="j")) == 20
    assert answered_bytes(Answered(key="k", user="u", until_ms=1, detail="d", subject="j")) == 82
    assert fence_bytes(Fence(job_id="j", attempt=1, tasks=placements, made_at_ms=1)) == 297
    reservation = Reservation(job_id="j", attempt=1, start_ms=1, shares=shares, made_at_ms=1)
    assert reservation_bytes(reservation) == 275


def test_a_part_is_digested_once_for_all_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    state = array_of_400(FeatureLevel.BOUNDED)
    digested: list[object] = []
    real = footprint_module.record_digest

    def noted(table: str, key: str, record: object) -> int:
        digested.append(record)
        return real(table, key, record)

    monkeypatch.setattr(footprint_module, "record_digest", noted)
    state.digest()
    assert len(digested) == 2, "the group and the array"


def test_the_digest_after_the_level_was_raised_is_that_of_a_restored_state() -> None:
    state = from_log(FeatureLevel.FIRST, SubmitJob(job_id="a", spec=spec("a")))
    before = state.digest()
    apply(state, Command(body=SetFeatureLevel(level=FeatureLevel.BOUNDED, cluster_id="c")))
    assert state.digest() == restored(decode(as_file(state))).digest() != before


def test_the_check_sees_bytes_that_are_not_those_of_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    c = Cluster()
    c.node(cpus=8)
    c.submit(spec("a"))
    c.state.footprint.charge("id-a", 1)
    assert any("jobs take" in problem for problem in check(c.state))
    monkeypatch.setattr(Footprint, "_canonical", lambda self, value: value)
    twice = ClusterState()
    for name in "ab":
        twice.put_job(Job(id=name, spec=replace(spec(name), groups=(group(),)), sequence=1, submitted_at_ms=0))
    assert any("has a copy" in problem for problem in check(twice))
