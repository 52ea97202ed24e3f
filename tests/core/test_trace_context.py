"""W3C trace context, read from callers, and the places of a job's spans in its trace."""

from __future__ import annotations

from typing import Any

import pytest

from gosched.core.records.job import Job
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.trace_context import (
    TraceContext,
    context_of_call,
    job_trace,
    own_trace,
    parse_traceparent,
)
from gosched.observe.tracing_leader import submission_context

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = TraceContext(trace_id=TRACE, span_id=SPAN, sampled=True)


def _job(job_id: str = "j-1", **more: Any) -> Job:
    spec = JobSpec(name="x", queue="default", gang=GangPolicy(min_tasks=1), groups=())
    return Job(id=job_id, spec=spec, sequence=1, submitted_at_ms=1, **more)


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),  # the flag of level 2, "random trace id", says nothing of sampling
        (f"00-{TRACE}-{SPAN}-02", False),
        (f"01-{TRACE}-{SPAN}-01", True),  # a later version, which may have more
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
    ],
)
def test_a_context_is_read_as_the_specification_says(text: str, sampled: bool) -> None:
    assert parse_traceparent(text) == TraceContext(trace_id=TRACE, span_id=SPAN, sampled=sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01.more",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE[:-1]}٣-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01-{'x' * 10_000}",
    ],
)
def test_a_malformed_context_counts_as_none(text: str) -> None:
    assert parse_traceparent(text) is None


def test_two_contexts_of_one_call_count_as_none() -> None:
    once = ("traceparent", GIVEN.traceparent)
    assert context_of_call([("other", "x"), once]) == GIVEN
    assert context_of_call([once, once]) is None
    assert context_of_call([("traceparent", b"\xff")]) is None
    assert context_of_call(None) is None


def test_a_job_is_a_span_of_its_callers_trace_else_a_trace_of_its_own() -> None:
    alone, called = job_trace(_job()), job_trace(_job(traceparent=GIVEN.traceparent))
    assert alone == own_trace("j-1")
    assert (called.trace_id, called.parent_id, called.span_id) == (TRACE, SPAN, alone.span_id)
    assert job_trace(_job(traceparent="nonsense")) == alone


def test_what_an_array_makes_has_a_trace_of_its_own_that_is_sampled_as_its_parent_is() -> None:
    dropped = TraceContext(trace_id=TRACE, span_id=SPAN, sampled=False)
    assert job_trace(_job("j-1.0", parent="j-1", traceparent=GIVEN.traceparent)) == own_trace("j-1.0")
    child = job_trace(_job("j-1.0", parent="j-1", traceparent=dropped.traceparent))
    assert child == own_trace("j-1.0", sampled=False)


def test_sampling_is_decided_once_and_kept_with_the_job_unless_its_caller_has_decided() -> None:
    assert submission_context("j-1", None, 1) is None
    none = submission_context("j-1", None, 0)
    assert none is not None
    assert job_trace(_job(traceparent=none.traceparent)) == own_trace("j-1", sampled=False)
    assert submission_context("j-1", GIVEN, 0) == GIVEN
    kept = sum(submission_context(f"j-{number}", None, 0.25) is None for number in range(4000))
    assert 900 < kept < 1100
