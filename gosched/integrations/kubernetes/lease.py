"""The Lease that lets one bridge alone serve a Kubernetes cluster.

Another holder's lease has expired once it has not changed for its whole duration by this machine's monotonic clock, so
no two clocks need to agree. A bridge that cannot renew does not end, since the API server may be away for all: it tells
the masters that its nodes live, and begins nothing until it knows that nobody else has the lease.

Invariant: while `holds`, no other bridge has the lease. `keep` returns by an exception alone.
"""

from __future__ import annotations

import asyncio
import datetime
import math
import time
from http import HTTPStatus
from typing import Any, NoReturn

import structlog

from gosched.integrations.kubernetes.api import CannotConnect, KubeApi, KubeError

#: Below the masters' `lease.node_timeout`: the nodes are not dead by the time that another bridge takes over.
LEASE_S = 4
RENEW_S = 1.0
NAMESPACE = "kube-system"
_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"

log = structlog.get_logger()


class LeaseLost(Exception):
    """Another bridge holds the lease; one line that says which."""


class Lease:
    """`name`: of the lease. `holder`: who this is, unlike all others that may run at once."""

    def __init__(self, api: KubeApi, name: str, holder: str) -> None:
        self._api = api
        self._name = name
        self._holder = holder
        self._held: dict[str, Any] = {}  # the lease as this bridge wrote it last
        self._renewed = -math.inf  # before it was sent
        self._answered = False  # by the API server, ever
        self._fails = False  # and that was said
        self._seen = ("", 0.0)  # another's lease: its version, and since when it has not changed

    def holds(self) -> bool:
        """Return whether the lease is this bridge's for certain."""
        return bool(self._held) and time.monotonic() - self._renewed < LEASE_S

    async def acquire(self) -> None:
        """Return once this bridge holds the lease. Raises CannotConnect where it may not."""
        waits = False
        while not await self._try():
            if self._seen[0] and not waits:
                waits = True
                log.info("another bridge serves this cluster; this one waits for its lease", lease=self._name)
            await asyncio.sleep(RENEW_S)
        if waits:
            log.info("the lease is held now", lease=self._name)

    async def keep(self) -> NoReturn:
        """Renew the lease for good. Raises LeaseLost."""
        while True:
            await asyncio.sleep(RENEW_S)
            await self._try()

    async def release(self) -> None:
        """Let the next one have the lease at once, where that can be said within RENEW_S; else it expires."""
        if not self._held:
            return
        try:
            async with asyncio.timeout(RENEW_S):
                await self._write({**self._held["spec"], "holderIdentity": ""}, self._held)
        except (KubeError, TimeoutError) as error:
            log.info("the lease was not released; it expires", lease=self._name, why=str(error))

    async def _try(self) -> bool:
        """Renew the lease, or take one that nobody holds; return whether it is held now. Raises LeaseLost,
        CannotConnect."""
        try:
            async with asyncio.timeout(LEASE_S):
                found = await self._read()
                self._answered = True
                spec = (found or {}).get("spec") or {}
                other = str(spec.get("holderIdentity") or "")
                if other not in ("", self._holder):
                    if self._held:
                        self._held = {}
                        raise LeaseLost(
                            f"{other} serves this cluster now (lease {NAMESPACE}/{self._name}); this one ends"
                        )
                    if not self._has_expired(found or {}, spec):
                        return False
                began = time.monotonic()
                self._held = await self._write(self._spec(spec, taken=other != self._holder), found)
                self._renewed = began
        except TimeoutError:
            return self._failed("the API server is slow")
        except KubeError as error:
            # An API server that has just started forbids for a moment what it does not know yet.
            if error.status == HTTPStatus.FORBIDDEN and not self._answered:
                raise CannotConnect(
                    f"{error}: apply deploy/kubernetes/scheduler-rbac.yaml, which lets it hold a lease"
                ) from error
            if error.status == HTTPStatus.CONFLICT:  # the next look says with whom
                return False
            return self._failed(str(error))
        self._fails = False
        return True

    def _failed(self, why: str) -> bool:
        self._seen = ("", 0.0)  # while the server does not answer, nobody can renew
        if not self._fails:
            self._fails = True
            log.warning("the lease could not be renewed; it is tried again", lease=self._name, why=why)
        return False

    def _has_expired(self, found: dict[str, Any], spec: dict[str, Any]) -> bool:
        version, since = self._seen
        now = time.monotonic()
        if found["metadata"]["resourceVersion"] != version:
            self._seen = (found["metadata"]["resourceVersion"], now)
            return False
        duration = spec.get("leaseDurationSeconds")
        return now - since > (duration if isinstance(duration, int) else LEASE_S)

    def _spec(self, spec: dict[str, Any], *, taken: bool) -> dict[str, Any]:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        changes = spec.get("leaseTransitions")
        return {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": LEASE_S,
            "acquireTime": now if taken else spec.get("acquireTime") or now,
            "renewTime": now,
            "leaseTransitions": (changes if isinstance(changes, int) else 0) + taken,
        }

    async def _read(self) -> dict[str, Any] | None:
        try:
            return await self._api.get(f"{_PATH}/{self._name}")
        except KubeError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def _write(self, spec: dict[str, Any], found: dict[str, Any] | None) -> dict[str, Any]:
        """Write the lease, if it is still what was found; else the server answers CONFLICT."""
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name},
            "spec": spec,
        }
        if found is None:
            return await self._api.post(_PATH, lease)
        lease["metadata"] = {"name": self._name, "resourceVersion": found["metadata"]["resourceVersion"]}
        return await self._api.put(f"{_PATH}/{self._name}", lease)
