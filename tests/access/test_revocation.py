"""Revoked certificates: over gRPC, HTTP, streams, and between masters and agents. Real certificates and connections."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import utils

from gosched.audit.record import AuditRecord, Outcome
from gosched.wire.serials import serial_in, serial_of_pem
from gosched.wire.v1 import (
    access_pb2,
    history_pb2,
    history_pb2_grpc,
    node_pb2,
    node_pb2_grpc,
    scheduler_pb2,
    scheduler_pb2_grpc,
)
from tests.access.stage import BINDINGS, Stage, end_of, staged
from tests.access.test_guests import PORTS, guests_channel
from tests.master import http_client
from tests.master.harness import LIMIT_S, until

NOT_VALID = "the certificate is not valid, or not any more: get another one"


def pem_of(stage: Stage, user: str, role: str = "client") -> bytes:
    """Return the newest certificate that was made for a user, or for a program."""
    return (stage.authority.folder / f"{role}-{user}.pem").read_bytes()


def files_of(stage: Stage, user: str, role: str = "client") -> tuple[str, str, str]:
    """Return the certificate of a user, its key and the authority's; made anew where there is none."""
    folder = stage.authority.folder
    if not (folder / f"{role}-{user}.pem").exists():
        stage.authority.files(user, role)
    return str(folder / f"{role}-{user}.pem"), str(folder / f"{role}-{user}.key"), str(folder / "ca.pem")


def context_of(stage: Stage, user: str) -> ssl.SSLContext:
    cert, key, ca = files_of(stage, user)
    found = ssl.create_default_context(cafile=ca)  # noqa: TID251 - a client of a test
    found.load_cert_chain(cert, key)
    return found


async def revoke(stage: Stage, certificate: bytes | str, user: str = "root", **more: Any) -> Any:
    by_serial = isinstance(certificate, str)
    request = access_pb2.RevokeCertificateRequest(
        certificate=b"" if by_serial else certificate, serial=certificate if by_serial else "", **more
    )
    return await stage.access(user).RevokeCertificate(request, timeout=LIMIT_S)


async def refusal(call: Any) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value.code().name, refused.value.details()


def jobs() -> scheduler_pb2.ListJobsRequest:
    return scheduler_pb2.ListJobsRequest()


async def applied(stage: Stage) -> None:
    await until(lambda: all(one.state.revocations for one in stage.cluster.members.values()))


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
@pytest.mark.parametrize("by", ["file", "serial"])
def test_a_revoked_certificate_is_refused_over_grpc_and_http_on_connections_that_are_open(
    tmp_path: Path, master: int, by: str
) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            sue, address = stage.scheduler("sue", master), stage.servers[master].record.http_address
            http = f"localhost:{address.rpartition(':')[2]}"
            await sue.ListJobs(jobs())
            assert (await http_client.request(http, "GET", "/api/v1/jobs", tls=context_of(stage, "sue"))).status == 200
            pem = pem_of(stage, "sue")
            serial = serial_of_pem(pem)
            done = await revoke(stage, {"file": pem, "serial": serial}[by], reason="lost")
            assert done.revocation.certificate == serial
            assert (done.revocation.by, done.revocation.reason, done.unchanged) == ("root", "lost", False)
            known = ("gosched:///client/sue", "client") if by == "file" else ("", "")
            assert (done.revocation.holder, done.revocation.role) == known
            assert (done.revocation.ends_at_ms > 0) == (by == "file")
            await applied(stage)
            assert await refusal(sue.ListJobs(jobs())) == ("UNAUTHENTICATED", NOT_VALID)
            answer = await http_client.request(http, "GET", "/api/v1/jobs", tls=context_of(stage, "sue"))
            assert answer.status == 401
            assert NOT_VALID in answer.text
            # Another certificate of the same user is not touched, nor is anyone else's.
            await stage.scheduler("mate", master).ListJobs(jobs())
            stage.authority.files("sue", "client")
            cert, key, ca = (Path(path).read_bytes() for path in files_of(stage, "sue"))
            address = stage.servers[master].record.grpc_address
            async with grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ca, key, cert)) as other:
                await scheduler_pb2_grpc.SchedulerServiceStub(other).ListJobs(jobs())
            assert (await revoke(stage, done.revocation.certificate)).unchanged
            await stage.access("root").UnrevokeCertificate(
                access_pb2.UnrevokeCertificateRequest(serial=done.revocation.certificate)
            )
            await until(lambda: not any(one.state.revocations for one in stage.cluster.members.values()))
            await sue.ListJobs(jobs())

    asyncio.run(story())


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_streams_that_a_revoked_certificate_opened_end(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            watch = stage.scheduler("sue", master).WatchJob(scheduler_pb2.GetJobRequest(job="own"))
            await watch.read()
            events = history_pb2_grpc.HistoryServiceStub(stage.channel("sue", master))
            followed = events.WatchEvents(history_pb2.ListEventsRequest())
            await revoke(stage, pem_of(stage, "sue"))
            async with asyncio.timeout(LIMIT_S):
                assert await end_of(watch) == "UNAUTHENTICATED"
                assert await end_of(followed) == "UNAUTHENTICATED"

    asyncio.run(story())


def test_an_agents_heartbeats_are_refused_and_it_is_told_of_revoked_masters(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            files = stage.authority.files("n1", "agent")
            key, cert, ca = (Path(path).read_bytes() for path in (files.key, files.cert, files.ca))
            channel = grpc.aio.secure_channel(
                stage.servers[0].record.grpc_address, grpc.ssl_channel_credentials(ca, key, cert)
            )
            nodes = node_pb2_grpc.NodeServiceStub(channel)
            await nodes.RegisterNode(
                node_pb2.RegisterNodeRequest(node_id="n1", name="n1", address="127.0.0.1:1", incarnation="i")
            )
            beat = node_pb2.HeartbeatRequest(node_id="n1", incarnation="i")
            first = await nodes.Heartbeat(beat)
            assert first.revoked_etag
            assert not first.revoked
            await revoke(stage, pem_of(stage, "m2", "master"))
            await revoke(stage, pem_of(stage, "sue"))
            await revoke(stage, "ab12")  # whose it is is not known
            beat.revoked_etag = first.revoked_etag
            told = await nodes.Heartbeat(beat)
            assert sorted(told.revoked) == sorted([serial_of_pem(pem_of(stage, "m2", "master")), "ab12"])
            beat.revoked_etag = told.revoked_etag
            assert not (await nodes.Heartbeat(beat)).revoked
            await revoke(stage, cert)
            await until(lambda: len(stage.state.revocations) == 4)
            assert await refusal(nodes.Heartbeat(beat)) == ("UNAUTHENTICATED", NOT_VALID)
            await channel.close()

    asyncio.run(story())


def test_calls_that_a_revoked_master_passes_on_are_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            mate = stage.scheduler("mate", 1)  # at the follower
            await mate.ListJobs(jobs())
            await revoke(stage, pem_of(stage, "m2", "master"))
            code, _ = await refusal(mate.ListJobs(jobs()))
            assert code == "UNAUTHENTICATED"
            await stage.scheduler("mate", 0).ListJobs(jobs())

    asyncio.run(story())


def test_the_certificate_that_is_used_is_revoked_by_force_alone_at_each_master(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            own = pem_of(stage, "root")
            stage.channel("root", 1)  # makes another one
            for master, shown in ((0, own), (1, pem_of(stage, "root"))):
                serial = serial_of_pem(shown)
                for request in (
                    access_pb2.RevokeCertificateRequest(certificate=shown),
                    access_pb2.RevokeCertificateRequest(serial=serial),
                ):
                    code, why = await refusal(stage.access("root", master).RevokeCertificate(request))
                    assert (code, "with --force" in why) == ("FAILED_PRECONDITION", True)
            await revoke(stage, own, force=True)
            assert await refusal(stage.scheduler("root").ListJobs(jobs())) == ("UNAUTHENTICATED", NOT_VALID)

    asyncio.run(story())


def test_the_second_form_of_a_revoked_certificates_signature_is_revoked_too(tmp_path: Path) -> None:
    """Of an ECDSA signature (r, s) anybody makes (r, -s), which is as valid: the fingerprint is another one then."""

    async def story() -> None:
        async with staged(tmp_path) as stage:
            cert, key, ca = (Path(path).read_bytes() for path in files_of(stage, "sue"))
            twin = twin_of(cert)
            address = stage.servers[0].record.grpc_address
            credentials = grpc.ssl_channel_credentials(ca, key, twin)
            async with grpc.aio.secure_channel(address, credentials) as channel:
                sue = scheduler_pb2_grpc.SchedulerServiceStub(channel)
                await sue.ListJobs(jobs())
                await revoke(stage, cert)
                await applied(stage)
                assert await refusal(sue.ListJobs(jobs())) == ("UNAUTHENTICATED", NOT_VALID)

    asyncio.run(story())


def twin_of(pem: bytes) -> bytes:
    found = x509.load_pem_x509_certificate(pem)
    r, s = utils.decode_dss_signature(found.signature)
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256
    whole, signed = found.public_bytes(serialization.Encoding.DER), found.tbs_certificate_bytes
    algorithm = whole[whole.index(signed) + len(signed) :][:12]  # ecdsa-with-SHA256
    bits = b"\0" + utils.encode_dss_signature(r, order - s)
    content = signed + algorithm + bytes([3, len(bits)]) + bits
    der = b"\x30\x82" + len(content).to_bytes(2) + content
    assert der != whole
    return ssl.DER_cert_to_PEM_cert(der).encode()


def test_a_token_is_worth_nothing_once_the_certificate_is_revoked_that_made_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, {"server": PORTS}) as stage:
            await stage.bind(*BINDINGS)
            asked = access_pb2.CreateTokenRequest(name="ci", lasts_ms=3_600_000, role=2)
            secret = (await stage.access("sue").CreateToken(asked)).secret
            async with guests_channel(stage) as channel:
                sue = scheduler_pb2_grpc.SchedulerServiceStub(channel)
                metadata = [("authorization", f"Bearer {secret}")]
                await sue.ListJobs(jobs(), metadata=metadata)
                await revoke(stage, pem_of(stage, "sue"))
                assert (await refusal(sue.ListJobs(jobs(), metadata=metadata)))[0] == "UNAUTHENTICATED"

    asyncio.run(story())


def test_what_is_no_certificate_or_an_authoritys_is_refused_with_one_line(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            authority = (stage.authority.folder / "ca.pem").read_bytes()
            for certificate, words in (
                (b"no certificate", "this is no certificate in PEM form"),
                (b"x" * 100_000, "this is no certificate in PEM form"),
                (authority, "this is an authority's"),
                ("zz", "expected the serial number of a certificate"),
                ("a" * 41, "expected the serial number of a certificate"),
                ("", "expected the serial number of a certificate"),
            ):
                code, why = await refusal(revoke(stage, certificate))
                assert code == "INVALID_ARGUMENT"
                assert words in why
            code, why = await refusal(revoke(stage, "ab", reason="two\nlines"))
            assert code == "INVALID_ARGUMENT"
            assert "must be one line" in why
            unknown = access_pb2.UnrevokeCertificateRequest(serial="ab")
            assert (await refusal(stage.access("root").UnrevokeCertificate(unknown)))[0] == "NOT_FOUND"
            assert not stage.state.revocations

    asyncio.run(story())


def test_the_audit_log_says_that_a_certificate_was_revoked_and_that_it_was_used_after_that(tmp_path: Path) -> None:
    told: list[AuditRecord] = []

    async def story() -> None:
        async with staged(tmp_path) as stage:
            for server in stage.servers:
                server.endpoints.calls._audit.put = told.append
            await revoke(stage, pem_of(stage, "sue"))
            await refusal(stage.scheduler("sue").ListJobs(jobs()))

    asyncio.run(story())
    made, used = told
    assert (made.action, made.outcome, made.user) == ("AccessService/RevokeCertificate", Outcome.ALLOWED, "root")
    assert "gosched:///client/sue" in made.object
    assert (used.action, used.outcome, used.user) == ("SchedulerService/ListJobs", Outcome.REFUSED, "sue")
    assert used.reason.startswith("the certificate of sue is revoked (")


def test_the_commands_revoke_list_and_take_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            await stage.scheduler("root").ListJobs(jobs())
            root_cert, root_key, ca = files_of(stage, "root")
            sue_cert, sue_key, _ = files_of(stage, "sue")
            both = tmp_path / "both.pem"  # a key in the file of the certificate stays here
            both.write_bytes(Path(sue_key).read_bytes() + Path(sue_cert).read_bytes())

            def ctl(*args: str) -> str:
                environment = {
                    "GOSCHED_ENDPOINTS": stage.servers[0].record.grpc_address,
                    "GOSCHED_TLS_CERT": root_cert, "GOSCHED_TLS_KEY": root_key, "GOSCHED_TLS_CA": ca,
                    "HOME": str(tmp_path), "PATH": "/usr/bin:/bin",
                }  # fmt: skip
                done = subprocess.run(
                    [sys.executable, "-m", "gosched.cli.main", *args],
                    capture_output=True, text=True, timeout=LIMIT_S, env=environment,
                )  # fmt: skip
                return (done.stdout + done.stderr).strip()

            async def run(*args: str) -> str:
                return await asyncio.to_thread(ctl, *args)

            serial = serial_of_pem(pem_of(stage, "sue"))
            shown = json.loads(await run("cert", "show", sue_cert, "-o", "json"))
            assert shown["serial"] == serial
            assert "no revoked certificates" in await run("cert", "revoked")
            said = await run("cert", "revoke", str(both), "--reason", "left the company")
            assert said == f"client gosched:///client/sue {serial}: revoked"
            assert "was revoked before" in await run("cert", "revoke", serial)
            assert "left the company" in await run("cert", "revoked")
            listed = json.loads(await run("cert", "revoked", "-o", "json"))
            assert [(one["certificate"], one["role"], one["by"]) for one in listed] == [(serial, "client", "root")]
            assert "with --force" in await run("cert", "revoke", root_cert)
            assert "cannot read none.pem" in await run("cert", "revoke", "none.pem")
            assert await run("cert", "unrevoke", sue_cert) == f"{serial}: taken again"
            assert "no revoked certificates" in await run("cert", "revoked")

    asyncio.run(story())


def test_serial_numbers_are_read_as_programs_print_them() -> None:
    for text in ("0AB1", "ab1", "0xab1", "0A:B1", " ab1 ", "serial=0AB1"):
        assert serial_in(text) == "ab1"
    assert serial_in("00") == "0"
    for text in ("", "x", "a" * 41, hashlib.sha256(b"a fingerprint").hexdigest(), "ab\ncd", "../ab.pem"):
        assert serial_in(text) == "", text
    assert serial_of_pem(b"no certificate") == ""
