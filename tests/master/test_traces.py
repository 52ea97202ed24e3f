"""The spans of masters: one trace per job, the same from each master, sent by the one that leads."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any

import grpc
import pytest

from gosched.core.trace_context import own_trace, parse_traceparent
from gosched.master import server
from gosched.observe import tracing_leader
from gosched.observe.tracing import Span
from tests.master.harness import (
    FAILED,
    LIMIT_S,
    RUNNING,
    SUCCEEDED,
    FakeAgent,
    Front,
    agent,
    one_master,
    spec,
    submission,
    two_masters,
    until,
)
from tests.master.http_client import request
from tests.master.test_batches import batch

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACING = {"endpoint": "http://127.0.0.1:9"}
OF_THE_LOG = {"job", "attempt", "queue wait"}


class Sent(dict[str, list[Span]]):
    """The spans that each master has sent."""

    def of(self, master: str) -> list[Span]:
        return self.setdefault(master, [])

    def named(self, name: str) -> list[Span]:
        return [span for spans in self.values() for span in spans if span.name == name]


class Sink:
    def __init__(self, spans: list[Span]) -> None:
        self.put = spans.append

    def close(self) -> None:
        pass


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    found = Sent()
    monkeypatch.setattr(server, "open_spans", lambda settings, instance, **more: Sink(found.of(instance)))
    return found


async def _submit(master: Front, job: Any, traceparent: str = "") -> str:
    metadata = (("traceparent", traceparent),) if traceparent else ()
    answer = await master.scheduler.SubmitJob(submission(job), timeout=LIMIT_S, metadata=metadata)
    return str(answer.job_id)


async def _end(master: Front, node: FakeAgent, state: Any, attempt: int, **more: Any) -> None:
    await until(lambda: any(i.endswith(f".{attempt}") for i in node.orders))
    node.see_all(RUNNING, started_at_ms=1)
    await node.beat(master)
    node.see_all(state, ended_at_ms=2, **more)
    await node.beat(master)


def _check_whole(spans: list[Span], above: str = "") -> None:
    """Every span has its parent in the trace, but for the caller's."""
    ids = {span.span_id for span in spans}
    assert len({span.trace_id for span in spans}) == 1
    assert {span.parent_id for span in spans} - ids == {above}


def test_a_job_is_one_trace_from_its_callers_span_to_its_end(sent: Sent) -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = await _submit(master, spec(count=2), CALLER)
            await _end(master, n1, SUCCEEDED, 1, exit_code=0)
            await until(lambda: sent.named("job"))
            env = dict(n1.orders[f"{job_id}/main/0.1"].env)
            of_task = parse_traceparent(env["TRACEPARENT"])
            assert of_task is not None
            assert (of_task.trace_id, of_task.sampled) == (CALLER[3:35], True)

    asyncio.run(story())
    spans = sent["m1"]
    assert Counter(span.name for span in spans) == Counter(
        ["SubmitJob", "commit", "queue wait", "schedule cycle", "commit plan", "dispatch", "attempt", "job"]
    )
    _check_whole(spans, above=CALLER[36:52])
    assert spans[0].trace_id == CALLER[3:35]
    by_name = {span.name: span for span in spans}
    assert by_name["job"].attributes["gosched.job.state"] == "SUCCEEDED"
    assert by_name["schedule cycle"].attributes["gosched.cycle.tasks_placed"] == 2
    assert by_name["attempt"].attributes["gosched.attempt.nodes"] == 1
    assert not any(span.error for span in spans)


def test_a_job_that_fails_twice_has_three_attempts_in_its_trace(sent: Sent) -> None:
    async def story() -> str:
        async with one_master() as master, agent(master) as n1:
            job_id = await _submit(master, spec(restarts=2))
            for attempt in (1, 2):
                await _end(master, n1, FAILED, attempt, exit_code=3, reason="NONZERO_EXIT")
            await _end(master, n1, SUCCEEDED, 3, exit_code=0)
            await until(lambda: sent.named("job"))
            return job_id

    job_id = asyncio.run(story())
    attempts = sent.named("attempt")
    assert [(a.attributes["gosched.attempt"], a.error) for a in attempts] == [
        (1, "NONZERO_EXIT"),
        (2, "NONZERO_EXIT"),
        (3, None),
    ]
    assert len(sent.named("queue wait")) == 3
    assert all(earlier.end_ns <= later.start_ns for earlier, later in pairwise(attempts))
    _check_whole(sent["m1"])
    assert attempts[0].trace_id == own_trace(job_id).trace_id


def test_why_a_job_waited_is_told_by_events_of_its_queue_wait(sent: Sent) -> None:
    async def story() -> None:
        async with two_masters() as (_, one, _two):
            job_id = await _submit(one, spec(), CALLER)
            await one.until_planned(job_id)
            noted = {"gosched.reason", "gosched.explanation"}
            traces = one.server._job_traces
            assert traces is not None
            await until(lambda: traces._attempts[job_id].reasons)
            async with agent(one):
                await until(lambda: sent.named("queue wait"))
            (event,) = sent.named("queue wait")[0].events
            assert noted == set(event.attributes)
            assert event.attributes["gosched.reason"] == "NO_NODE"

    asyncio.run(story())


@pytest.mark.parametrize("traceparent", ["", "00-nonsense", CALLER.replace("00-", "ff-", 1), CALLER.upper()])
def test_a_malformed_context_is_ignored_and_the_job_has_a_trace_of_its_own(sent: Sent, traceparent: str) -> None:
    async def story() -> str:
        async with one_master() as master:
            job_id = await _submit(master, spec(), traceparent)
            assert master.state.jobs[job_id].traceparent == ""
            return job_id

    job_id = asyncio.run(story())
    assert {span.trace_id for span in sent["m1"]} == {own_trace(job_id).trace_id}


def test_what_its_caller_does_not_sample_is_not_sent_and_its_tasks_are_told_so(sent: Sent) -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            job_id = await _submit(master, spec(), CALLER[:-2] + "00")
            await _end(master, n1, SUCCEEDED, 1, exit_code=0)
            assert dict(n1.orders[f"{job_id}/main/0.1"].env)["TRACEPARENT"].endswith("-00")

    asyncio.run(story())
    assert not sent["m1"]


def test_the_share_of_jobs_that_are_traced_is_decided_once_and_replicated(sent: Sent) -> None:
    async def story() -> None:
        async with one_master(tracing=TRACING | {"sample": 0}) as master, agent(master) as n1:
            job_id = await _submit(master, spec("dropped"))
            assert master.state.jobs[job_id].traceparent == own_trace(job_id, sampled=False).context.traceparent
            await _end(master, n1, SUCCEEDED, 1, exit_code=0)
            assert not sent["m1"]
            await _submit(master, spec("called"), CALLER)
            await until(lambda: sent.named("SubmitJob"))

    asyncio.run(story())


def test_a_follower_passes_the_context_on(sent: Sent) -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two):
            job_id = await _submit(two, spec(), CALLER)
            assert one.state.jobs[job_id].traceparent == CALLER

    asyncio.run(story())
    assert {span.trace_id for span in sent["m1"]} == {CALLER[3:35]}
    assert not sent["m2"]


@pytest.mark.parametrize("asked", ["m1", "m2"])
def test_a_submission_over_http_continues_its_callers_trace_whichever_master_is_asked(sent: Sent, asked: str) -> None:
    job = {"name": "x", "run": "true", "resources": {"cpu": 1, "memory": "1Mi"}}

    async def story() -> None:
        async with two_masters() as (_, one, two):
            to = {"m1": one, "m2": two}[asked]
            answer = await request(to, "POST", "/api/v1/jobs", body=job, headers={"traceparent": CALLER})
            assert answer.status == 201, answer.text
            (made,) = one.state.jobs.values()
            assert made.traceparent == CALLER
            answer = await request(
                to, "POST", "/api/v1/jobs", body={**job, "name": "y"}, headers={"traceparent": "00-\xff"}
            )
            assert answer.status == 201, answer.text

    asyncio.run(story())
    assert {span.trace_id for span in sent.named("SubmitJob")} > {CALLER[3:35]}


def test_a_master_that_takes_over_sends_the_spans_of_the_log_again_the_same(sent: Sent) -> None:
    async def story() -> None:
        async with two_masters() as (cluster, one, two), agent(one) as n1:
            await _submit(one, spec(), CALLER)
            await _end(one, n1, SUCCEEDED, 1, exit_code=0)
            await until(lambda: sent.named("job"))
            assert not sent["m2"]
            cluster.elect("m2")
            await until(lambda: any(span.name == "job" for span in sent["m2"]))
            assert two.leads or two.state.leader == "m2"

    asyncio.run(story())
    of_the_log = [span for span in sent["m1"] if span.name in OF_THE_LOG]
    assert [span for span in sent["m2"] if span.name in OF_THE_LOG] == of_the_log
    assert len(of_the_log) == 3


def test_the_run_of_a_task_whose_node_is_lost_is_told_by_the_leader(sent: Sent) -> None:
    async def story() -> str:
        lease = {"node_timeout": "300ms", "first_lease": "300ms", "heartbeat": "100ms"}
        async with one_master(lease=lease) as master, agent(master) as n1:
            await _submit(master, spec())
            await until(lambda: n1.orders)
            n1.see_all(RUNNING, started_at_ms=1)
            await n1.beat(master)
            await until(lambda: sent.named("job"))
            (order,) = n1.orders.values()
            return str(order.env["TRACEPARENT"])

    of_task = parse_traceparent(asyncio.run(story()))
    (run,) = sent.named("run")
    assert of_task is not None
    assert (run.span_id, run.error) == (of_task.span_id, "NODE_LOST")
    _check_whole(sent["m1"])


def test_a_refused_submission_is_an_error_in_its_callers_trace(sent: Sent) -> None:
    async def story() -> None:
        async with one_master() as master:
            with pytest.raises(grpc.aio.AioRpcError):
                await _submit(master, spec("x", count=0), CALLER)

    asyncio.run(story())
    call = sent.named("SubmitJob")[0]
    assert call.error
    assert call.parent_id == CALLER[36:52]


def test_a_batch_is_one_call_in_its_callers_trace_and_each_job_a_span_there(sent: Sent) -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            await master.scheduler.SubmitJobs(
                batch(spec("a"), spec("b")), timeout=LIMIT_S, metadata=(("traceparent", CALLER),)
            )
            await until(lambda: len(n1.orders) == 2)
            n1.see_all(RUNNING, started_at_ms=1)
            await n1.beat(master)
            n1.see_all(SUCCEEDED, exit_code=0, ended_at_ms=2)
            await n1.beat(master)
            await until(lambda: len(sent.named("job")) == 2)

    asyncio.run(story())
    (call,) = sent.named("SubmitJobs")
    assert call.attributes["gosched.jobs"] == 2
    _check_whole(sent["m1"], above=CALLER[36:52])
    assert {job.parent_id for job in sent.named("job")} == {CALLER[36:52]}


def test_a_gang_of_many_nodes_makes_a_bounded_number_of_dispatch_spans(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing_leader, "MAX_DISPATCHES", 2)

    async def story() -> None:
        async with (
            one_master() as master,
            agent(master, "n1", cpus=1),
            agent(master, "n2", cpus=1),
            agent(master, "n3", cpus=1) as n3,
        ):
            await _submit(master, spec(count=3))
            await until(lambda: n3.orders and len(sent.named("dispatch")) == 2)

    asyncio.run(story())
    assert len(sent.named("dispatch")) == 2
