"""The API server: requests, listings, and watches that go on whatever breaks.

kubernetes-asyncio brings the kubeconfig, credentials that renew themselves, and the connections. Objects stay plain
JSON: its models, like those of other clients, refuse the server's answer to a binding, a Status (ADR 0090).

Invariant: each request ends within REQUEST_S, and each watch is opened anew within WATCH_S.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from http import HTTPStatus
from typing import Any

import aiohttp
import structlog
import yaml
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

REQUEST_S = 15.0
WATCH_S = 300
SILENCE_S = 330.0  # of a watch: longer than the server keeps one
PAGE = 500
MAX_ANSWER_BYTES = 64 << 20
MAX_EVENT_BYTES = 8 << 20  # of one object: etcd takes 1.5 MiB
BACKOFF_MIN_S, BACKOFF_MAX_S = 0.2, 10.0
MAX_CONNECTIONS = 100

log = structlog.get_logger()

Json = dict[str, Any]


class KubeError(Exception):
    """The API server refused a request, in one line. `status`: of HTTP."""

    def __init__(self, status: int, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s

    @property
    def may_pass(self) -> bool:
        """Return whether the same request may succeed later."""
        return self.status == HTTPStatus.TOO_MANY_REQUESTS or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR


class KubeUnreachable(KubeError):
    """No answer came, or one that is none. What was asked for may have happened."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.SERVICE_UNAVAILABLE, message)


class CannotConnect(Exception):
    """There is no usable configuration of an API server; one line that says what to do."""


class KubeApi:
    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._host: str = str(client.configuration.host).rstrip("/")
        # A session of its own on those connections: the client's asks the environment for a proxy at each request, in a
        # thread, which takes a third of the time of a binding. A kubeconfig's proxy-url counts.
        connector = client.rest_client.pool_manager.connector
        self._session = aiohttp.ClientSession(connector=connector, connector_owner=False)
        self._server_hostname = client.configuration.tls_server_name or None

    @classmethod
    async def open(cls, kubeconfig: str, context: str) -> KubeApi:
        """Return the API of a kubeconfig, or, without one, of the cluster that this pod runs in. Raises
        CannotConnect."""
        configuration = Configuration()
        configuration.connection_pool_maxsize = MAX_CONNECTIONS
        try:
            if kubeconfig:
                await load_kube_config(kubeconfig, context or None, client_configuration=configuration)
            else:
                load_incluster_config(client_configuration=configuration)
            return cls(ApiClient(configuration))
        except (AttributeError, ConfigException, KeyError, OSError, TypeError, ValueError, yaml.YAMLError) as error:
            where = kubeconfig or "the service account of this pod (name a --kubeconfig where this is no pod)"
            raise CannotConnect(f"cannot use {where}: {' '.join(str(error).split())}") from error

    async def close(self) -> None:
        await self._session.close()
        await self._client.close()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Json:
        return await self._request("GET", path, query=query)

    async def post(self, path: str, body: Json) -> Json:
        return await self._request("POST", path, body=body)

    async def put(self, path: str, body: Json) -> Json:
        return await self._request("PUT", path, body=body)

    async def patch(self, path: str, body: Json, *, kind: str = "strategic-merge-patch") -> Json:
        return await self._request("PATCH", path, body=body, content=f"application/{kind}+json")

    async def list_all(self, path: str) -> tuple[list[Json], str]:
        """Return all objects, asked for page by page, and the version that they are of."""
        found: list[Json] = []
        query = {"limit": str(PAGE)}
        while True:
            page = await self.get(path, query)
            items, metadata = page.get("items"), page.get("metadata")
            if not isinstance(metadata, dict) or not isinstance(items, list | None):
                raise KubeUnreachable(f"{path}: the answer is no list of objects")
            found += items or []
            if not metadata.get("continue"):
                return found, str(metadata.get("resourceVersion") or "")
            query["continue"] = str(metadata["continue"])

    async def follow(
        self, path: str, replace: Callable[[list[Json]], None], change: Callable[[str, Json], None]
    ) -> None:
        """List and watch for good. `replace` gets all objects, at first and whenever changes were missed; `change` gets
        ADDED, MODIFIED or DELETED and an object."""
        failures = 0
        version = ""
        while True:
            began = time.monotonic()
            try:
                if not version:
                    items, version = await self.list_all(path)
                    replace(items)
                async for kind, found in self._watch(path, version):
                    failures = 0
                    version = str(found["metadata"]["resourceVersion"])
                    if kind != "BOOKMARK":
                        change(kind, found)
                if time.monotonic() - began > BACKOFF_MAX_S:
                    continue  # the server ends each watch in time
            except KubeError as error:
                if error.status == HTTPStatus.GONE:
                    log.info("changes were missed; all is listed again", path=path)
                    version = ""
                    if not failures:
                        failures = 1
                        continue
                elif failures == 0:
                    log.warning("the API server does not answer; it is asked again", path=path, why=str(error))
            failures += 1
            await asyncio.sleep(backoff_s(failures))

    async def _watch(self, path: str, version: str) -> AsyncIterator[tuple[str, Json]]:
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_S, sock_read=SILENCE_S)
        try:
            async with await self._send("GET", path, query, None, "application/json", timeout) as response:
                if response.status != HTTPStatus.OK:
                    raise _refusal(response, await _content(response))
                async for line in _lines(response):
                    yield _event(path, line)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise KubeUnreachable(f"{path}: {_words(error)}") from error

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        content: str = "application/json",
    ) -> Json:
        timeout = aiohttp.ClientTimeout(total=REQUEST_S)
        try:
            async with await self._send(method, path, query, body, content, timeout) as response:
                text = await _content(response)
                if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
                    raise _refusal(response, text)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise KubeUnreachable(f"{method} {path}: {_words(error)}") from error
        return _parsed(path, text)

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Json | None,
        content: str,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": "application/json", "Content-Type": content, "User-Agent": "gosched-kube"}
        try:
            await self._client.update_params_for_auth(headers, [], ["BearerToken"])
        except (ConfigException, KeyError, TypeError, ValueError) as error:  # of a file or program that renews them
            raise KubeUnreachable(f"the credentials for the API server cannot be renewed: {_words(error)}") from error
        return await self._session.request(
            method,
            self._host + path,
            params=query,
            data=None if body is None else json.dumps(body).encode(),
            headers=headers,
            timeout=timeout,
            server_hostname=self._server_hostname,
            proxy=self._client.configuration.proxy,
        )


def backoff_s(failures: int) -> float:
    """Return how long to wait after so many failures in a row."""
    longest: float = min(BACKOFF_MAX_S, BACKOFF_MIN_S * 2 ** min(failures, 10))
    return longest * random.uniform(0.5, 1.0)


async def _content(response: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise KubeUnreachable(f"{response.url.path}: the answer has more than {MAX_ANSWER_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    left = b""
    async for part in response.content.iter_any():
        *whole, left = (left + part).split(b"\n")
        for line in whole:
            if line:
                yield line
        if len(left) > MAX_EVENT_BYTES:
            raise KubeUnreachable(f"{response.url.path}: one event has more than {MAX_EVENT_BYTES} bytes")


def _event(path: str, line: bytes) -> tuple[str, Json]:
    event = _parsed(path, line)
    kind, found = event.get("type"), event.get("object")
    if kind == "ERROR" and isinstance(found, dict):
        code = found.get("code")
        raise KubeError(code if isinstance(code, int) else 500, str(found.get("message")))
    metadata = found.get("metadata") if isinstance(found, dict) else None
    if not isinstance(kind, str) or not isinstance(metadata, dict) or "resourceVersion" not in metadata:
        raise KubeUnreachable(f"{path}: an event of the watch makes no sense")
    assert isinstance(found, dict)
    return kind, found


def _parsed(path: str, text: bytes) -> Json:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise KubeUnreachable(f"{path}: the answer is no JSON") from error
    if not isinstance(found, dict):
        raise KubeUnreachable(f"{path}: the answer is no object")
    return found


def _refusal(response: aiohttp.ClientResponse, text: bytes) -> KubeError:
    """Return the error with the words of the Status that came, or else of HTTP."""
    try:
        said = json.loads(text).get("message")
    except (ValueError, AttributeError):
        said = None
    wait = response.headers.get("Retry-After", "")
    words = said if isinstance(said, str) and said else f"HTTP {response.status} {response.reason}"
    return KubeError(
        response.status,
        f"{response.method} {response.url.path}: {' '.join(words.split())}",
        retry_after_s=float(wait) if wait.isdecimal() else 0.0,
    )


def _words(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
