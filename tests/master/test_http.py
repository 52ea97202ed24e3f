from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from gosched.config import Listen
from gosched.core.limits import MAX_STATE_BYTES
from gosched.master.http.protocol import TRANSPORT
from gosched.master.http.server import HttpServer
from gosched.observe.faults import Faults
from tests.master import http_client
from tests.master.harness import SUCCEEDED, Front, agent, one_master, spec, two_masters, until


async def get(front: Front, path: str) -> tuple[int, str, str]:
    answer = await http_client.get(front, path)
    return answer.status, answer.content_type, answer.text


async def status(front: Front) -> Any:
    answer = await http_client.get(front, "/api/v1/status")
    assert answer.status == 200
    return answer.json()


def test_the_body_of_an_answer_does_not_wait_until_its_head_is_acknowledged() -> None:
    async def story() -> None:
        options = []

        async def application(scope: Any, receive: Any, send: Any) -> None:
            taken = scope["state"][TRANSPORT].get_extra_info("socket")
            options.append(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok"})

        server = HttpServer(application, Faults(), key="test")
        port = await server.start(Listen(host="127.0.0.1", port=0), None)
        try:
            assert (await http_client.get(f"127.0.0.1:{port}", "/")).text == "ok"
        finally:
            await server.stop()
        assert options == [1]

    asyncio.run(story())


def test_status_has_what_the_contract_names() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master):
            await master.submit(spec("waits", cpus=64))
            found = await status(master)
            names = "leader epoch revision masters nodes nodes_ready jobs pending running resources queues"
            assert set(names.split()) <= set(found)
            assert (found["leader"], found["nodes"], found["nodes_ready"], found["pending"]) == ("m1", 1, 1, 1)
            assert set(found["masters"][0]) >= {"id", "address", "role", "healthy"}
            assert found["resources"]["total"]["cpu"] == 4

    asyncio.run(story())


def test_status_and_metrics_show_what_the_state_takes_and_a_job_with_a_large_environment_is_in_it() -> None:
    async def story() -> None:
        async with one_master() as master:
            before = await status(master)
            wanted = spec("waits", cpus=64)
            await master.submit(replace(wanted, groups=(replace(wanted.groups[0], env=(("BIG", "x" * 200_000),)),)))
            found = await status(master)
            assert 200_000 < found["state_bytes"] - before["state_bytes"] < 210_000
            assert found["state_bytes_limit"] == MAX_STATE_BYTES
            samples = _samples((await get(master, "/metrics"))[2])
            shown = [value for name, value in samples.items() if name.startswith("gosched_state_bytes kind=")]
            assert sum(shown) == found["state_bytes"]
            assert samples["gosched_state_bytes_limit"] == MAX_STATE_BYTES

    asyncio.run(story())


def test_a_follower_shows_the_leaders_status_and_its_own_when_there_is_none() -> None:
    async def story() -> None:
        async with two_masters() as (cluster, _, two):
            found = await status(two)
            assert found["leader"] == "m1"
            cluster.elect("")
            found = await status(two)
            assert found["leader"] == ""
            assert {m["id"]: m["grpc_address"] for m in found["masters"]}["m1"]

    asyncio.run(story())


def test_ready_means_a_leader_and_health_means_the_process() -> None:
    async def story() -> None:
        async with two_masters() as (cluster, one, two):
            for front in (one, two):
                assert (await get(front, "/readyz"))[0] == 200
            cluster.elect("")
            code, kind, body = await get(two, "/readyz")
            assert (code, kind) == (503, "application/problem+json")
            assert "there is no leader" in body
            assert (await get(two, "/healthz"))[0] == 200
            code, kind, _ = await get(two, "/nowhere")
            assert (code, kind) == (404, "application/problem+json")

    asyncio.run(story())


def test_metrics_name_what_happened_and_only_the_leader_describes_the_cluster() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two), agent(one) as n1:
            await one.submit(spec("a"))
            await one.submit(spec("b", cpus=64))
            await until(lambda: n1.orders)
            n1.see_all(SUCCEEDED, exit_code=0)
            await n1.beat(one)
            await one.until_planned("b")
            shown, of_follower = [_samples((await get(front, "/metrics"))[2]) for front in (one, two)]
            assert shown["gosched_raft_is_leader"] == 1
            assert shown["gosched_nodes state=READY"] == 1
            assert shown["gosched_jobs queue=default state=SUCCEEDED"] == 1
            assert shown["gosched_jobs queue=default state=PENDING"] == 1
            assert shown["gosched_pending_jobs queue=default reason=NODE_TOO_SMALL"] == 1
            assert shown["gosched_placements_total"] == 1
            assert shown["gosched_job_queue_wait_seconds_count queue=default"] == 1
            assert shown["gosched_grpc_server_handled_total code=OK method=/gosched.v1.SchedulerService/SubmitJob"] == 2
            assert shown["gosched_queue_cpu_cores kind=used queue=default"] == 0
            assert of_follower["gosched_raft_is_leader"] == 0
            assert not [name for name in of_follower if name.startswith(("gosched_nodes", "gosched_jobs"))]

    asyncio.run(story())


def _samples(text: str) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = "".join(f" {key}={value}" for key, value in sorted(sample.labels.items()))
            found[sample.name + labels] = sample.value
    return found
