"""The masters as the agent's counterparts: which program it takes for a master, in both directions.

Invariant: with TLS only the holder of a master's certificate is asked for orders, or may give any; without TLS no
program with a public address may.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import structlog

from gosched.agent.host import CannotStart
from gosched.config.address import split_address
from gosched.config.settings import Tls
from gosched.wire.addresses import AddressBook, connected, grpc_dial, name_of
from gosched.wire.certificates import names_of_call, server_identity
from gosched.wire.plain_text import host_of, refusal
from gosched.wire.probe import TlsPaths, look
from gosched.wire.role_rules import BUILT_IN, RoleReader, reader_of
from gosched.wire.roles import ANY_NODE, BadCertificate, CertificateHolder, Role, node_label, server_name
from gosched.wire.serials import serial_of_call, serial_of_pem
from gosched.wire.shared_token import SharedToken, with_token
from gosched.wire.tls_watch import TlsSet, TlsWatch

LOOK_S = 3.0  # at a master's certificate
#: A channel's life: shorter than that of a connection to a master (wire/grpc_tls.py), after which the channel would
#: take only the certificate that the master had at first.
CHANNEL_LIFE_S = (1200.0, 1800.0)
_NOT_VALID = "the certificate is not valid, or not any more: get another one"
REQUEST_S = 10.0  # for a request to arrive, once its call has begun


class NotAMaster(Exception):
    """One line that says why the program at this address is no master."""


class Unreachable(Exception):
    """Nothing answers at this address."""


def watched_tls(tls: Tls | None, names: tuple[str, str]) -> TlsWatch | None:
    """Return this agent's TLS files, to be watched. `names`: the node's name and id, one of which the certificate must
    have. Raises CannotStart."""
    if tls is None:
        return None
    try:
        watch = TlsWatch(tls.cert, tls.key, tls.ca, structlog.get_logger(), roles=reader_of(tls))
    except BadCertificate as error:
        raise CannotStart(f"tls: {error}") from error
    mine = watch.current.holder
    accepted = (node_label(*names),) if mine.in_dns else names
    if mine.role is not Role.AGENT or mine.name not in (*accepted, ANY_NODE):
        wanted = CertificateHolder(cluster=mine.cluster or "CLUSTER", role=Role.AGENT, name=names[0]).uri()
        either = f"{wanted} among its alternative names, or the DNS name {server_name(Role.AGENT, node_label(*names))}"
        raise CannotStart(f"tls.cert: {tls.cert} must have the URI {either}")
    return watch


class Connector:
    """Opens channels to masters. gRPC does not show a client the server's certificate, so with TLS that is looked at
    first, and the channel then takes that very certificate and no other."""

    def __init__(
        self,
        tls: TlsWatch | None,
        cluster: str,
        options: list[tuple[str, Any]],
        revoked: Callable[[str], bool],
        book: AddressBook | None = None,
        token: str = "",
    ) -> None:
        """`revoked`: whether the certificate with this serial number is revoked. `book`: the addresses of names; None:
        they are kept in memory. `token`: what is shown without TLS."""
        self._book = book or AddressBook()
        self._cluster = cluster
        self._token = token
        self._options = options
        self._tls = tls
        self._paths = TlsPaths(cert=tls.cert, key=tls.key, ca=tls.ca) if tls else None
        self._used: TlsSet | None = None  # by the newest channel
        self._revoked = revoked
        self._master = ""  # serial number of the certificate that the newest channel takes
        self._ends = 0.0  # of the newest channel, in seconds of the monotonic clock

    @property
    def is_outdated(self) -> bool:
        """New certificates are in use since the newest channel was opened, or the master may have a new one, or the one
        that it has is revoked."""
        if self._tls is None:
            return False
        is_old = self._tls.current is not self._used or time.monotonic() >= self._ends
        return is_old or self._revoked(self._master)

    async def __call__(self, address: str) -> Any:
        """Return a channel to the master at this address. Raises NotAMaster, Unreachable."""
        if self._tls is None:
            target, options = await self._target(address)
            return with_token(grpc.aio.insecure_channel(target, options=options), self._token)
        used = self._used = self._tls.current
        self._ends = time.monotonic() + random.uniform(*CHANNEL_LIFE_S)
        try:
            async with asyncio.timeout(LOOK_S):
                sock, at = await self._connected(address)
                host, port = split_address(address)
                holder, certificate = await server_identity((host, port), used.client, self._tls.roles, sock)
        except (ssl.SSLError, BadCertificate) as error:
            raise NotAMaster(await self.why(address) or str(error)) from error
        except ConnectionResetError as error:
            raise Unreachable(await self.why(address) or str(error)) from error
        except OSError as error:  # TimeoutError is one
            raise Unreachable(str(error) or f"no answer within {LOOK_S:.0f} s") from error
        if holder.role is not Role.MASTER or not holder.is_of(self._cluster):
            raise NotAMaster(f"it shows the certificate of {_shown(holder)}, which is no master of this agent's")
        self._master = serial_of_pem(certificate)
        if not self._master:
            raise NotAMaster(f"the certificate of {_shown(holder)} that it shows cannot be read")
        if self._revoked(self._master):
            raise NotAMaster(f"the certificate of {_shown(holder)} that it shows is revoked")
        credentials = grpc.ssl_channel_credentials(certificate, used.pem.key, used.pem.cert)
        target, options = self._at(address, at)
        self._book.worked(host, [at])
        return grpc.aio.secure_channel(target, credentials, options=options)

    async def _target(self, address: str) -> tuple[str, list[tuple[str, Any]]]:
        """Return the target and the options of a channel without TLS. Raises Unreachable."""
        host = name_of(address)
        if not host:
            return address, self._options
        try:
            async with asyncio.timeout(LOOK_S):
                sock, at = await self._connected(address)
        except OSError as error:  # TimeoutError is one
            raise Unreachable(str(error) or f"no answer within {LOOK_S:.0f} s") from error
        sock.close()
        self._book.worked(host, [at])
        return self._at(address, at)

    async def _connected(self, address: str) -> tuple[socket.socket, str]:
        """Return a socket to the program at this address, and where it was reached. Raises OSError."""
        host, port = split_address(address)
        addresses = await self._book.found(host, LOOK_S)
        if not addresses:
            raise OSError(f"the name {host} cannot be looked up: {self._book.error(host) or 'no name server answers'}")
        return await connected(addresses, port)

    def _at(self, address: str, at: str) -> tuple[str, list[tuple[str, Any]]]:
        """Return the target and the options of a channel to where the program was reached: it is known by the name."""
        target, more = grpc_dial(address, [at])
        return target, [*self._options, *more]

    async def why(self, address: str) -> str:
        """Return what keeps this agent from a master at this address; empty: nothing that can be seen."""
        found = await asyncio.to_thread(look, address, self._paths, LOOK_S, self._book)
        return found.words if found else ""


class MastersOnly(grpc.aio.ServerInterceptor):
    """Refuses calls of all but masters. Without TLS each caller with a private address is taken for one."""

    def __init__(
        self,
        cluster: str,
        *,
        tls: bool,
        revoked: Callable[[str], bool],
        roles: RoleReader = BUILT_IN,
        shared: SharedToken | None = None,
    ) -> None:
        """`revoked`: whether the certificate with this serial number is. `roles`: says what certificates are. `shared`:
        what callers show without TLS; None: nothing."""
        self._shared = shared
        self._roles = roles
        self._revoked = revoked
        self._cluster = cluster
        self._tls = tls

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        """Take each call as one whose requests are a stream: so a caller is refused before it has sent any."""
        handler = await continuation(details)
        if handler is None:
            return None
        codecs = (handler.request_deserializer, handler.response_serializer)
        if not handler.response_streaming:

            async def answer(requests: AsyncIterator[Any], context: Any) -> Any:
                await self._check(context)
                return await handler.unary_unary(await _only(requests, context), context)

            return grpc.stream_unary_rpc_method_handler(answer, *codecs)

        async def answers(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
            await self._check(context)
            if handler.request_streaming:
                served = handler.stream_stream(requests, context)
            else:
                served = handler.unary_stream(await _only(requests, context), context)
            async for message in served:
                yield message

        return grpc.stream_stream_rpc_method_handler(answers, *codecs)

    async def _check(self, context: Any) -> None:
        problem = self._problem(context) if self._tls else refusal(host_of(context.peer()))
        if not problem and self._shared is not None and not self._shared.is_shown(context.invocation_metadata() or ()):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "this is another user's agent, or a token is missing")
        if problem:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, problem)

    def _problem(self, context: Any) -> str:
        try:
            certificate = context.auth_context()
            holder = self._roles.holder(names_of_call(certificate))
        except BadCertificate as error:
            return str(error)
        serial = serial_of_call(certificate)
        if not serial or self._revoked(serial):
            return _NOT_VALID
        if holder.role is Role.MASTER and holder.is_of(self._cluster):
            return ""
        return f"this is an agent, which obeys masters, not {_shown(holder)}"


async def _only(requests: AsyncIterator[Any], context: Any) -> Any:
    """Return the one request of a call."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REQUEST_S):
            async for request in requests:
                return request
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"no request came within {REQUEST_S:.0f} s")
    raise AssertionError("abort raises")


def _shown(holder: CertificateHolder) -> str:
    cluster = f" of cluster {holder.cluster}" if holder.cluster else ""
    return f"{holder.role.value} {holder.name or 'without a name'}{cluster}"
