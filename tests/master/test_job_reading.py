"""ReadJobs: job files read by a master, under bounds; and by any master, since no state is needed for it."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from gosched.config import parse_job_file
from gosched.core.spec.job_spec import JobSpec
from gosched.master.base.errors import ApiError
from gosched.master.jobs import job_reading
from gosched.master.jobs.job_reading import read_jobs
from gosched.wire.codec import to_record
from gosched.wire.v1 import scheduler_pb2
from tests.master.harness import LIMIT_S, two_masters

TEXT = b"name: b\nrun: y\nafter: {a: success}\n---\nname: a\nrun: x\n"


def read(**asked: Any) -> scheduler_pb2.ReadJobsResponse:
    return asyncio.run(read_jobs(scheduler_pb2.ReadJobsRequest(source="f.yaml", **asked)))


def override(*path: str, value: str, **more: Any) -> scheduler_pb2.JobOverride:
    return scheduler_pb2.JobOverride(path=path, value=value, origin=f"--{path[0]}" if path else "--x", **more)


def test_the_jobs_of_a_file_are_those_that_a_client_would_read() -> None:
    answer = read(text=TEXT)
    assert [to_record(spec, JobSpec) for spec in answer.specs] == parse_job_file(TEXT, "f.yaml")
    assert [spec.name for spec in answer.specs] == ["a", "b"]


def test_what_is_wrong_is_said_in_one_line_and_no_job_is_read() -> None:
    for asked, problem in (
        ({"text": b"name: a\nrun: x\ncuont: 1\n"}, 'f.yaml:3: cuont: unknown key (did you mean "count"?)'),
        ({"text": b""}, "f.yaml: no job in it: write at least name and run"),
        ({"text": b"a: &a [x]\nb: *a\n"}, "f.yaml:1: anchors and aliases (& and *) are not read: write the value out"),
        ({"text": b"name: \xff"}, "f.yaml:1: not UTF-8 (byte 0xff): save the file as UTF-8"),
        ({"text": TEXT, "sets": ["count=0"]}, "--set count: is 0; it must be at least 1"),
        ({}, 'command line: needs "name"'),
        ({"text": b"---\nname: a\nrun: x\n" * 10_001}, "f.yaml: 10001 jobs; at most 10000 in one file"),
    ):
        answer = read(**asked)
        assert (answer.problem, list(answer.specs)) == (problem, [])


def test_flags_alone_describe_one_job_and_go_over_each_of_a_file() -> None:
    flags = [override("name", value='"a"'), override("run", value='["x"]')]
    (alone,) = read(overrides=[*flags, override("env", value='{"A": "1"}', adds=True, of_group=True)]).specs
    assert (alone.name, alone.groups[0].env) == ("a", {"A": "1"})
    answer = read(text=TEXT, overrides=[override("count", value='"3"', of_group=True)], sets=["hold=true"])
    assert [(spec.groups[0].count, spec.hold) for spec in answer.specs] == [(3, True)] * 2


@pytest.mark.parametrize(
    "bad",
    [
        {"overrides": [override(value="1")]},
        {"overrides": [override(*["a"] * 21, value="1")]},
        {"overrides": [override("env", value="1", adds=True)]},
        {"sets": ["a=1"] * 201},
        {"text": b"#" * 300_000},
    ],
)
def test_more_than_a_master_reads_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as raised:
        read(**bad)
    assert raised.value.code is grpc.StatusCode.INVALID_ARGUMENT


def test_an_answer_is_bounded_however_large_flags_make_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_reading, "MAX_ANSWER_BYTES", 100_000)
    long = override("env", value=f'{{"A": "{"x" * 60_000}"}}', adds=True, of_group=True)
    assert len(read(text=b"name: a\nrun: x\n", overrides=[long]).specs) == 1
    with pytest.raises(ApiError, match="more than 100000 bytes together"):
        read(text=TEXT, overrides=[long])


def test_a_follower_answers_itself_also_without_a_leader() -> None:
    async def story() -> None:
        async with two_masters() as (cluster, one, two):
            cluster.elect("")
            for master in (one, two):
                asked = scheduler_pb2.ReadJobsRequest(text=TEXT, source="f")
                assert len((await master.scheduler.ReadJobs(asked, timeout=LIMIT_S)).specs) == 2

    asyncio.run(story())
