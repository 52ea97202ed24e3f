"""An issuer's keys and endpoints, kept up to date: fetched ahead of need, by themselves when a token names a key that
is not known.

Invariant: one fetch runs at a time and none begins within REFETCH_S of the one before, whatever tokens name. Keys are
those of the last fetch that succeeded, and none at all once that is older than `key_cache`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from gosched.config.oidc_model import Oidc
from gosched.identity.aside import in_thread
from gosched.identity.discovery import Discovery, discovery_url, read_discovery
from gosched.identity.fetching import TIMEOUT_S, fetch
from gosched.identity.key_set import Key, KeySet, read_key_set
from gosched.wire.http_exchange import Unreachable

REFETCH_S = 10.0
_LONGEST_PAUSE_S = 60.0  # between tries while the issuer does not answer
_FETCH_S = 3 * TIMEOUT_S  # of the document and the keys; the rest is the lookup of names


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStatus:
    """For metrics."""

    keys: int
    #: Since the last fetch that succeeded; None: none did.
    age_s: float | None
    #: Why the last fetch failed; empty: it did not.
    problem: str


class IssuerKeys:
    """It belongs to one event loop. `tell`: gets a line when fetches begin to fail, and when they succeed again."""

    def __init__(
        self,
        oidc: Oidc,
        trust: ssl.SSLContext,
        *,
        tell: Callable[[str], None] = lambda line: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._oidc = oidc
        self._trust = trust
        self._tell = tell
        self._clock = clock
        self._keys = KeySet()
        self._document: Discovery | None = None
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._problem = ""
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: str, algorithm: str) -> Key | None:
        """Return the key that a token names; where it is not known, perhaps after a fetch."""
        found = self._current().find(kid, algorithm)
        if found is None and await self._refresh():
            found = self._current().find(kid, algorithm)
        return found

    async def document(self) -> Discovery | None:
        """Return where the endpoints are, perhaps after a fetch; None: the issuer has not answered, or not for too
        long."""
        if not self.are_known:
            await self._refresh()
        return self._document if self.are_known else None

    @property
    def are_known(self) -> bool:
        return bool(self._current().keys)

    def status(self) -> KeyStatus:
        age_s = None if self._fetched_at is None else self._clock() - self._fetched_at
        return KeyStatus(keys=len(self._current().keys), age_s=age_s, problem=self._problem)

    async def keep_fresh(self) -> None:
        """Fetch the keys again and again, until it is cancelled."""
        pause_s = REFETCH_S
        while True:
            await self._refresh()
            await asyncio.sleep(pause_s if self._problem else self._oidc.key_refresh_ms / 1000)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S) if self._problem else REFETCH_S

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._fetching

    def _current(self) -> KeySet:
        if self._fetched_at is None or self._clock() - self._fetched_at > self._oidc.key_cache_ms / 1000:
            return KeySet()
        return self._keys

    async def _refresh(self) -> bool:
        """Join the fetch that runs, or begin one if that is allowed; return whether there was one."""
        if self._fetching is None or self._fetching.done():
            if self._tried_at is not None and self._clock() - self._tried_at < REFETCH_S:
                return False
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._fetch())
        await asyncio.shield(self._fetching)
        return True

    async def _fetch(self) -> None:
        began = self._clock()
        try:
            async with asyncio.timeout(_FETCH_S):
                self._document, self._keys = await in_thread(
                    lambda: fetch_issuer(self._oidc.issuer, self._trust), "oidc-keys"
                )
        except Exception as error:  # whatever came: the keys of the last fetch stay, and the next one is tried
            problem = str(error) or "no answer in time"
            if not self._problem:
                left = "no token can be checked" if not self.are_known else "those of the last fetch stay in use"
                self._tell(f"the issuer's keys cannot be fetched ({left}): {problem}")
            self._problem = problem
        else:
            self._fetched_at = began  # an answer may be as old as its question
            if self._problem:
                self._tell("the issuer's keys are fetched again")
            self._problem = ""


def fetch_issuer(issuer: str, trust: ssl.SSLContext) -> tuple[Discovery, KeySet]:
    """Return the endpoints and the keys of an issuer. Blocks. Raises Unreachable, BadDocument."""
    document = read_discovery(answer_of(discovery_url(issuer), trust), issuer)
    return document, read_key_set(answer_of(document.jwks_uri, trust))


def answer_of(url: str, trust: ssl.SSLContext) -> bytes:
    """Return what stands at a URL. Blocks. Raises Unreachable, for any status but 200, too."""
    reply = fetch(url, trust)
    if reply.status != 200:
        raise Unreachable(f"{url}: answered with status {reply.status}")
    return reply.body
