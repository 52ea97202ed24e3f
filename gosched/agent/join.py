"""An agent without certificates joins: with a token it gets some from a master.

It has no file of the authority. The token names the authority's key (wire/join_token.py), so the agent asks a master
for the cluster's authorities, takes those that the token names, and connects again trusting these alone.

Invariant: the token is sent to a master alone whose certificate leads to an authority that the token names.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import structlog

from gosched.agent.datadir import DataDir
from gosched.agent.host import CannotStart
from gosched.agent.join_files import JoinFiles
from gosched.config import AgentSettings, ConfigError
from gosched.config.address import split_address
from gosched.config.private import exposed
from gosched.core.reasons import RefusalReason
from gosched.wire.certificates import server_identity
from gosched.wire.join_token import BadJoinToken, JoinSecret, parse_join_token
from gosched.wire.refusals import refusal_reason
from gosched.wire.roles import BadCertificate, Role
from gosched.wire.tls_files import words_of
from gosched.wire.tls_rules import trusting
from gosched.wire.v1 import join_pb2, join_pb2_grpc

LOOK_S = 3.0  # at a master's certificate
CALL_S = 10.0
PAUSE_MIN_S, PAUSE_MAX_S = 0.2, 10.0
MAX_TOKEN_BYTES = 4096
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_PASSING = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
)


class _NoAnswer(Exception):
    """One line that says why a master does not answer now; a later try may do better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """How this agent has its certificates by itself."""

    files: JoinFiles
    #: `TOKEN` or `@FILE`, as it was given; empty: there is none.
    given: str

    def secret(self) -> JoinSecret | None:
        """Return the token; None: none was given. Raises CannotStart."""
        if not self.given:
            return None
        try:
            return parse_join_token(_read(self.given))
        except BadJoinToken as error:
            raise CannotStart(f"--join: {error}") from error


def begin_joining(settings: AgentSettings, given: str) -> tuple[AgentSettings, Joining | None]:
    """Return the settings with the TLS files of an agent that joins, or has joined, by itself; None: this one does
    not. `given`: by a flag or the environment, `-` for a line of standard input. Raises ConfigError."""
    if settings.tls is not None:
        if given:
            raise ConfigError("--join: tls is set, too: leave one out")
        return settings, None
    files = JoinFiles(Path(settings.data_dir).absolute())
    if given == "-":  # here, where a signal ends the agent that waits for it
        given = "" if files.is_valid else sys.stdin.readline(MAX_TOKEN_BYTES).strip()
        if not given and not files.is_valid:
            raise ConfigError("--join -: standard input has no token")
    if not given and settings.join_token_file:
        given = f"@{settings.join_token_file}"
    if not given and not files.has_joined:
        return settings, None
    return settings.model_copy(update={"tls": files.tls}), Joining(files=files, given=given)


async def join(joining: Joining, settings: AgentSettings, data_dir: DataDir, hosts: Sequence[str]) -> None:
    """Return once there are certificates that have not ended; an agent that has some needs no token, and does not look
    at one. Raises CannotStart."""
    files = joining.files
    try:
        files.open()
        over = files.why_over() if files.has_joined else ""
        if files.has_joined and not over:
            return
        secret = joining.secret()
        if secret is None:
            node = data_dir.node_id
            raise CannotStart(f"{over}: join again, with a token of `goschedctl node join-token create --node {node}`")
        key = files.kept_key()
        answer = await _traded(secret, settings.masters, data_dir, key, hosts)
        _check(answer, key)
        files.store(answer.certificate, answer.authorities, None, answer.masters)
    except (OSError, ValueError) as error:
        raise CannotStart(f"cannot use the files in {files.folder}: {error}") from error
    structlog.get_logger().info("joined", node=data_dir.node_id, token=secret.id, cluster=answer.cluster_id)


async def _traded(
    secret: JoinSecret, masters: Sequence[str], data_dir: DataDir, key: Any, hosts: Sequence[str]
) -> join_pb2.JoinResponse:
    """Ask one master after the other until one answers. Raises CannotStart for what no later try will change."""
    from gosched.wire.certificate_request import make_request

    log, told = structlog.get_logger(), ""
    place, pause_s = random.randrange(len(masters)), PAUSE_MIN_S
    while True:
        master = masters[place % len(masters)]
        node = data_dir.node_id
        request = join_pb2.JoinRequest(token=secret.text, csr=make_request(key, node), node=node, hosts=hosts)
        try:
            return await _ask(master, secret, request)
        except grpc.aio.AioRpcError as error:
            if refusal_reason(error) == RefusalReason.NODE_ID_IN_USE and data_dir.take_another_id():
                log.warning("another node has this name: the agent takes another one", id=data_dir.node_id)
                continue
            if error.code() not in _PASSING:
                raise CannotStart(f"cannot join at {master}: {error.details()}") from error
            problem = error.details() or error.code().name
        except _NoAnswer as error:
            problem = str(error)
        if problem != told:
            told = problem
            log.warning("cannot join yet; the agent goes on trying", master=master, why=problem)
        place += 1
        await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


async def _ask(master: str, secret: JoinSecret, request: join_pb2.JoinRequest) -> join_pb2.JoinResponse:
    """Raises _NoAnswer, AioRpcError, CannotStart."""
    certificate = await _verified(master, secret)
    credentials = grpc.ssl_channel_credentials(certificate)
    async with grpc.aio.secure_channel(master, credentials, options=[("grpc.enable_http_proxy", 0)]) as channel:
        answer: join_pb2.JoinResponse = await join_pb2_grpc.JoinServiceStub(channel).Join(request, timeout=CALL_S)
        return answer


async def _verified(master: str, secret: JoinSecret) -> bytes:
    """Return the certificate (PEM) of a master of the token's cluster. Raises _NoAnswer, CannotStart."""
    shown = await asyncio.to_thread(_shown, master)
    pinned = await _pinned(master, shown, secret)
    stranger = (
        f"{master} shows no certificate of the authority that the token names: it is a token of another cluster, or"
        " something stands between this agent and the master"
    )
    if not pinned:
        raise CannotStart(f"{stranger}; the token was not sent")
    try:
        context = trusting(ssl.Purpose.SERVER_AUTH, None, pem=pinned)
        context.set_alpn_protocols(["h2"])
        async with asyncio.timeout(LOOK_S):
            holder, certificate = await server_identity(split_address(master), context)
    except ssl.SSLCertVerificationError as error:
        wrong = f"{master} is refused: {error.verify_message}" if "ostname" in error.verify_message else stranger
        raise CannotStart(f"{wrong}; the token was not sent") from error
    except BadCertificate as error:
        raise CannotStart(f"{master} is refused: {error}; the token was not sent") from error
    except OSError as error:  # TimeoutError is one
        raise _NoAnswer(f"{master}: {words_of(error)}") from error
    if holder.role is not Role.MASTER:
        whose = f"{holder.role.value} {holder.name}"
        raise CannotStart(f"{master} shows the certificate of {whose}, which is no master; the token was not sent")
    return certificate


async def _pinned(master: str, shown: bytes, secret: JoinSecret) -> str:
    """Return the authorities (PEM) that a server tells of and the token names; empty: there are none."""
    from cryptography import x509

    from gosched.wire.signing import key_digest, pem_of

    # Whoever answers, nothing is believed but what the token names: so any name will do.
    options = [("grpc.enable_http_proxy", 0), ("grpc.ssl_target_name_override", _any_name(shown))]
    async with grpc.aio.secure_channel(master, grpc.ssl_channel_credentials(shown), options=options) as channel:
        try:
            stub = join_pb2_grpc.JoinServiceStub(channel)
            answer = await stub.GetAuthority(join_pb2.GetAuthorityRequest(), timeout=LOOK_S)
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.FAILED_PRECONDITION):
                raise CannotStart(f"{master} lets no agent join: {error.details()}") from error
            raise _NoAnswer(f"{master}: {error.details()}") from error
    try:
        found = x509.load_pem_x509_certificates(answer.authorities)
    except ValueError:
        return ""
    return "".join(pem_of(one).decode() for one in found if key_digest(one.public_key()) in secret.pins)


def _any_name(certificate: bytes) -> str:
    """Return one of the hosts of a certificate (PEM)."""
    from cryptography import x509

    with contextlib.suppress(ValueError, x509.ExtensionNotFound):
        found = x509.load_pem_x509_certificate(certificate)
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = names.get_values_for_type(x509.DNSName)
        return next(iter([*hosts, *(str(one) for one in names.get_values_for_type(x509.IPAddress))]), "")
    return ""


def _shown(master: str) -> bytes:
    """Return the certificate (PEM) that a server shows, unverified. Raises _NoAnswer, and CannotStart for a port that
    serves nobody without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection(split_address(master), LOOK_S) as sock, context.wrap_socket(sock) as secure:
            found = secure.getpeercert(binary_form=True) or b""
            if not _answers(secure):
                raise CannotStart(
                    f"{master} serves nobody without a certificate: name where agents join, the server.token_addr of"
                    " the masters, with --master"
                )
    except OSError as error:  # ssl.SSLError is one
        raise _NoAnswer(f"{master}: {words_of(error)}") from error
    return ssl.DER_cert_to_PEM_cert(found).encode()


def _answers(secure: ssl.SSLSocket) -> bool:
    """Return whether a server goes on with HTTP/2, and does not end the connection for want of a certificate."""
    try:
        secure.sendall(_PREFACE)
        return bool(secure.recv(16))
    except TimeoutError:
        raise
    except OSError:
        return False


def _check(answer: join_pb2.JoinResponse, key: Any) -> None:
    """Raises CannotStart for a certificate that is not for this key."""
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificates(answer.certificate)[0]
    except ValueError as error:
        raise CannotStart("the master answered with no certificate; its log may say why") from error
    if certificate.public_key() != key.public_key():
        raise CannotStart("the master answered with a certificate for another key")


def _read(given: str) -> str:
    """Return the text of a token. Raises CannotStart."""
    if not given.startswith("@"):
        return given
    path = given[1:]
    try:
        if problem := exposed(path):
            raise CannotStart(f"--join: {problem}")
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return file.read(MAX_TOKEN_BYTES)
    except OSError as error:
        raise CannotStart(f"--join: cannot read {path}: {error.strerror}") from error
