"""The list of jobs: its filters, its order, and how often it is made."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gosched.core.records.job import Job, JobState
from gosched.core.records.reservation import Reservation
from gosched.core.state.cluster_state import ClusterState
from gosched.master.web.job_filter import BadFilter, JobFilter, read_filter
from gosched.master.web.job_list import PAGE, JobLists, JobOrder, make_order
from gosched.master.web.query import Query
from tests.master.harness import spec

NOW_MS = 1_800_000_000_000


def job(number: int, state: JobState = JobState.PENDING, **fields: object) -> Job:
    own = {"name": f"job-{number}", "queue": "default", "tenant": "default", "labels": (), "priority": 500}
    own |= {key: fields.pop(key) for key in list(fields) if key in own}
    more = {"submitted_at_ms": NOW_MS + number, **fields}
    return Job(id=f"j{number}", spec=replace(spec("x"), **own), sequence=number, state=state, **more)  # type: ignore[arg-type]


def ordered(lists: JobLists, state: ClusterState, chosen: JobFilter) -> JobOrder:
    return asyncio.run(lists.order(state, chosen))


def state_of(*jobs: Job) -> ClusterState:
    state = ClusterState()
    state.jobs.update({one.id: one for one in jobs})
    return state


def ids(state: ClusterState, /, **query: str) -> list[str]:
    return asyncio.run(make_order(state, read_filter(Query(query), NOW_MS)))[0]


def test_what_waits_comes_first_by_its_reserved_start_then_what_runs_then_the_newest_end() -> None:
    state = state_of(
        job(1, JobState.SUCCEEDED, ended_at_ms=5),
        job(2, JobState.FAILED, ended_at_ms=9),
        job(3, JobState.RUNNING, placed_at_ms=3),
        job(4, JobState.RUNNING, placed_at_ms=4),
        job(5),
        job(6),
        job(7, held=True),
        job(8),
        job(9, JobState.RUNNING, frozen=True),
    )
    for job_id, start_ms in (("j8", 70), ("j6", 60)):
        state.reservations[job_id] = Reservation(job_id=job_id, attempt=1, start_ms=start_ms, shares=(), made_at_ms=1)
    assert ids(state) == ["j6", "j8", "j5", "j7", "j4", "j3", "j9", "j2", "j1"]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("newest", ["j3", "j2", "j1"]),
        ("oldest", ["j1", "j2", "j3"]),
        ("name", ["j2", "j3", "j1"]),
        ("priority", ["j2", "j3", "j1"]),
    ],
)
def test_a_list_is_sorted_as_the_address_says(sort: str, expected: list[str]) -> None:
    state = state_of(
        job(1, JobState.SUCCEEDED, name="c", priority=900),
        job(2, name="a", priority=700),
        job(3, name="b", priority=600),
    )
    assert ids(state, sort=sort) == expected


def test_each_part_of_the_address_narrows_the_list() -> None:
    state = state_of(
        job(1, JobState.RUNNING, queue="research.llm", labels=(("team", "nlp"),), user="ann"),
        job(2, queue="research", tenant="web", labels=(("team", "cv"),)),
        job(3, queue="researchers", name="Train-7", parent="p"),
        job(4, JobState.SUCCEEDED, submitted_at_ms=NOW_MS - 7_200_000, ended_at_ms=NOW_MS - 3_000_000),
    )
    assert ids(state, queue="research") == ["j2", "j1"]
    assert ids(state, tenant="web") == ["j2"]
    assert ids(state, user="ann") == ["j1"]
    assert ids(state, name="train") == ["j3"]
    assert ids(state, name="j3") == ["j3"], "an id is found, too"
    assert ids(state, label="team=nlp") == ["j1"]
    assert ids(state, label="team") == ["j2", "j1"]
    assert ids(state, parent="p") == ["j3"]
    assert ids(state, state="running,succeeded") == ["j1", "j4"]
    assert ids(state, since="1h", state="succeeded") == ["j4"], "it ended since"
    assert ids(state, since="30m", state="succeeded") == []


def test_counts_are_of_all_states_of_the_filter() -> None:
    state = state_of(job(1), job(2), job(3, JobState.RUNNING), job(4, JobState.RUNNING, queue="other"))
    found, counts = asyncio.run(make_order(state, JobFilter(states=(JobState.RUNNING,), queue="default")))
    assert found == ["j3"]
    assert counts[JobState.PENDING] == 2
    assert counts[JobState.RUNNING] == 1


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"state": "runing"}, 'did you mean "running"'),
        ({"sort": "size"}, "waiting, newest"),
        ({"since": "yesterday"}, "30m, 2h, 7d"),
        ({"label": "=x"}, "team=nlp"),
    ],
)
def test_an_address_that_says_nothing_is_explained(query: dict[str, str], said: str) -> None:
    with pytest.raises(BadFilter, match=said):
        read_filter(Query(query), NOW_MS)


def test_an_order_is_made_again_only_for_a_new_revision_and_after_a_while() -> None:
    now = [100.0]
    lists, state = JobLists(now_s=lambda: now[0]), state_of(job(1))
    first = ordered(lists, state, JobFilter())
    now[0] += 50
    assert ordered(lists, state, JobFilter()) is first, "nothing has changed"
    state.jobs["j2"] = job(2)
    state.revision += 1
    second = ordered(lists, state, JobFilter())
    assert second.ids == ["j1", "j2"]
    state.revision += 1
    now[0] += 0.5
    assert ordered(lists, state, JobFilter()) is second, "it is good for a second"
    now[0] += 0.6
    assert ordered(lists, state, JobFilter()) is not second


def test_the_orders_that_are_kept_are_bounded() -> None:
    lists, state = JobLists(), state_of(job(1))
    first = ordered(lists, state, JobFilter(name="0"))
    for i in range(40):
        ordered(lists, state, JobFilter(name=str(i + 1)))
    assert ordered(lists, state, JobFilter(name="0")) is not first


def test_pages_hold_all_jobs_once() -> None:
    state = state_of(*[job(i) for i in range(2 * PAGE + 7)])
    order = ordered(JobLists(), state, JobFilter())
    assert order.pages == 3
    assert [job_id for page in (1, 2, 3) for job_id in order.page(page)] == list(order.ids)
    assert order.page(4) == []
