"""REST of nodes, queues, quotas, windows and masters: by the leader and by way of another master."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gosched.core.features import FeatureLevel
from gosched.master.api.lanes import Lane
from gosched.master.http import logs
from tests.master import http_client
from tests.master.harness import LIMIT_S, Front, agent, one_master, spec, two_masters, until
from tests.master.http_client import Answer, get, request

API = "/api/v1"


def named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


async def post(to: Front, path: str, body: Any = None, **headers: str) -> Answer:
    return await request(to, "POST", API + path, body=body, headers=named(headers))


async def put(to: Front, path: str, body: Any = None, **headers: str) -> Answer:
    return await request(to, "PUT", API + path, body=body, headers=named(headers))


def test_nodes_are_listed_shown_closed_and_opened_by_way_of_any_master() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two), agent(one, "n1"), agent(one, "n2"):
            assert [node["id"] for node in (await get(two, f"{API}/nodes?sort=-id")).json()] == ["n2", "n1"]
            assert (await get(two, f"{API}/nodes/n1")).json()["state"] == "READY"
            closed = (await post(two, "/nodes/n1/cordon", {"reason": "new disk"})).json()
            assert (closed["node"], closed["unchanged"]) == ("n1", False)
            assert (await post(one, "/nodes/n1/cordon", {"reason": "new disk"})).json()["unchanged"]
            found = (await get(one, f"{API}/nodes?state=CORDONED&fields=id,reason")).json()
            assert found == [{"id": "n1", "reason": "new disk"}]
            assert (await post(two, "/nodes/n1/uncordon")).status == 200
            assert (await post(two, "/nodes/n2/drain", {"deadline_s": 5})).status == 200
            assert (await get(one, f"{API}/nodes/n2")).json()["reason"] == "drained"
            removed = await request(two, "DELETE", f"{API}/nodes/n1")
            assert (removed.status, removed.json()["code"]) == (409, "REJECTED")
            assert "stop its agent" in removed.json()["detail"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/nodes?stat=READY", "did you mean state?"),
        ("/nodes?sort=cpu", "sort: 'cpu' is no order"),
        ("/nodes?fields=id,labls", "did you mean labels?"),
        ("/nodes?state=UP", "state: 'UP' is none"),
        ("/nodes?label=a", "label: expected key=value, got 'a'"),
        ("/nodes?label=a=1&label=a=2", "label: 'a' is given with two values"),
        ("/nodes?sort=id&sort=name", "is given 2 times"),
        ("/nodes?stale=perhaps", "stale: "),
        ("/queues/x%00%ff", "there is no queue"),
    ],
)
def test_a_mistake_in_a_request_is_named(path: str, words: str) -> None:
    async def story() -> None:
        async with one_master() as master:
            answer = await get(master, API + path)
            assert answer.status in (400, 404)
            assert answer.content_type == "application/problem+json"
            found = answer.json()
            assert set(found) == {"type", "title", "status", "detail", "code", "action"}
            assert words in found["detail"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "the body is not JSON"),
        (b'{"reason": "a", "reason": "b"}', "is given twice"),
        (b'{"reason": NaN}', "NaN is no number"),
        (b'{"reason": "\\ud800"}', "the body is not JSON"),
        (b"\xff\xfe", "the body is not JSON"),
        (b'{"reasn": "a"}', "reasn"),
        (b"[" * 100_000, "the body is not JSON"),
        (b'"text"', "expected keys and values"),
    ],
)
def test_a_body_that_is_no_json_or_says_something_unknown_changes_nothing(body: bytes, words: str) -> None:
    async def story() -> None:
        async with one_master() as master, agent(master):
            answer = await post(master, "/nodes/n1/cordon", body, Content_Type="application/json")
            assert (answer.status, words in answer.json()["detail"]) == (400, True), answer.text
            assert (await post(master, "/nodes/n1/cordon", body, Content_Type="text/plain")).status == 415
            assert (await post(master, "/nodes/n1/cordon", b" " * 1_100_000)).status == 413
            assert master.state.nodes["n1"].state.name == "READY"

    asyncio.run(story())


def test_operators_label_and_taint_nodes_beside_their_agents_config() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            await n1.register(master, labels={"zone": "a"})
            done = await post(master, "/nodes/n1/labels", {"labels": {"disk": "ssd"}, "taints": ["gpu=x:no_schedule"]})
            assert done.status == 200, done.text
            node = master.state.nodes["n1"]
            assert (dict(node.labels), node.set_labels) == ({"zone": "a", "disk": "ssd"}, ("disk",))
            await n1.register(master, labels={"zone": "b"}, incarnation="boot-1")
            node = master.state.nodes["n1"]
            assert (dict(node.labels), [t.key for t in node.taints]) == ({"zone": "b", "disk": "ssd"}, ["gpu"])
            refused = await post(master, "/nodes/n1/labels", {"labels": {"zone": "c"}})
            assert (refused.status, "agent's config" in refused.json()["detail"]) == (409, True)
            done = await post(master, "/nodes/n1/labels", {"drop_labels": ["disk"], "drop_taints": ["gpu:no_schedule"]})
            node = master.state.nodes["n1"]
            assert (dict(node.labels), node.taints, node.set_labels) == ({"zone": "b"}, (), ())
            assert (await post(master, "/nodes/n1/labels", {"drop_labels": ["disk"]})).status == 404

    asyncio.run(story())


def test_queues_are_replaced_only_by_one_that_has_read_what_it_replaces() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two):
            read = await get(two, f"{API}/queues")
            tag = read.headers["ETag"]
            wanted = {"queues": [{"name": "a", "weight": 2}]}
            answers = await asyncio.gather(
                *[
                    put(front, "/queues", {**wanted, "queues": [{"name": f"q{n}"}]}, If_Match=tag)
                    for n, front in enumerate([one, two] * 5)
                ]
            )
            assert sorted(answer.status for answer in answers) == [200] + [412] * 9
            lost = next(answer for answer in answers if answer.status == 412).json()
            assert (lost["code"], lost["action"]) == (
                "PRECONDITION_FAILED",
                "read it again with its new ETag, then decide",
            )
            tag = (await get(one, f"{API}/queues")).headers["ETag"]
            assert (await request(one, "PUT", f"{API}/queues?dryRun=true", body=wanted)).json()["unchanged"] is False
            assert "a" not in one.state.queues
            first = await put(two, "/queues", wanted, If_Match=tag, Idempotency_Key="k1")
            again = await put(one, "/queues", wanted, If_Match=tag, Idempotency_Key="k1")
            assert (first.status, again.status) == (200, 200)
            assert (await get(two, f"{API}/queues/a")).json()["weight"] == 2
            assert (await put(two, "/queues", wanted, If_Match="abc")).status == 400
            wrong = await put(two, "/queues", {"queues": [{"name": "a", "weigth": 2}]})
            assert "weight" in wrong.json()["detail"]

    asyncio.run(story())


def test_quotas_are_set_one_by_one_or_all_together() -> None:
    async def story() -> None:
        async with one_master() as master:
            assert (await put(master, "/quotas/nlp", {"limit": {"gpu": 8, "memory": "1Ti"}})).status == 200
            assert (
                await put(master, "/quotas", {"quotas": [{"tenant": "vision", "max_running_jobs": 3}]})
            ).status == 200
            read = await get(master, f"{API}/quotas")
            assert [quota["tenant"] for quota in read.json()] == ["vision"]
            dropped = await request(
                master, "DELETE", f"{API}/quotas/vision", headers={"If-Match": read.headers["ETag"]}
            )
            assert (dropped.status, master.state.quotas) == (200, {})

    asyncio.run(story())


def test_windows_are_made_and_deleted() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master):
            body = {"start": "+1h", "end": "+2h", "nodes": ["n1"], "reason": "<b>new</b> disk"}
            made = await put(master, "/reservations/w1", body)
            assert (made.status, made.json()["nodes"], made.json()["in_the_way"]) == (200, ["n1"], [])
            listed = await get(master, f"{API}/reservations")
            assert [(row["id"], row["reason"]) for row in listed.json()] == [("w1", "<b>new</b> disk")]
            assert (listed.content_type, listed.headers["X-Content-Type-Options"]) == ("application/json", "nosniff")
            wrong = await put(master, "/reservations/w2", {"end": "tomorrow", "nodes": ["n1"]})
            assert "expected a time" in wrong.json()["detail"]
            assert (await request(master, "DELETE", f"{API}/reservations/w1")).status == 200
            assert (await request(master, "DELETE", f"{API}/reservations/w1")).status == 404

    asyncio.run(story())


def test_leadership_moves_and_a_snapshot_is_of_the_master_that_is_asked() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two):
            moved = await post(two, "/cluster/transfer-leadership")
            assert (moved.status, moved.json()) == (200, {"master": "m2"})
            await until(lambda: two.leads)
            assert (await post(one, "/cluster/snapshot")).json() == {"master": "m1"}
            assert (await get(one, f"{API}/cluster/members")).status == 200

    asyncio.run(story())


def test_a_read_is_the_leaders_unless_a_stale_one_is_enough() -> None:
    async def story() -> None:
        async with two_masters() as (cluster, one, two), agent(one):
            fresh = await get(two, f"{API}/nodes")
            assert int(fresh.headers["X-Gosched-Revision"]) >= one.state.revision - 1
            for path in ("/cluster/members", "/reservations", "/usage"):  # answers without a revision of their own
                assert int((await get(two, API + path)).headers["X-Gosched-Revision"]) >= one.state.revision - 1
            cluster.elect("")
            lost = await get(two, f"{API}/nodes")
            assert (lost.status, lost.headers["Retry-After"]) == (503, "1")
            stale = await get(two, f"{API}/nodes?stale=true")
            assert [node["id"] for node in stale.json()] == ["n1"]
            assert int(stale.headers["X-Gosched-Revision"]) == two.state.revision

    asyncio.run(story())


def test_probes_and_scrapers_have_a_port_without_anything_else() -> None:
    async def story() -> None:
        server = {"grpc_addr": "127.0.0.1:0", "http_addr": "127.0.0.1:0", "probe_addr": "127.0.0.1:0"}
        async with one_master(server=server) as master:
            address = f"127.0.0.1:{master.server.endpoints.probe_port}"
            for path, kind in (("/healthz", "text/plain"), ("/readyz", "text/plain"), ("/metrics", "text/plain")):
                answer = await http_client.get(address, path, headers={"Host": "anything.example.com"})
                assert (answer.status, answer.content_type) == (200, kind)
            for path in ("/api/v1/status", "/", "/openapi.json"):
                assert (await http_client.get(address, path)).status == 404

    asyncio.run(story())


def test_labels_need_the_level_that_brought_them() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master):
            master.state.feature_level = FeatureLevel.FIRST
            answer = await post(master, "/nodes/n1/labels", {"labels": {"a": "b"}})
            assert (answer.status, "finalize-upgrade" in answer.json()["detail"]) == (409, True)

    asyncio.run(story())


def test_usage_is_of_nodes_and_of_tasks_if_wanted() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master) as n1:
            await master.submit(spec("a"))
            await n1.beat(master)
            found = (await get(master, f"{API}/usage?tasks=true")).json()
            assert set(found) == {"nodes", "tasks"}
            assert (await get(master, f"{API}/usage?job=none")).status == 404

    asyncio.run(story())


def test_the_head_of_a_stream_is_answered_and_ends_and_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "HEAD_S", 0.05)
    streams = [
        (f"{API}/events", "text/event-stream", "text/event-stream"),
        (f"{API}/jobs/waits/logs?follow=true", "*/*", "text/plain"),
        ("/ui/changes", "*/*", "text/event-stream"),
    ]

    async def story() -> None:
        async with one_master() as master:
            await master.submit(spec("waits", cpus=100))
            host, _, port = master.server.record.http_address.rpartition(":")
            places = master.server.endpoints.http_services.lanes.uses[Lane.STREAMS]
            reader, writer = await asyncio.open_connection(host, int(port))
            async with asyncio.timeout(LIMIT_S):
                for path, accept, kind in streams:
                    writer.write(f"HEAD {path} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n".encode())
                    head = (await reader.readuntil(b"\r\n\r\n")).decode()
                    assert head.startswith("HTTP/1.1 200 "), path
                    assert f"content-type: {kind}" in head, path
                    await until(lambda: not places.all_calls)
                writer.write(f"HEAD {API}/status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                head = (await reader.read()).decode()  # the connection is as good as new, and no body is on it
            assert head.startswith("HTTP/1.1 200 ")
            assert head.endswith("\r\n\r\n")
            assert "content-length: " in head
            writer.close()

    asyncio.run(story())


def test_a_dry_run_changes_nothing_and_is_refused_where_there_is_none() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master):
            await master.submit(spec("a", cpus=100))
            document = (await get(master, "/openapi.json")).json()
            refused, taken = set(), set()
            for path, operations in document["paths"].items():
                for method in operations.keys() - {"get"}:
                    names = {parameter["name"] for parameter in operations[method].get("parameters", ())}
                    (taken if "dryRun" in names else refused).add((method.upper(), path))
            assert {path for _, path in taken} == {
                f"{API}/{p}" for p in ("jobs", "queues", "quotas", "quotas/{tenant}", "access/bindings")
            }
            assert {("POST", f"{API}/nodes/{{node}}/drain"), ("DELETE", f"{API}/reservations/{{name}}")} <= refused
            for method, path in sorted(refused):
                named_path = path.format(
                    job="a", node="n1", name="w1", member="m1", queue="default", tenant="t", token="t"
                )
                answer = await request(master, method, f"{named_path}?dryRun=true", body={})
                assert (answer.status, "has no dry run" in answer.text) == (400, True), (method, path, answer.text)
            assert master.leads
            assert master.state.nodes["n1"].state.name == "READY"
            assert [job.state.name for job in master.state.jobs.values()] == ["PENDING"]

    asyncio.run(story())
