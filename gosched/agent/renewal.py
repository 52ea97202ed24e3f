"""The certificate of an agent that joined by itself is renewed before it ends, with a new key.

It also follows the authorities: when the masters trust others, or sign with another one, it is renewed at once.

Invariant: what is in use stays until a whole new set is written; a failure is logged once, and tried again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

import grpc
import structlog

from gosched.agent.join_files import JoinFiles
from gosched.agent.masters import NotAMaster, Unreachable
from gosched.wire.tls_watch import TlsWatch
from gosched.wire.v1 import join_pb2, join_pb2_grpc

LOOK_S = 300.0  # between two looks at the masters' authorities
CALL_S = 10.0
PAUSE_MIN_S, PAUSE_MAX_S = 1.0, 600.0
LEFT = 1 / 3  # of the certificate's life, when it is renewed


class Renewal:
    """`name`: of the node. `hosts`: under which the masters reach the agent. `connect`: opens a channel to a master."""

    def __init__(
        self,
        files: JoinFiles,
        tls: TlsWatch,
        connect: Callable[[str], Awaitable[Any]],
        masters: Sequence[str],
        name: str,
        hosts: Sequence[str],
        *,
        look_s: float = LOOK_S,
    ) -> None:
        self._files = files
        self._tls = tls
        self._connect = connect
        self._masters = tuple(masters)
        self._name = name
        self._hosts = tuple(hosts)
        self._look_s = look_s
        self._place = random.randrange(max(1, len(masters)))
        self._failures = 0
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Renew for as long as the agent runs."""
        due_s = ends_s = 0.0
        while True:
            await asyncio.sleep(self._pause_s(due_s, ends_s))
            try:
                if not due_s or await self._look(is_due=time.time() >= due_s):
                    due_s, ends_s = self._due_and_end_s()
                self._failures = 0
            except (grpc.aio.AioRpcError, NotAMaster, Unreachable, OSError, ValueError) as error:
                self._fail(error)

    async def _look(self, *, is_due: bool) -> bool:
        """Ask the next master, and return whether the certificate was renewed. Raises what a call raises, OSError,
        ValueError."""
        masters = self._files.masters() or self._masters
        channel = await self._connect(masters[self._place % len(masters)])
        try:
            stub = join_pb2_grpc.JoinServiceStub(channel)
            if not is_due:
                told = await stub.GetAuthority(join_pb2.GetAuthorityRequest(), timeout=CALL_S)
                if not await asyncio.to_thread(self._is_changed, told):
                    return False
            await self._renew(stub)
            return True
        finally:
            await channel.close()

    async def _renew(self, stub: Any) -> None:
        from gosched.wire.certificate_request import make_request, new_key
        from gosched.wire.signing import key_pem

        key = new_key()
        request = join_pb2.RenewCertificateRequest(csr=make_request(key, self._name), hosts=self._hosts)
        answer = await stub.RenewCertificate(request, timeout=CALL_S)
        if not answer.certificate or not answer.authorities:
            raise ValueError("the master answered with no certificate")
        await asyncio.to_thread(self._files.store, answer.certificate, answer.authorities, key_pem(key), answer.masters)
        self._tls.ask()
        ends = self._files.chain()[0].not_valid_after_utc
        self._log.info("certificate renewed", ends=f"{ends:%Y-%m-%dT%H:%M:%SZ}")

    def _is_changed(self, told: join_pb2.GetAuthorityResponse) -> bool:
        """Return whether the masters trust other authorities than this agent, or sign with another one."""
        from cryptography import x509

        from gosched.wire.signing import key_digest
        from gosched.wire.tls_expiry import signed_by

        mine = self._files.authorities()
        if {*x509.load_pem_x509_certificates(told.authorities)} != {*mine}:
            return True
        own, *chain = self._files.chain()
        signers = [key_digest(one.public_key()).hex() for one in (*chain, *mine) if signed_by(own, one)]
        return bool(told.signer) and told.signer not in signers

    def _due_and_end_s(self) -> tuple[float, float]:
        """Return when the certificate is renewed, which not all agents do at once, and when it ends, both in seconds
        since 1970. Raises OSError, ValueError."""
        own = self._files.chain()[0]
        begins_s, ends_s = own.not_valid_before_utc.timestamp(), own.not_valid_after_utc.timestamp()
        return ends_s - (ends_s - begins_s) * LEFT * random.uniform(0.85, 1.0), ends_s

    def _pause_s(self, due_s: float, ends_s: float) -> float:
        """`due_s`: 0: it is not known yet."""
        if self._failures:
            left_s = max(0.0, ends_s - time.time())
            longest_s: float = min(
                max(left_s / 10, PAUSE_MIN_S), PAUSE_MAX_S, PAUSE_MIN_S * 2 ** min(self._failures, 10)
            )
            return longest_s * random.uniform(0.5, 1.0)
        return max(0.0, min(self._look_s * random.uniform(0.8, 1.2), due_s - time.time()))

    def _fail(self, error: Exception) -> None:
        self._place += 1
        self._failures += 1
        if self._failures == 1:
            detail = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
            self._log.warning("the certificate is not renewed yet; the agent goes on trying", why=detail)
