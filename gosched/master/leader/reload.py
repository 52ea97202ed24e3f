"""The queues and quotas of a master's config, taken over into the cluster's state when the config is read again.

Invariant: a config that cannot be read, or that the cluster refuses, changes nothing; and nothing is taken over
unasked.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from gosched.config import ConfigError, MasterSettings
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.state.cluster_state import ClusterState
from gosched.master.api.leader_calls import LeaderCalls
from gosched.master.base.errors import ApiError
from gosched.wire.codec import to_message
from gosched.wire.v1 import scheduler_pb2, types_pb2

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a config says of queues and quotas."""

    #: Empty: the config does not name any, so they stay as they are. The same holds for `quotas`.
    queues: tuple[Queue, ...]
    quotas: tuple[Quota, ...]


def taken_from(settings: MasterSettings) -> Wanted:
    return Wanted(queues=settings.queue_records() if settings.queues else (), quotas=settings.quota_records())


def differs(wanted: Wanted, state: ClusterState) -> bool:
    queues, quotas = {q.path: q for q in wanted.queues}, {q.tenant: q for q in wanted.quotas}
    return queues not in ({}, state.queues) or quotas not in ({}, state.quotas)


class Reload:
    """The readings of the config. `settings`: those that this master runs with. `read` reads them anew; it raises
    ConfigError."""

    def __init__(
        self,
        settings: MasterSettings,
        calls: LeaderCalls,
        read: Callable[[], MasterSettings],
        set_level: Callable[[str], None] = lambda level: None,
    ) -> None:
        self._settings = settings
        self._calls = calls
        self._read = read
        self._set_level = set_level
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Ask for one more reading of the config."""
        self._asked.set()

    async def run(self) -> None:
        """Read whenever it is asked, until it is cancelled. One log line says what came of each reading."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._once()

    async def _once(self) -> None:
        try:
            settings = self._read()
        except ConfigError as error:
            log.error("the config was read again and changes nothing", why=str(error))
            return
        self._set_level(settings.shown_level)
        others = _changed_keys(self._settings, settings)
        if others:
            log.warning("settings that differ need a restart", keys=",".join(others))
        wanted = taken_from(settings)
        try:
            changed = await self._take_over(wanted)
        except ApiError as error:
            log.error("the config's queues and quotas are not taken over", why=error.detail)
        else:
            log.info("config read again", queues=len(wanted.queues), quotas=len(wanted.quotas), changed=changed)

    async def _take_over(self, wanted: Wanted) -> bool:
        """Take over all in one step; return whether anything changed. Raises ApiError."""
        names: dict[str, Any] = {"request_id": uuid.uuid4().hex, "client_id": "config"}
        queues = [to_message(queue, types_pb2.Queue) for queue in wanted.queues]
        quotas = [to_message(quota, types_pb2.Quota) for quota in wanted.quotas]
        if queues:
            both = scheduler_pb2.SetQueuesRequest(queues=queues, quotas=quotas, sets_quotas=bool(quotas), **names)
            return not (await self._calls.call("SetQueues", both)).unchanged
        if quotas:
            alone = scheduler_pb2.SetQuotasRequest(quotas=quotas, replace=True, **names)
            return not (await self._calls.call("SetQuotas", alone)).unchanged
        return False


def _changed_keys(before: MasterSettings, after: MasterSettings) -> list[str]:
    """Return the top-level keys that need a restart."""
    old, new = before.model_dump(), after.model_dump()
    for settings in (old, new):  # it is taken over
        settings["logging"] = settings["logging"]["format"]
    return [key for key in old if key not in ("queues", "quotas", "log_level") and old[key] != new[key]]
