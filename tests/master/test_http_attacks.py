"""What strangers send to the HTTP port, over real sockets: nothing of it hangs, grows, or is answered with 500."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from gosched.config import Listen
from gosched.master.base.audited import Audit
from gosched.master.base.callers import Callers
from gosched.master.base.clock import SystemClock
from gosched.master.base.turns import Turns
from gosched.master.http import entrance, protocol, server
from gosched.master.http.connections import Bounds
from gosched.master.http.origin import Hosts
from gosched.master.http.server import HttpServer
from gosched.observe.faults import Faults
from tests.master import http_client
from tests.master.harness import LIMIT_S, Front, one_master, until

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what takes seconds take tenths of them."""
    for name in ("FIRST_REQUEST_S", "KEEP_ALIVE_S", "HEAD_S", "BODY_S", "LINGER_S", "CLOSING_S"):
        monkeypatch.setattr(protocol, name, 0.3)
    monkeypatch.setattr(server, "TICK_S", 0.05)
    monkeypatch.setattr(entrance, "WRITE_S", 0.5)


def with_bounds(monkeypatch: pytest.MonkeyPatch, *, total: int, each: int) -> None:
    monkeypatch.setattr(server, "default_bounds", lambda: Bounds(total=total, each=each))


async def opened(front: Front) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = front.server.record.http_address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def said(front: Front, *sent: bytes) -> bytes:
    """Return all that the server says to this before it closes the connection."""
    reader, writer = await opened(front)
    with contextlib.suppress(ConnectionError):
        for part in sent:
            writer.write(part)
            await writer.drain()
    answer = b""
    async with asyncio.timeout(LIMIT_S):
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(65536):
                answer += part
    writer.close()
    return answer


def problem(answer: bytes) -> dict[str, object]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    return json.loads(body)


def run(story: Callable[[Front], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        async with one_master() as master:
            await story(master)
            assert (await http_client.get(master, "/healthz")).status == 200

    asyncio.run(all_of_it())


def test_a_giant_head_is_refused_before_it_is_read_to_its_end() -> None:
    async def story(master: Front) -> None:
        answer = await said(master, b"GET / HTTP/1.1\r\nHost: x\r\n", *[b"X: " + b"a" * 65536] * 20)
        assert problem(answer)["status"] == 431
        answer = await said(master, b"GET /" + b"a" * 200_000)
        assert problem(answer)["status"] == 431

    run(story)


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\x00b\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nabcde",
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
        "GET /\u00fc HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_two_servers_may_read_in_two_ways_is_refused_and_the_connection_closed(request_: bytes) -> None:
    async def story(master: Front) -> None:
        answer = await said(master, request_ + GET if request_.endswith(b"\r\n\r\n") else request_)
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 405", b"HTTP/1.1 408", b"HTTP/1.1 501"))
        assert b"\nok" not in answer

    run(story)


def test_who_sends_a_head_or_a_body_slowly_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "FIRST_REQUEST_S", 3.0)  # the first bytes come in time on a busy machine, too

    async def story(master: Front) -> None:
        silent, head, body = await asyncio.gather(
            said(master),
            said(master, b"GET /healthz HTTP/1.1\r\nHost: x\r\n"),
            said(master, b"PUT /api/v1/queues HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"),
        )
        assert silent == b""
        assert problem(head)["status"] == 408
        assert body == b"" or body.startswith((b"HTTP/1.1 408", b"HTTP/1.1 405"))

    run(story)


def test_requests_one_behind_the_other_are_answered_in_their_order() -> None:
    async def story(master: Front) -> None:
        answer = await said(master, GET * 50 + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert answer.count(b"HTTP/1.1 200 OK") == 51

    run(story)


def test_connections_without_a_request_give_way_to_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    with_bounds(monkeypatch, total=60, each=40)
    monkeypatch.setattr(protocol, "FIRST_REQUEST_S", 60.0)

    async def story(master: Front) -> None:
        idle = [await opened(master) for _ in range(200)]
        for _ in range(20):
            assert (await http_client.get(master, "/healthz")).status == 200
        await until(lambda: sum(reader.at_eof() for reader, _ in idle) >= 160)
        assert (await http_client.get(master, "/healthz")).status == 200
        for _, writer in idle:
            writer.close()

    run(story)


def test_idle_connections_are_closed_after_a_while() -> None:
    async def story(master: Front) -> None:
        idle = [await opened(master) for _ in range(100)]
        async with asyncio.timeout(LIMIT_S):
            for reader, writer in idle:
                assert await reader.read() == b""
                writer.close()

    run(story)


@contextlib.asynccontextmanager
async def serving(front: Front, size: int) -> AsyncIterator[tuple[str, int, list[float]]]:
    """An application with one large answer, behind the same server and entrance."""
    took: list[float] = []

    async def large(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        started = asyncio.get_running_loop().time()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
        await send({"type": "http.response.body", "body": bytes(size)})
        took.append(asyncio.get_running_loop().time() - started)

    services = front.server.endpoints.http_services
    audit = Audit(lambda record: None, "m1", lambda: 0)
    inside = entrance.Entrance(
        large,
        services,
        Hosts((), list),
        front.server.metrics,
        SystemClock(),
        services.access,
        lambda: "",
        audit,
        Callers(),
        Turns(lambda: None),
    )
    running = HttpServer(inside, Faults(), key="test")
    port = await running.start(Listen(host="127.0.0.1", port=0), None)
    try:
        yield "127.0.0.1", port, took
    finally:
        await running.stop()


def test_a_reader_that_does_not_read_is_given_up_and_its_answer_is_counted_until_then() -> None:
    async def story(master: Front) -> None:
        lane = master.server.endpoints.http_services.lanes.uses[entrance.Lane.CALLS]
        async with serving(master, 32 * 1024 * 1024) as (host, port, took):
            reader, writer = await asyncio.open_connection(host, port, limit=1024)
            writer.write(GET)
            await until(lambda: lane.all_bytes >= 32 * 1024 * 1024)
            more = [await asyncio.open_connection(host, port, limit=1024) for _ in range(3)]
            for _, another in more:
                another.write(GET)
            heads = [await reader.readline() for reader, _ in more]
            assert sorted(head.split()[1] for head in heads) == [b"200", b"429", b"429"]  # 64 MiB of one caller
            await until(lambda: len(took) == 4 and not lane.all_bytes)
            assert max(took) < 5
            for _, each in [(reader, writer), *more]:
                each.close()

    run(story)


def test_names_that_a_stranger_may_own_are_refused_and_those_of_a_cluster_are_not() -> None:
    hosts = Hosts(["gosched.example.com"], lambda: ["gosched-0.gosched.batch.svc.cluster.local", "node7.corp.example"])
    for taken in (
        "10.1.2.3:8080",
        "[::1]:8080",
        "localhost",
        "Localhost:80",
        "app.localhost",
        "master-1:8080",
        "gosched.example.com",
        "GOSCHED.example.com.:8080",
        "gosched-0.gosched.batch.svc.cluster.local:8080",
        "gosched.batch.svc",
        "gosched.batch:8080",
        "node7.corp.example",
        "printer.local",
        "a.b.internal",
    ):
        assert hosts.takes(taken), taken
    for refused in (
        "evil.com",
        "localhost.evil.com",
        "10.0.0.1.evil.com",
        "127.0.0.1.nip.io",
        "",
        ":80",
        "a.b:x",
        "x.dev",
    ):
        assert not hosts.takes(refused), refused


def test_a_proxys_names_are_taken_where_the_config_has_them() -> None:
    hosts = Hosts(["*.example.com"], list)
    assert hosts.takes("a.example.com")
    assert not hosts.takes("example.com.evil.com")
    assert not hosts.takes("notexample.com")
    assert Hosts(["*"], list).takes("anything.com")


def test_a_page_of_another_site_neither_reads_by_a_name_of_its_own_nor_changes_anything() -> None:
    async def story(master: Front) -> None:
        answer = await http_client.get(master, "/api/v1/status", headers={"Host": "evil.com"})
        assert (answer.status, answer.json()["title"]) == (421, "Misdirected Request")
        assert (await http_client.get(master, "/metrics", headers={"Host": "evil.com"})).status == 200
        address = master.server.record.http_address
        for headers, status in (
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Sec-Fetch-Site": "same-site"}, 403),
            ({"Origin": "http://evil.com"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": f"http://{address}", "Sec-Fetch-Site": "same-origin"}, 405),
            ({}, 405),
        ):
            assert (await http_client.request(master, "POST", "/api/v1/status", headers=headers)).status == status

    run(story)
