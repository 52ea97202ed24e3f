"""Jobs over HTTP: submitted, listed, shown, written, controlled; one at a time and in batches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest
import yaml

from gosched.config import parse_job_file
from tests.master.harness import RUNNING, Front, agent, one_master, spec, two_masters, until
from tests.master.http_client import Answer, get, request

JOB = {"name": "a", "run": "sleep 1", "resources": {"cpu": 64}}
YAML = {"Content-Type": "application/yaml"}
NDJSON = {"Content-Type": "application/x-ndjson"}

Story = Callable[..., Coroutine[Any, Any, None]]


def on_a_master(story: Story) -> Callable[[], None]:
    @wraps(story)
    def test() -> None:
        async def run() -> None:
            async with one_master() as master:
                await story(master)

        asyncio.run(run())

    del test.__wrapped__  # pytest reads its parameters
    return test


async def post(to: Front, path: str, body: Any = None, **more: Any) -> Answer:
    return await request(to, "POST", f"/api/v1{path}", body=body, **more)


async def names(to: Front, query: str = "") -> list[str]:
    answer = await get(to, f"/api/v1/jobs{query}")
    assert answer.status == 200, answer.text
    return [job["name"] for job in answer.json()["jobs"]]


def problem(answer: Answer, status: int) -> str:
    assert (answer.status, answer.content_type) == (status, "application/problem+json"), answer.text
    return str(answer.json()["detail"])


@on_a_master
async def test_a_job_is_submitted_from_json_and_from_yaml_with_its_place(master: Front) -> None:
    first = await post(master, "/jobs", JOB)
    assert (first.status, first.headers["Location"]) == (201, f"/api/v1/jobs/{first.json()['id']}")
    assert first.json()["warnings"] == ["no node has joined yet"]
    again = await post(master, "/jobs", b"name: a\nrun: sleep 1\nresources: {cpu: 64}\n", headers=YAML)
    assert (again.status, again.json()["id"], again.json()["unchanged"]) == (200, first.json()["id"], True)
    shown = await get(master, first.headers["Location"])
    assert (shown.status, shown.json()["name"], len(shown.json()["tasks"])) == (200, "a", 1)
    assert int(shown.headers["X-Gosched-Revision"]) >= first.json()["revision"]


@on_a_master
async def test_a_repeat_under_one_key_has_the_first_answer(master: Front) -> None:
    key = {"Idempotency-Key": "k1"}
    first = await post(master, "/jobs?user=alice", JOB, headers=key)
    again = await post(master, "/jobs?user=bob", JOB, headers=key)
    assert (first.status, again.status, again.json()["id"]) == (201, 201, first.json()["id"])
    assert (await get(master, "/api/v1/jobs/a")).json()["user"] == "alice"
    assert not (await get(master, "/api/v1/jobs/a")).json()["authenticated"]


@on_a_master
async def test_a_dry_run_plans_and_submits_nothing(master: Front) -> None:
    answer = await post(master, "/jobs?dryRun=true", JOB)
    assert (answer.status, answer.json()["jobs"][0]["outcome"]) == (200, "waits")
    assert problem(await post(master, "/jobs?dryRun=true", {"name": "a"}), 400).startswith("body: ")
    both = await post(master, "/plan", b"name: a\nrun: x\n---\nname: b\nrun: x\n", headers=YAML)
    assert [job["name"] for job in both.json()["jobs"]] == ["a", "b"]
    assert [job["name"] for job in (await post(master, "/plan", [JOB])).json()["jobs"]] == ["a"]
    assert "more than 100" in problem(await post(master, "/plan", [JOB] * 101), 400)
    assert await names(master) == []


BAD_BODIES: list[tuple[bytes, dict[str, str], str]] = [
    (b'{"name": "a", "runn": "x"}', {}, 'body: runn: unknown key (did you mean "run"?)'),
    (b"name: a\nrun: x\ncount: none\n", YAML, "body:3: count: expected a whole number, got 'none'"),
    (b'{"name": "a", "run": "x", "tasks": {}}', {}, "body: run: cannot be combined with tasks"),
    (b'{"name": "a", "name": "b", "run": "x"}', {}, "name: is given twice"),
    (b'{"name": "a", "run": "x", "count": 1e999999999}', {}, "expected a whole number"),
    (b'{"name": "a", "run": "x", "count": ' + b"9" * 5000 + b"}", {}, "expected a whole number"),
    (b'{"name": "a", "run": "x", "count": NaN}', {}, "NaN is no number"),
    (b'{"name": "\\ud800", "run": "x"}', {}, "surrogate"),
    (b"[" * 100_000, {}, "nested more than 20 deep"),
    (b'{"a": ' * 3000 + b"1" + b"}" * 3000, {}, "nested more than 20 deep"),
    (b"a: " + b"[" * 3000 + b"]" * 3000, YAML, "nested more than 20 deep"),
    (b"a: &a [x]\nb: *a\n", YAML, "anchors and aliases"),
    (b"name: a\nrun: !!python/object:os.system x\n", YAML, "tags such as"),
    (b"\xff", {}, "not UTF-8"),
    (b"\xff", YAML, "not UTF-8"),
    (b"", {}, "not valid JSON"),
    (b"", YAML, "no job in it"),
    (b"name: a\nrun: x\n---\nname: b\nrun: x\n", YAML, "/api/v1/jobs:batch"),
    (b"[]", {}, "expected a job"),
    (b"null", {}, "expected a job"),
    (b'{"name": "a", "run": "x", "queue": "nowhere"}', {}, "no queue 'nowhere'"),
]


@on_a_master
async def test_a_body_that_is_no_job_is_refused_in_one_line_that_says_why(master: Front) -> None:
    for body, headers, words in BAD_BODIES:
        answer = await post(master, "/jobs", body, headers={"Content-Type": "application/json", **headers})
        detail = problem(answer, 404 if "queue" in words else 400)
        assert words in detail, (words, detail)
        assert "\n" not in detail
        assert len(detail) < 600
    assert await names(master) == []


@on_a_master
async def test_other_media_types_and_large_bodies_are_refused(master: Front) -> None:
    assert "application/yaml" in problem(await post(master, "/jobs", b"x", headers={"Content-Type": "text/plain"}), 415)
    assert "more than" in problem(await post(master, "/jobs", b"x" * (1 << 20) + b"x"), 413)
    problem(await post(master, "/jobs:batch", b"x" * (4 << 20) + b"x", headers=YAML), 413)


@on_a_master
async def test_jobs_are_listed_by_filters_in_pages_with_the_members_that_are_wanted(master: Front) -> None:
    for number in range(5):
        labels = {"odd": str(number % 2), "n": str(number)}
        answer = await post(master, f"/jobs?user=u{number % 2}", {**JOB, "name": f"j{number}", "labels": labels})
        assert answer.status == 201
    await post(master, "/jobs/j0/cancel")
    assert await names(master) == ["j4", "j3", "j2", "j1", "j0"]
    assert await names(master, "?state=CANCELLED") == ["j0"]
    assert await names(master, "?state=CANCELLED&state=PENDING&sort=submitted") == ["j0", "j1", "j2", "j3", "j4"]
    assert await names(master, "?label=odd=1&label=n=3") == ["j3"]
    assert await names(master, "?user=u1") == ["j3", "j1"]
    assert await names(master, "?sort=name&queue=default&tenant=default") == ["j0", "j1", "j2", "j3", "j4"]
    assert await names(master, "?sort=-ended&page_size=2") == ["j0", "j4"]
    assert len(await names(master, "?since=1h")) == 5
    assert await names(master, "?since=2100-01-01T00:00:00%2B01:00") == []
    page = (await get(master, "/api/v1/jobs?since=1h&ended_since=1h&page_size=2")).json()
    path = f"?since=1h&ended_since=1h&page_size=9&page_token={page['next_page_token']}"
    assert len(await names(master, path)) == 3  # though an hour ago is another moment by now
    page = (await get(master, "/api/v1/jobs?page_size=2&fields=name,id&stale=true")).json()
    assert [list(job) for job in page["jobs"]] == [["name", "id"]] * 2
    path = f"?page_size=2&page_token={page['next_page_token']}"
    assert await names(master, path) == ["j2", "j1"]


BAD_QUERIES = [
    ("?state=RUNING", "RUNNING"),
    ("?sort=size", "submitted"),
    ("?order=asc", "no parameter"),
    ("?page_size=0", "page_size"),
    ("?page_size=10001", "page_size"),
    ("?page_size=x", "page_size"),
    ("?page_token=x", "page_token"),
    ("?fields=nam", "did you mean"),
    ("?fields=,", "no member ''"),
    ("?label=a", "key=value"),
    ("?label=a=1&label=a=2", "two values"),
    ("?since=yesterday", "since: expected a time"),
    ("?since=2026-01-01", "since: expected a time"),
    ("?since=9999999999999d", "since"),
    ("?queu=a", "did you mean queue"),
    ("?queue=a&queue=b", "2 times"),
    (f"?queue={'x' * 300}", "queue"),
    ("?user=%00", "printed"),
]


@on_a_master
async def test_a_bad_query_is_refused(master: Front) -> None:
    for query, words in BAD_QUERIES:
        assert words in problem(await get(master, f"/api/v1/jobs{query}"), 400), query


@on_a_master
async def test_the_spec_of_a_job_is_a_job_file_that_submits_it_again(master: Front) -> None:
    text = b"name: a\ncount: 2\nresources: {cpu: 1500m, memory: 1.5Gi}\nrun: echo $X\nenv: {X: 'yes'}\n"
    await post(master, "/jobs", text, headers=YAML)
    as_json = await get(master, "/api/v1/jobs/a/spec")
    as_yaml = await get(master, "/api/v1/jobs/a/spec", headers={"Accept": "application/yaml, application/json;q=0.5"})
    assert (as_json.content_type, as_yaml.content_type) == ("application/json", "application/yaml")
    assert yaml.safe_load(as_yaml.text) == as_json.json()
    assert parse_job_file(as_yaml.body, "f") == parse_job_file(as_json.body, "f") == parse_job_file(text, "f")
    for answer in (as_json, as_yaml):
        again = await post(master, "/jobs", answer.body, headers={"Content-Type": answer.content_type})
        assert (again.status, again.json()["unchanged"]) == (200, True)


@on_a_master
async def test_a_job_is_held_released_and_cancelled(master: Front) -> None:
    await post(master, "/jobs", JOB)
    for action, unchanged in (("hold", False), ("hold", True), ("release", False), ("suspend?free=true", False)):
        answer = await post(master, f"/jobs/a/{action}")
        assert (answer.status, answer.json()["unchanged"]) == (200, unchanged), answer.text
    assert (await get(master, "/api/v1/jobs/a")).json()["state"] == "SUSPENDED"
    assert (await post(master, "/jobs/a/resume")).status == 200
    assert (await post(master, "/jobs/a/requeue")).status == 200
    assert (await post(master, "/jobs/a/cancel?reason=enough")).json()["unchanged"] is False
    assert (await post(master, "/jobs/a/cancel")).json()["unchanged"] is True
    shown = (await get(master, "/api/v1/jobs/a")).json()
    assert (shown["state"], shown["reason"]) == ("CANCELLED", "enough")
    problem(await post(master, "/jobs/a/hold"), 409)
    problem(await post(master, "/jobs/a/cancel?reason=%0A"), 400)


def test_a_running_job_is_frozen_and_shows_its_use() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as node:
            await post(master, "/jobs", {**JOB, "resources": {"cpu": 1}})
            await until(lambda: node.orders)
            node.see_all(RUNNING)
            await node.beat(master)
            assert (await get(master, "/api/v1/jobs/a")).json()["tasks"][0]["node"] == "n1"
            assert (await post(master, "/jobs/a/suspend")).status == 200
            assert (await get(master, "/api/v1/jobs/a")).json()["frozen"]

    asyncio.run(story())


@on_a_master
async def test_a_job_that_there_is_not_is_an_error_whatever_its_name(master: Front) -> None:
    for name in ("none", "a%20b", "%C3%A9%00", "x" * 1000, "%3Cb%3E", "..%5C", "a%0Ab"):
        for path in ("", "/spec", "/explain", "/logs", "/cancel", "/hold", "/suspend"):
            method = "POST" if path in ("/cancel", "/hold", "/suspend") else "GET"
            detail = problem(await request(master, method, f"/api/v1/jobs/{name}{path}"), 404)
            assert "no job" in detail
            assert len(detail) < 600


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (json.dumps([{**JOB, "name": n} for n in "abc"]).encode(), {"Content-Type": "application/json"}),
        (b"\n".join(json.dumps({**JOB, "name": n}).encode() for n in "abc") + b"\n", NDJSON),
        (b"---\n".join(f"name: {n}\nrun: x\n".encode() for n in "abc"), YAML),
        (b"- {name: a, run: x}\n- {name: b, run: x}\n- {name: c, run: x}\n", YAML),
    ],
    ids=["json", "ndjson", "documents", "list"],
)
def test_a_batch_is_submitted_in_its_order(body: bytes, headers: dict[str, str]) -> None:
    @on_a_master
    async def story(master: Front) -> None:
        key = {"Idempotency-Key": "k"}
        answer = await post(master, "/jobs:batch", body, headers=headers | key)
        found = answer.json()
        assert (answer.status, found["submitted"], found["refused"]) == (200, 3, 0), answer.text
        assert [outcome["name"] for outcome in found["outcomes"]] == ["a", "b", "c"]
        assert await names(master, "?sort=submitted") == ["a", "b", "c"]
        again = (await post(master, "/jobs:batch", body, headers=headers | key)).json()
        assert [o["id"] for o in again["outcomes"]] == [o["id"] for o in found["outcomes"]]

    story()


@on_a_master
async def test_a_batch_tells_what_is_wrong_with_each_job(master: Front) -> None:
    lines = [b'{"name": "a", "run": "x"}', b"{", b'{"name": "b"}', b'{"name": "c", "run": "x", "queue": "no"}']
    answer = (await post(master, "/jobs:batch", b"\n\n".join(lines), headers=NDJSON)).json()
    assert [o["code"] for o in answer["outcomes"]] == ["", "INVALID_ARGUMENT", "INVALID_ARGUMENT", "NOT_FOUND"]
    assert [answer[key] for key in ("submitted", "unchanged", "refused")] == [1, 0, 3]
    assert answer["outcomes"][1]["problem"].startswith("body:3: ")
    assert answer["outcomes"][2]["problem"] == 'body:5: needs "run"'
    listed = await post(master, "/jobs:batch", [{**JOB, "name": "d"}, {"name": "e", "run": "x", "count": -1}])
    assert "body[1]: count" in listed.json()["outcomes"][1]["problem"]


@on_a_master
async def test_all_or_nothing_is_refused_with_the_jobs_that_are_wrong(master: Front) -> None:
    jobs = [{**JOB, "name": "a"}, {"name": "b"}, {**JOB, "name": "c"}]
    answer = await post(master, "/jobs:batch?all_or_nothing=true", jobs)
    assert "place 1" in problem(answer, 400)
    assert [wrong["place"] for wrong in answer.json()["outcomes"]] == [1]
    jobs[1] = {**JOB, "name": "b", "queue": "nowhere"}
    answer = await post(master, "/jobs:batch?all_or_nothing=true", jobs)
    assert "nowhere" in problem(answer, 409)
    assert [wrong["place"] for wrong in answer.json()["outcomes"]] == [1]
    assert await names(master) == []
    del jobs[1]
    answer = await post(master, "/jobs:batch?all_or_nothing=true", jobs)
    assert (answer.status, answer.json()["submitted"]) == (200, 2)


@on_a_master
async def test_what_is_no_batch_is_refused(master: Front) -> None:
    for body in (b"[]", b"", b"[" * 10_000, b'[{"name": "a", "run": "x"}'):
        problem(await post(master, "/jobs:batch", body, headers={"Content-Type": "application/json"}), 400)
    for body in (b"null", b"1", b'"x"', b"[[]]"):
        answer = await post(master, "/jobs:batch", body, headers={"Content-Type": "application/json"})
        assert [outcome["code"] for outcome in answer.json()["outcomes"]] == ["INVALID_ARGUMENT"]
    assert await names(master) == []


def test_a_follower_takes_what_the_leader_takes() -> None:
    async def story() -> None:
        async with two_masters() as (_, leader, follower):
            assert (await post(follower, "/jobs", JOB)).status == 201
            batch = await post(follower, "/jobs:batch", [{**JOB, "name": f"j{n}"} for n in range(50)])
            assert batch.json()["submitted"] == 50
            assert len(await names(follower)) == len(await names(leader)) == 51
            assert (await post(follower, "/jobs/a/hold")).status == 200
            assert (await get(follower, "/api/v1/jobs/a/spec")).json() == JOB
            assert problem(await get(follower, "/api/v1/jobs/none"), 404)
            await leader.submit(spec("last"))
            assert (await names(follower))[0] == "last"

    asyncio.run(story())
