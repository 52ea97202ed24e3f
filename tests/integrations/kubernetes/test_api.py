"""gosched-kube before API servers that answer what makes no sense, or break off: each case is one line, and goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kubernetes_asyncio.client import ApiClient, Configuration

from gosched.integrations.kubernetes import api as api_module
from gosched.integrations.kubernetes.api import CannotConnect, KubeApi, KubeError, KubeUnreachable

LIMIT_S = 20.0

Json = dict[str, Any]


def answer(body: object, status: str = "200 OK", headers: str = "") -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n{headers}Connection: close\r\n\r\n".encode() + text


def stream(*events: object) -> bytes:
    lines = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + lines


def listed(version: str, *names: str) -> bytes:
    items = [{"metadata": {"name": name}} for name in names]
    return answer({"metadata": {"resourceVersion": version}, "items": items})


def event(kind: str, version: str) -> Json:
    return {"type": kind, "object": {"metadata": {"name": kind.lower(), "resourceVersion": version}}}


async def with_server(answers: list[bytes], story: Callable[[KubeApi, list[str]], Awaitable[None]]) -> None:
    """Run a story with a server that gives one answer after the other, and the last one for ever."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.decode().split()[1])
        writer.write(answers.pop(0) if len(answers) > 1 else answers[0])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    api = KubeApi(ApiClient(Configuration(host=f"http://127.0.0.1:{port}")))
    try:
        async with asyncio.timeout(LIMIT_S):
            await story(api, asked)
    finally:
        await api.close()
        server.close()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (answer(b"<html>"), "no JSON"),
        (answer([1]), "no object"),
        (answer({"message": "no such\nthing"}, "404 Not Found"), "no such thing"),
        (answer(b"bad gateway", "502 Bad Gateway"), "HTTP 502 Bad Gateway"),
        (answer({"message": 7}, "403 Forbidden"), "HTTP 403 Forbidden"),
        (b"nonsense\r\n\r\n", "/x"),
    ],
)
def test_an_answer_that_makes_no_sense_is_one_line(given: bytes, words: str) -> None:
    async def story(api: KubeApi, asked: list[str]) -> None:
        with pytest.raises(KubeError) as raised:
            await api.get("/x")
        assert words in str(raised.value)
        assert "\n" not in str(raised.value)

    asyncio.run(with_server([given], story))


@pytest.mark.parametrize("given", [{}, {"metadata": {}, "items": {}}, {"metadata": 3, "items": []}])
def test_a_list_of_the_wrong_shape_is_refused(given: object) -> None:
    async def story(api: KubeApi, asked: list[str]) -> None:
        with pytest.raises(KubeUnreachable, match="no list of objects"):
            await api.list_all("/x")

    asyncio.run(with_server([answer(given)], story))


def test_a_list_is_asked_for_page_by_page() -> None:
    async def story(api: KubeApi, asked: list[str]) -> None:
        found, version = await api.list_all("/x")
        assert ([each["metadata"]["name"] for each in found], version) == (["a", "b"], "5")
        assert "continue=more" in asked[1]

    first = answer({"metadata": {"resourceVersion": "4", "continue": "more"}, "items": [{"metadata": {"name": "a"}}]})
    asyncio.run(with_server([first, listed("5", "b")], story))


@pytest.mark.parametrize(
    "broken",
    [
        stream({"type": "ERROR", "object": {"code": 410, "message": "too old"}}),
        answer({"message": "too old"}, "410 Gone"),
    ],
)
def test_changes_that_were_missed_are_listed_again(broken: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "backoff_s", lambda failures: 0.01)
    answers = [
        listed("1", "a"),
        stream(event("ADDED", "2"), event("BOOKMARK", "7")),
        stream("no event"),
        broken,
        listed("9", "b"),
        stream(event("DELETED", "10")),
        stream(),
    ]

    async def story(api: KubeApi, asked: list[str]) -> None:
        seen: list[object] = []
        done = asyncio.Event()

        def replace(items: list[Json]) -> None:
            seen.append([each["metadata"]["name"] for each in items])

        def change(kind: str, found: Json) -> None:
            seen.append(kind)
            if kind == "DELETED":
                done.set()

        following = asyncio.ensure_future(api.follow("/x", replace, change))
        await done.wait()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert seen == [["a"], "ADDED", ["b"], "DELETED"]
        assert "resourceVersion=7" in asked[3]

    asyncio.run(with_server(answers, story))


def test_a_server_that_is_not_there_is_one_line() -> None:
    async def story() -> None:
        api = KubeApi(ApiClient(Configuration(host="http://127.0.0.1:1")))
        with pytest.raises(KubeUnreachable, match="/x"):
            await api.get("/x")
        await api.close()

    asyncio.run(story())


@pytest.mark.parametrize("text", ["", "nonsense: [", "clusters: 3", "apiVersion: v1\nkind: Config\n"])
def test_a_kubeconfig_that_makes_no_sense_is_one_line(tmp_path: Any, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(CannotConnect, match="cannot use") as raised:
        asyncio.run(KubeApi.open(str(tmp_path / "config"), ""))
    assert "\n" not in str(raised.value)
