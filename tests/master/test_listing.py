"""ListJobs: filters, orders, and pages that follow each other while jobs change."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import grpc
import pytest

from gosched.api.job_query import Direction, JobOrder, JobQuery
from gosched.core.commands.cluster import SetQueues
from gosched.core.commands.jobs import CancelJob, SubmitJob
from gosched.core.records.job import JobState
from gosched.core.records.queue import Queue
from gosched.core.spec.array import Array
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.errors import ApiError
from gosched.master.jobs import job_listing
from gosched.master.jobs.job_listing import list_jobs
from gosched.wire.v1 import scheduler_pb2
from tests.master.harness import LIMIT_S, one_master, spec
from tests.state_machine.cluster import Cluster
from tests.state_machine.cluster import spec as job_spec


def pages(state: ClusterState, **wanted: Any) -> list[list[str]]:
    """Return the names on each page of a query."""
    query, found = JobQuery(**wanted), []
    while True:
        page = asyncio.run(list_jobs(state, query))
        found.append([job.spec.name for job in page.jobs])
        if not page.next_page_token:
            return found
        query = replace(query, page_token=page.next_page_token)


def names(state: ClusterState, **wanted: Any) -> list[str]:
    return [name for page in pages(state, **wanted) for name in page]


@pytest.fixture
def cluster() -> Cluster:
    """Six jobs: c, a and e have ended in this order, a and e at the same moment."""
    c = Cluster()
    c.accept(SetQueues(queues=(Queue(path="default"), Queue(path="r"), Queue(path="r.llm"), Queue(path="rest"))))
    queues = {"a": "r.llm", "b": "rest", "c": "r.llm"}
    for number, name in enumerate("cabfed"):
        more = {"queue": queues.get(name, "default"), "priority": number % 3, "labels": (("odd", str(number % 2)),)}
        tenant = "nlp" if name in "ab" else "default"
        c.accept(SubmitJob(job_id=f"j-{name}", spec=job_spec(name, tenant=tenant, **more), user=f"u{number % 2}"))
    c.accept(CancelJob(job_id="j-c"))
    at_ms = c.state.clock_ms + 5
    c.do(CancelJob(job_id="j-a"), at_ms=at_ms)
    c.do(CancelJob(job_id="j-e"), at_ms=at_ms)
    return c


ORDERS = [
    (JobOrder.UNSPECIFIED, "defbac", "cabfed"),
    (JobOrder.SUBMITTED, "defbac", "cabfed"),
    (JobOrder.ENDED, "eacdfb", "caebfd"),
    (JobOrder.NAME, "fedcba", "abcdef"),
    (JobOrder.PRIORITY, "dbeafc", "cfaebd"),
    (JobOrder.STARTED, "defbac", "cabfed"),
]


@pytest.mark.parametrize("first_slice", [1, 2000])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(("order", "descending", "ascending"), ORDERS, ids=[order.name for order, *_ in ORDERS])
def test_pages_of_any_size_give_each_job_once_in_order(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    order: JobOrder,
    descending: str,
    ascending: str,
    size: int,
    first_slice: int,
) -> None:
    monkeypatch.setattr(job_listing, "FIRST_SLICE", first_slice)
    for direction, expected in ((Direction.DESCENDING, descending), (Direction.ASCENDING, ascending)):
        found = pages(cluster.state, order=order, direction=direction, page_size=size)
        assert "".join(name for page in found for name in page) == expected
        assert all(len(page) == size for page in found[:-1])


def test_names_ascend_and_everything_else_descends_unless_told(cluster: Cluster) -> None:
    assert names(cluster.state, order=JobOrder.NAME) == list("abcdef")
    assert names(cluster.state, order=JobOrder.ENDED) == list("eacdfb")


def test_a_longer_name_comes_after_its_beginning_and_before_it_where_names_descend() -> None:
    c = Cluster()
    for name in ("ab", "a", "abc"):
        c.accept(SubmitJob(job_id=name, spec=job_spec(name)))
    assert names(c.state, order=JobOrder.NAME, page_size=1) == ["a", "ab", "abc"]
    descending = {"order": JobOrder.NAME, "direction": Direction.DESCENDING}
    assert names(c.state, page_size=1, **descending) == ["abc", "ab", "a"]


def test_filters_choose_jobs_that_meet_all_of_them(cluster: Cluster) -> None:
    state = cluster.state
    assert names(state, queue="r") == ["a", "c"]
    assert names(state, queue="r.llm") == ["a", "c"]
    assert names(state, queue="rest") == ["b"]
    assert names(state, tenant="nlp") == ["b", "a"]
    assert names(state, user="u0") == ["e", "b", "c"]
    assert names(state, states=(JobState.PENDING,)) == ["d", "f", "b"]
    assert names(state, labels=(("odd", "1"),)) == ["d", "f", "a"]
    assert names(state, tenant="nlp", states=(JobState.PENDING,), user="u0") == ["b"]
    assert names(state, user="unknown") == []


def test_since_chooses_what_was_submitted_or_has_ended_then_or_later(cluster: Cluster) -> None:
    jobs = cluster.state.jobs
    assert names(cluster.state, since_ms=jobs["j-e"].submitted_at_ms) == ["d", "e", "a", "c"]
    assert names(cluster.state, since_ms=jobs["j-a"].ended_at_ms) == ["e", "a"]
    assert names(cluster.state, since_ms=jobs["j-a"].ended_at_ms + 1) == []


def test_what_lives_and_what_ended_lately_are_chosen_together(cluster: Cluster) -> None:
    ended_ms = cluster.state.jobs["j-a"].ended_at_ms
    assert names(cluster.state, ended_since_ms=ended_ms) == ["d", "e", "f", "b", "a"]
    assert names(cluster.state, ended_since_ms=ended_ms + 1) == ["d", "f", "b"]


def test_a_parent_by_name_or_id_chooses_its_children() -> None:
    c = Cluster()
    c.accept(SubmitJob(job_id="j-1", spec=job_spec("sweep", array=Array(last=4, step=1))))
    c.accept(SubmitJob(job_id="j-2", spec=job_spec("alone")))
    expected = [f"sweep.{number}" for number in (4, 3, 2, 1, 0)]
    for parent in ("sweep", "j-1"):
        assert pages(c.state, parent=parent, page_size=2) == [expected[:2], expected[2:4], expected[4:]]
    for parent, words in (("alone", "neither an array nor a schedule"), ("gone", "there is no job 'gone'")):
        with pytest.raises(ApiError, match=words):
            names(c.state, parent=parent)


def test_rows_are_of_the_same_jobs_as_whole_jobs_page_by_page(cluster: Cluster) -> None:
    query = JobQuery(page_size=4, rows=True)
    first = asyncio.run(list_jobs(cluster.state, query))
    assert ([row.name for row in first.rows], len(first.jobs)) == (["d", "e", "f", "b"], 0)
    # A token goes with both: it says where the listing goes on.
    rest = asyncio.run(list_jobs(cluster.state, replace(query, rows=False, page_token=first.next_page_token)))
    assert ([job.spec.name for job in rest.jobs], len(rest.rows)) == (["a", "c"], 0)


def test_the_newest_jobs_are_found_without_a_look_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unread(dict[str, Any]):
        """Fails for whoever looks at more than the newest jobs."""

        def values(self) -> Any:
            return self

        def __reversed__(self) -> Any:
            for looked_at, job in enumerate(reversed(list(dict.values(self)))):
                assert looked_at <= 20
                yield job

    c = Cluster()
    for number in range(100):
        c.accept(SubmitJob(job_id=f"j{number}", spec=job_spec(f"j{number}")))
    monkeypatch.setattr(job_listing, "FIRST_SLICE", 20)
    monkeypatch.setattr(c.state, "jobs", Unread(c.state.jobs))
    page = asyncio.run(list_jobs(c.state, JobQuery(page_size=10)))
    assert [job.spec.name for job in page.jobs] == [f"j{number}" for number in range(99, 89, -1)]


def test_jobs_that_come_and_go_between_pages_neither_double_nor_hide_others(cluster: Cluster) -> None:
    state = cluster.state
    for order in (JobOrder.SUBMITTED, JobOrder.NAME):
        query = JobQuery(page_size=2, order=order)
        first = asyncio.run(list_jobs(state, query))
        cluster.do(SubmitJob(job_id=f"new-{order}", spec=job_spec(f"bb{order}")))
        cluster.do(CancelJob(job_id="j-d"))
        rest = names(state, page_size=2, order=order, page_token=first.next_page_token)
        expected = {"d", "e", "f", "a", "b", "c"}
        assert sorted([job.spec.name for job in first.jobs] + rest) == sorted(expected)
        cluster.do(CancelJob(job_id=f"new-{order}"))
        state.drop_job(f"new-{order}")


@pytest.mark.parametrize(
    "token",
    ["x", "é", "=", "W10", "A" * 2000, "WzEsMV0", "-1", "1" * 30, "WzEsIjAiLDAsMCwwLDBd", "bnVsbA", "W1tbW1tb", "MQ"],
)
def test_a_token_that_no_master_gave_is_refused(cluster: Cluster, token: str) -> None:
    with pytest.raises(ApiError, match="page_token"):
        names(cluster.state, page_token=token, order=JobOrder.ENDED)


def test_a_token_of_another_request_is_refused_but_for_another_size_of_pages(cluster: Cluster) -> None:
    query = JobQuery(page_size=2, tenant="default", states=(JobState.PENDING, JobState.CANCELLED))
    token = asyncio.run(list_jobs(cluster.state, query)).next_page_token
    same = replace(query, page_token=token, page_size=1, states=(JobState.CANCELLED, JobState.PENDING))
    assert asyncio.run(list_jobs(cluster.state, replace(same, order=JobOrder.SUBMITTED))).jobs
    for other in (
        {"tenant": "nlp"},
        {"states": ()},
        {"order": JobOrder.NAME},
        {"direction": Direction.ASCENDING},
        {"user": "u0"},
    ):
        with pytest.raises(ApiError, match="of another request"):
            asyncio.run(list_jobs(cluster.state, replace(query, page_token=token, **other)))


def test_a_token_of_a_later_state_is_refused(cluster: Cluster) -> None:
    token = asyncio.run(list_jobs(cluster.state, JobQuery(page_size=2))).next_page_token
    behind = Cluster().state
    with pytest.raises(ApiError, match="is of revision"):
        asyncio.run(list_jobs(behind, JobQuery(page_size=2, page_token=token)))


def test_a_client_of_the_release_before_goes_on_with_its_token(cluster: Cluster) -> None:
    sequence = cluster.state.jobs["j-f"].sequence
    assert names(cluster.state, page_token=str(sequence), page_size=2) == ["b", "a", "c"]


def test_bad_requests_are_refused_by_grpc() -> None:
    async def story() -> None:
        async with one_master() as master:
            await master.submit(spec("a"))
            for request in (
                scheduler_pb2.ListJobsRequest(page_size=-1),
                scheduler_pb2.ListJobsRequest(since_ms=-1),
                scheduler_pb2.ListJobsRequest(ended_since_ms=-1),
                scheduler_pb2.ListJobsRequest(queue="x" * 300),
                scheduler_pb2.ListJobsRequest(user="a\nb"),
                scheduler_pb2.ListJobsRequest(order=99),
                scheduler_pb2.ListJobsRequest(states=[99]),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await master.scheduler.ListJobs(request, timeout=LIMIT_S)
                assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            page = await master.scheduler.ListJobs(scheduler_pb2.ListJobsRequest(page_size=1 << 30), timeout=LIMIT_S)
            assert (len(page.jobs), page.understood) == (1, True)

    asyncio.run(story())
