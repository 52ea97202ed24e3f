"""What people see at a pod: its condition PodScheduled, and an event, with gosched's own words.

Invariant: only what differs from what the API server holds is written, and of each pod at most every PAUSE_S.
"""

from __future__ import annotations

import asyncio
import datetime
import time
import uuid
from http import HTTPStatus
from typing import Any

import structlog

from gosched.integrations.kube_objects.pods import Pod
from gosched.integrations.kubernetes.api import KubeApi, KubeError
from gosched.integrations.kubernetes.world import World

UNSCHEDULABLE = "Unschedulable"  # as kube-scheduler says it: autoscalers look for it
WAITING_FOR_GANG = "WaitingForGang"
NOT_SUPPORTED = "NotSupported"
NOT_SUBMITTED = "NotSubmitted"
JOB_CANCELLED = "JobCancelled"

PAUSE_S = 10.0
MAX_WRITES = 8  # at once
MAX_MESSAGE = 1024  # of an event

log = structlog.get_logger()


class Conditions:
    def __init__(self, api: KubeApi, world: World, scheduler: str) -> None:
        self._api = api
        self._world = world
        self._scheduler = scheduler
        self._due: dict[str, tuple[str, str]] = {}  # uid -> reason and message
        self._written: dict[str, tuple[float, str, str]] = {}  # uid -> when, reason, message
        self._wake = asyncio.Event()

    def say(self, pod: Pod, reason: str, message: str) -> None:
        """Say why a pod waits."""
        message = " ".join(message.split())[:MAX_MESSAGE]
        when, *known = self._written.get(pod.uid, (0.0, pod.scheduled_reason, pod.scheduled_message))
        if known == [reason, message]:
            self._due.pop(pod.uid, None)
            return
        if known[0] == reason and time.monotonic() - when < PAUSE_S:
            return  # it is said again with the next look
        self._due[pod.uid] = (reason, message)
        self._wake.set()

    def forget(self, pod: Pod) -> None:
        """Drop what was known of a pod that waits no more."""
        self._due.pop(pod.uid, None)
        self._written.pop(pod.uid, None)

    async def run(self) -> None:
        """Write what is due, for good."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due:
                some = [(uid, self._due.pop(uid)) for uid in list(self._due)[:MAX_WRITES]]
                await asyncio.gather(*[self._write(uid, *said) for uid, said in some])

    async def _write(self, uid: str, reason: str, message: str) -> None:
        pod = self._world.waiting.get(uid)
        if pod is None:
            return
        self._written[uid] = (time.monotonic(), reason, message)
        try:
            await self._api.patch(
                f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status", _status(uid, reason, message)
            )
            await self._api.post(f"/api/v1/namespaces/{pod.namespace}/events", self._event(pod, reason, message))
        except KubeError as error:
            self._written.pop(uid, None)
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                log.warning("a pod's condition could not be written", pod=pod.path, why=str(error))

    def _event(self, pod: Pod, reason: str, message: str) -> dict[str, Any]:
        now = _now()
        involved = {"kind": "Pod", "apiVersion": "v1", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{pod.name[:200]}.{uuid.uuid4().hex[:16]}", "namespace": pod.namespace},
            "involvedObject": involved,
            "type": "Warning",
            "reason": "FailedScheduling",
            "message": f"{reason}: {message}"[:MAX_MESSAGE],
            "source": {"component": self._scheduler},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }


def _status(uid: str, reason: str, message: str) -> dict[str, Any]:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": _now(),
    }
    return {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
