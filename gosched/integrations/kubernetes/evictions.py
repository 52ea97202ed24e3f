"""Stop orders into evictions, by the API that respects PodDisruptionBudgets.

Invariant: a pod is asked to go until it is gone, however often its budget says that it may not go now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

import structlog

from gosched.integrations.kubernetes.api import KubeApi, KubeError, backoff_s
from gosched.integrations.kubernetes.world import World

MAX_EVICTIONS = 16  # at once
ASK_AGAIN_S = 5.0  # a pod whose eviction is held back by its budget

log = structlog.get_logger()


class Evictions:
    def __init__(self, api: KubeApi, world: World, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._api = api
        self._world = world
        self._spawn = spawn
        self._calls = asyncio.Semaphore(MAX_EVICTIONS)
        self._going: set[str] = set()

    def begin(self, uid: str) -> None:
        """Evict a pod; once is enough."""
        if uid not in self._going:
            self._going.add(uid)
            self._spawn(self._evict(uid))

    async def _evict(self, uid: str) -> None:
        failures = 0
        try:
            while (pod := self._world.pods.get(uid)) is not None and not pod.deleting and not pod.has_ended:
                path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
                body = {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": pod.name, "namespace": pod.namespace},
                    "deleteOptions": {"preconditions": {"uid": uid}},
                }
                try:
                    async with self._calls:
                        await self._api.post(path, body)
                    return
                except KubeError as error:
                    failures += 1
                    if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT) and failures > 1:
                        return  # the watch says what became of it
                    if failures == 1:
                        log.info("a pod cannot be evicted yet", pod=pod.path, why=str(error))
                    await asyncio.sleep(min(ASK_AGAIN_S, max(error.retry_after_s, backoff_s(failures))))
        finally:
            self._going.discard(uid)
