"""The pages of the cluster over real HTTP, in every state that a cluster can be in."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from dataclasses import replace

from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.fence import Fence
from gosched.core.records.node import Hardware, Node, NodeState
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.window import Window
from gosched.core.resources import Resources
from gosched.replication.memory import MemoryCluster
from tests.master import http_client
from tests.master.harness import Front, agent, front, one_master, spec, two_masters, until

PATHS = ("/", "/queues", "/nodes", "/schedule")
EVIL = """<script>alert(1)</script>"'><img src=x onerror=alert(1)>"""
TOPOLOGY = {"topology": ["zone", "rack"]}


def node(node_id: str, **more: object) -> Node:
    given: dict[str, object] = {"address": "10.0.0.1:1", "incarnation": "1", "registered_at_ms": 1, "changed_at_ms": 1}
    capacity = Resources(cpu_millis=8000, memory_bytes=1 << 34, gpu_millis=4000)
    return Node(**{"id": node_id, "name": node_id, "capacity": capacity, **given, **more})  # type: ignore[arg-type]


async def page(to: Front, path: str, **more: str) -> str:
    await asyncio.sleep(0)
    answer = await http_client.get(to, path, **more)
    assert (answer.status, answer.content_type) == (200, "text/html"), (path, answer.text[:300])
    return answer.text


async def all_pages(to: Front, *more: str) -> dict[str, str]:
    return {path: await page(to, path) for path in (*PATHS, *more)}


def test_an_empty_cluster_has_all_pages_and_they_say_what_to_do() -> None:
    async def story() -> None:
        async with one_master() as master:
            shown = await all_pages(master)
            assert "No node has joined: start gosched-agent" in shown["/"]
            assert "No job waits for a place" in shown["/"]
            assert "Nothing is reserved" in shown["/schedule"]
            for path, html in shown.items():
                assert '<html lang="en">' in html
                assert f'href="{path}" aria-current="page"' in html
                assert html.count("<h1") == 1
                assert '<a class="skip" href="#main">' in html

    asyncio.run(story())


def test_a_page_comes_with_a_policy_that_lets_it_talk_to_the_cluster_alone() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two):
            await until(lambda: len(one.state.masters) == 2)
            for path in PATHS:
                answer = await http_client.get(one, path)
                policy = answer.headers["Content-Security-Policy"]
                assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
                assert f"connect-src 'self' {two.server.record.http_address};" in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["X-Frame-Options"] == "DENY"
                assert answer.headers["Cache-Control"] == "no-store"
                assert not re.search(r"<script(?![^>]*\ssrc=)|\sstyle=|\son[a-z]+=", answer.text)

    asyncio.run(story())


def test_files_are_kept_for_ever_under_the_digest_of_their_content() -> None:
    async def story() -> None:
        async with one_master() as master:
            found = re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', await page(master, "/"))
            assert len(found) >= 8
            for url in found:
                answer = await http_client.get(master, url)
                assert answer.status == 200
                assert "immutable" in answer.headers["Cache-Control"]
            other = await http_client.get(master, re.sub(r"/[0-9a-f]{12}/", "/000000000000/", found[0]))
            assert other.status == 404
            for path in ("/ui/static/../site.py", "/ui/static/%2e%2e/site.py"):
                assert (await http_client.get(master, path)).status == 404

    asyncio.run(story())


def test_what_people_and_agents_wrote_is_text_in_every_page() -> None:
    async def story() -> None:
        async with one_master(**TOPOLOGY) as master:
            evil = node("evil", name=EVIL, labels=(("rack", EVIL), ("zone", EVIL)), reason=EVIL, isolation=EVIL)
            master.state.put_node(replace(evil, state=NodeState.CORDONED, gpu_model=EVIL))
            master.state.put_window(Window(name=EVIL, start_ms=1, nodes=("evil",), reason=EVIL, queues=(EVIL,)))
            more = ("/nodes/evil", f"/nodes?q={'%3Cscript%3E'}", "/schedule?domain=%3Cscript%3E%2Fx")
            for path, html in (await all_pages(master, *more)).items():
                assert "<script>alert" not in html, path
                assert "<img" not in html, path
                assert "&lt;script&gt;" in html or path in ("/queues",), path
            missing = await http_client.get(master, "/nodes/%3Cscript%3Ealert(1)")
            assert (missing.status, "<script>a" in missing.text) == (404, False)

    asyncio.run(story())


def test_pages_are_shown_without_a_leader_and_say_so() -> None:
    async def story() -> None:
        cluster = MemoryCluster("m1", "m2")
        raft = {"enabled": True, "node_id": "m1", "peers": ["m1=127.0.0.1:1", "m2=127.0.0.1:2"]}
        async with front(cluster.members["m1"], raft=raft) as one:
            for html in (await all_pages(one)).values():
                assert "m1 knows no leader" in html

    asyncio.run(story())


def test_a_follower_shows_the_same_cluster_as_the_leader() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two), agent(one, cpus=2):
            await one.submit(spec("waits", cpus=64))
            await one.until_planned((await one.submit(spec("waits-too", cpus=64))).job_id)
            for to in (one, two):
                html = await page(to, "/")
                assert "m1 knows no leader" not in html
                assert ">waits-too</a>" in html
                assert re.search(r"TOO_LARGE|NODE_TOO_SMALL|INSUFFICIENT", html), "why it waits"
                assert re.search(r"job submitted", html), "what happened"

    asyncio.run(story())


def test_odd_states_are_shown_dead_nodes_fences_and_reservations_of_anything() -> None:
    """On a follower whose state the test changes: no planner mends it."""

    async def story() -> None:
        async with two_masters(**TOPOLOGY) as (cluster, leader, master), agent(leader, "n1", cpus=4) as worker:
            job_id = (await leader.submit(spec("runs", count=2))).job_id
            await until(lambda: len(worker.orders) == 2)
            waits = (await leader.submit(spec("waits", cpus=64))).job_id
            fenced = (await leader.submit(spec("fenced", cpus=64))).job_id
            state = master.state
            await until(lambda: fenced in state.jobs)
            cluster.members["m2"].cut_off = True
            labels = (("rack", "r1"), ("zone", "z"))
            state.put_node(node("dead", state=NodeState.DEAD, labels=labels, hardware=Hardware(bad_gpus=(1,))))
            state.put_node(node("faulty", labels=labels, hardware=Hardware(bad_gpus=(1,))))
            state.put_node(node("draining", state=NodeState.DRAINING, drain_by_ms=5, capacity=Resources()))
            state.put_window(Window(name="open", start_ms=1, nodes=("dead",)))
            share = Share(group="main", node_id="gone", count=3)
            state.put_reservation(Reservation(job_id=waits, attempt=1, start_ms=5, shares=(share,), made_at_ms=1))
            place = TaskPlacement(rank=0, node_id="n1")
            state.put_fence(Fence(job_id=fenced, attempt=1, tasks=(place,), made_at_ms=1))
            more = ("/nodes/dead", "/nodes/n1", "/nodes/draining", "/schedule?span=7d", "/nodes?show=faulty")
            shown = await all_pages(master, *more)
            assert "1 node is dead: dead." in shown["/"]
            assert 'class="gpu-bad"' in shown["/nodes?show=faulty"]
            assert ">runs</a>" in shown["/nodes/n1"]
            assert f'href="/jobs/{job_id}"' in shown["/schedule"]
            for kind in ("window", "fence", "reserved start"):
                assert f"<td>{kind}</td>" in shown["/schedule"]

    asyncio.run(story())


SENSELESS = ("page=-1", "page=99999999999", "state=%00", "span=1y", "sort=x", "domain=//%2F", "q=" + "a" * 5000)


def test_a_query_that_makes_no_sense_shows_a_page_all_the_same() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master):
            for query in (*SENSELESS, "show=x&show=y"):
                for path in PATHS:
                    await page(master, f"{path}?{query}")

    asyncio.run(story())


def test_only_what_changes_is_sent_to_a_page_that_is_open() -> None:
    async def story() -> None:
        async with one_master() as master:
            part = await page(master, "/nodes", headers={"HX-Request": "true"})
            assert part.lstrip().startswith('<div id="live"')
            assert "<html" not in part

    asyncio.run(story())


def test_the_stream_tells_of_changes_once_a_second_at_most_and_ends_with_the_master() -> None:
    async def story() -> None:
        async with one_master() as master:
            address = master.server.record.http_address
            lines = asyncio.get_running_loop().run_in_executor(None, _read_changes, address, 2)
            for number in range(1_000):
                if lines.done():
                    break
                await master.submit(spec(f"job-{number}", cpus=64))
                await asyncio.sleep(0.05)
            told = await lines
            assert [set(one) for one in told] == [{"revision", "leader", "refresh_s"}] * 2
            assert told[1]["revision"] > told[0]["revision"]
            assert told[0]["leader"] == "m1"
            await until(lambda: not master.server.endpoints.site.listeners)
            listening = asyncio.get_running_loop().run_in_executor(None, _read_changes, address, 1_000)
            await until(lambda: master.server.endpoints.site.listeners)
        assert len(await listening) < 1_000

    asyncio.run(story())


def _read_changes(address: str, most: int) -> list[dict[str, object]]:
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("GET", "/ui/changes")
    response = connection.getresponse()
    assert response.headers["Content-Type"].startswith("text/event-stream")
    told: list[dict[str, object]] = []
    try:
        while len(told) < most and (line := response.readline()):
            if line.startswith(b"data: "):
                told.append(json.loads(line[6:]))
    except (OSError, http.client.HTTPException):
        pass  # the master has ended
    finally:
        connection.close()
    return told


def test_trends_are_samples_of_an_hour_at_most() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master):
            trends = master.server.endpoints.site.trends
            for _ in range(500):
                trends.take()
            answer = (await http_client.get(master, "/ui/trends")).json()
            assert len(answer["at_s"]) == 360
            assert {len(series) for chart in answer["charts"].values() for series in chart.values()} == {360}
            assert answer["charts"]["cpu"]["total"][-1] == 4000

    asyncio.run(story())


def test_a_resource_that_no_node_has_had_keeps_its_chart_hidden_for_the_first_node() -> None:
    def hidden(text: str) -> set[str]:
        return set(re.findall(r'data-chart="(\w+)" hidden', text))

    async def story() -> None:
        async with one_master() as master:
            trends = master.server.endpoints.site.trends
            trends.take()
            assert hidden(await page(master, "/")) == {"gpu", "cpu", "memory"}
            async with agent(master):
                trends.take()
                assert hidden(await page(master, "/?again=1")) == {"gpu"}  # an answer is shared for a moment

    asyncio.run(story())
