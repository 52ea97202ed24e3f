"""The pages of jobs, from a master in this process and from one that follows."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from urllib.parse import urlencode

import pytest

from gosched.core.spec.task_group import Runtime
from gosched.wire.v1 import node_pb2, scheduler_pb2
from tests.master.harness import RUNNING, Front, agent, one_master, spec, two_masters, until
from tests.master.http_client import Answer, get, request

PAGES = ("", "/logs", "/usage", "/spec")
FORM = {"Content-Type": "application/x-www-form-urlencoded", "HX-Request": "true"}


async def post(to: Front, path: str, headers: dict[str, str] = FORM, **fields: str) -> Answer:
    return await request(to, "POST", path, headers=headers, body=urlencode(fields).encode())


def test_a_follower_lists_jobs_with_the_reasons_that_the_leader_knows() -> None:
    async def story() -> None:
        async with two_masters() as (_, leader, follower), agent(leader):
            await leader.submit(spec("waits", cpus=64))
            await leader.until_planned("waits")
            answer = await get(follower, "/jobs")
            assert answer.status == 200
            assert "waits" in answer.text
            assert "TOO_LARGE" in answer.text or "INSUFFICIENT" in answer.text or "NODE_TOO_SMALL" in answer.text

    asyncio.run(story())


def test_reasons_are_listed_for_the_jobs_that_wait_and_for_no_others() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master):
            waits, runs = await master.submit(spec("waits", cpus=64)), await master.submit(spec("runs"))
            await master.until_planned("waits")
            stub = master.scheduler
            asked = scheduler_pb2.ListWaitsRequest(jobs=[waits.job_id, runs.job_id, "j-unknown"])
            found = await stub.ListWaits(asked)
            assert [wait.job_id for wait in found.waits] == [waits.job_id]
            assert found.waits[0].code
            with pytest.raises(Exception, match="at most 1000"):
                await stub.ListWaits(scheduler_pb2.ListWaitsRequest(jobs=["j"] * 1001))

    asyncio.run(story())


def test_each_page_of_a_job_is_there_before_and_after_its_start_and_missing_for_others() -> None:
    async def story() -> None:
        async with one_master() as master:
            await master.submit(spec("one"))
            for page in PAGES:
                assert (await get(master, f"/jobs/one{page}")).status == 200
            async with agent(master):
                await until(lambda: any(task.placed_at_ms for task in master.state.tasks.values()))
                for page in PAGES:
                    answer = await get(master, f"/jobs/one{page}?x=1")
                    assert answer.status == 200
                    assert "style=" not in answer.text, "the policy forbids it"
            for page in PAGES:
                missing = await get(master, f"/jobs/two{page}")
                assert missing.status == 404
                assert "There is no job two" in missing.text

    asyncio.run(story())


def test_a_job_of_spark_has_its_stages_and_the_addresses_of_its_pages() -> None:
    said = node_pb2.SparkProgress(
        application="app-1",
        ui="http://n1:4040",
        history="http://h/history/app-1/",
        stages=[node_pb2.StageProgress(id=3, attempt=1, name="count at <a.py>:4", tasks=8000, done=2)],
        more_stages=1,
    )

    async def story() -> None:
        async with two_masters() as (_, leader, follower), agent(leader) as n1:
            plain = spec("one")
            await leader.submit(replace(plain, groups=(replace(plain.groups[0], runtime=Runtime.SPARK),)))
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            (allocation,) = n1.observed
            assert "<h2>Spark</h2>" not in (await get(leader, "/jobs/one")).text
            await n1.beat(leader, spark={allocation: said})
            page = (await get(follower, "/jobs/one")).text
            assert '<a href="http://n1:4040" rel="noreferrer">' in page
            assert '<a href="http://h/history/app-1/" rel="noreferrer">' in page
            assert "count at &lt;a.py&gt;:4" in page
            assert "2 of 8,000" in page
            assert "and 1 more stage<" in page

    asyncio.run(story())


def test_the_attempt_that_runs_is_shown_also_while_no_master_leads() -> None:
    async def story() -> None:
        async with two_masters() as (cluster, leader, follower), agent(leader):
            await leader.submit(spec("one"))
            await until(lambda: any(task.placed_at_ms for task in follower.state.tasks.values()))
            cluster.elect("")
            answer = await get(follower, "/jobs/one")
            assert answer.status == 200
            assert "Attempt 1: running, 1 task" in answer.text

    asyncio.run(story())


def test_a_plan_and_a_submission_need_the_pages_own_script_and_a_plan_submits_nothing() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master):
            job = {"mode": "form", "name": "mine", "run": "true", "cpu": "1", "nonce": "n"}
            for path in ("/ui/plan", "/ui/submit"):
                refused = await post(master, path, {"Content-Type": FORM["Content-Type"]}, **job)
                assert refused.status == 403
            planned = await post(master, "/ui/plan", **job)
            assert "It would start now on" in planned.text
            assert not master.state.jobs
            first, again = [await post(master, "/ui/submit", **job) for _ in range(2)]
            assert (
                first.headers["hx-redirect"] == again.headers["hx-redirect"] == f"/jobs/{next(iter(master.state.jobs))}"
            )
            assert len(master.state.jobs) == 1

    asyncio.run(story())


def test_what_cannot_be_submitted_is_explained() -> None:
    cases = (
        ({"mode": "yaml", "yaml": "name: a\nrun: x\nresources: {memory: 7}\n"}, "YAML:3: resources.memory"),
        ({"mode": "yaml", "yaml": "a: [" * 500}, "YAML"),
        ({"mode": "yaml", "yaml": ""}, "no job in it"),
        ({"mode": "yaml", "yaml": "".join(f"---\nname: a{n}\nrun: x\n" for n in range(101))}, "at most 100"),
        ({"mode": "form", "name": "a", "run": "x", "queue": "nowhere"}, "nowhere"),
        ({}, "name"),
    )

    async def story() -> None:
        async with one_master() as master:
            for fields, said in cases:
                answer = await post(master, "/ui/submit", **fields)
                assert answer.status == 200
                assert said in answer.text
            assert not master.state.jobs

    asyncio.run(story())


def test_a_body_that_is_no_form_is_refused() -> None:
    async def story() -> None:
        async with one_master() as master:
            for body in (b"\xff\xfe", b"a&b=1", b"&".join([b"a=1"] * 100), b"yaml=" + b"x" * 300_000):
                answer = await request(master, "POST", "/ui/plan", headers=FORM, body=body)
                assert answer.status in (400, 413)

    asyncio.run(story())
