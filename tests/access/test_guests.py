"""Callers that show no certificate: they are nobody until a token or a login says who they are."""

from __future__ import annotations

import asyncio
import ssl
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from gosched.client import Denied, GoSchedClient, TlsFiles
from gosched.client.aio.client import AsyncGoSchedClient
from gosched.config import ConfigError, MasterSettings
from gosched.core.records.access import AccessRole, Binding
from gosched.master.base.methods import Needs, method_of
from gosched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc
from tests.access.stage import BINDINGS, Stage, staged, submission
from tests.access.test_tokens import asked, code, with_token
from tests.access.walk import RPCS, SERVICES, STREAMS, routes
from tests.identity.issuer import Issuer, issuer
from tests.master import http_client

PORTS = {"grpc_addr": "127.0.0.1:0", "http_addr": "127.0.0.1:0", "token_addr": "127.0.0.1:0"}


def guests_channel(stage: Stage, master: int = 0) -> Any:
    ca = Path(stage.authority.folder, "ca.pem").read_bytes()
    return grpc.aio.secure_channel(token_address(stage, master), grpc.ssl_channel_credentials(ca))


def token_address(stage: Stage, master: int = 0) -> str:
    return f"127.0.0.1:{stage.servers[master].endpoints.token_port}"


def guests_context(stage: Stage) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(stage.authority.folder / "ca.pem"))  # noqa: TID251 - of a test


def rest(stage: Stage, master: int = 0) -> str:
    return f"localhost:{stage.servers[master].record.http_address.rpartition(':')[2]}"


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_a_guest_without_a_token_calls_nothing(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with staged(tmp_path, {"server": PORTS}) as stage, guests_channel(stage, master) as channel:
            # A binding for everybody is for every user, and a guest is none.
            await stage.bind(*BINDINGS, Binding(name="all", role=AccessRole.ADMIN, users=("*",)))
            for service, module in SERVICES.items():
                for method in module.DESCRIPTOR.services_by_name[service].methods:
                    path = f"/{method.containing_service.full_name}/{method.name}"
                    if method_of(path).needs is Needs.NOTHING:  # tests/access/test_joins.py
                        continue
                    request = RPCS[method.name].request("own").SerializeToString() if method.name in RPCS else b""
                    if method.name in STREAMS:
                        found = await code(channel.stream_stream(path)(iter([request])).read())
                    else:
                        found = await code(channel.unary_unary(path)(request))
                    assert found == "UNAUTHENTICATED", method.name
            tls = guests_context(stage)
            names = {
                "job": "own",
                "tenant": "a",
                "queue": "root",
                "node": "n",
                "token": "t",
                "member": "m",
                "name": "w",
            }
            for method, path in [*routes(), ("GET", "/openapi.json")]:
                answer = await http_client.request(rest(stage, master), method, path.format(**names), tls=tls)
                assert answer.status == 401, (method, path)

    asyncio.run(story())


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_a_guest_with_a_token_is_its_user(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with staged(tmp_path, {"server": PORTS}) as stage, guests_channel(stage, master) as channel:
            made = await stage.access("sue").CreateToken(asked())
            scheduler = scheduler_pb2_grpc.SchedulerServiceStub(channel)
            token = with_token(made.secret)
            await scheduler.SubmitJob(submission("by-guest", "a"), metadata=token)
            job = stage.state.find_job("by-guest")
            assert (job.user, job.authenticated) == ("sue", True)
            foreign = scheduler_pb2.GetJobRequest(job="foreign")
            assert await code(scheduler.GetJob(foreign, metadata=token)) == "NOT_FOUND"
            answer = await http_client.request(
                rest(stage, master),
                "GET",
                "/api/v1/jobs/own",
                headers={"Authorization": f"Bearer {made.secret}"},
                tls=guests_context(stage),
            )
            assert answer.status == 200

    asyncio.run(story())


def test_the_clients_call_with_a_token_alone(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, {"server": PORTS}) as stage:
            made = await stage.access("sue").CreateToken(asked())
            tls = TlsFiles(ca=stage.authority.folder / "ca.pem")
            endpoints = [token_address(stage, master) for master in (0, 1)]

            def call(token: Any) -> list[str]:
                with GoSchedClient(endpoints, tls=tls, token=token) as client:
                    return [job.spec.name for job in client.list_jobs()]

            assert set(await asyncio.to_thread(call, made.secret)) == {"own", "mates"}
            assert set(await asyncio.to_thread(call, lambda: made.secret)) == {"own", "mates"}
            with pytest.raises(Denied, match="the token is not valid"):
                await asyncio.to_thread(call, "gosched_x_y")
            async with AsyncGoSchedClient(endpoints, tls=tls, token=made.secret) as client:
                assert (await client.get_job("own")).job.user == "sue"

    asyncio.run(story())


def test_an_issuers_token_lets_its_user_in_with_the_groups_that_it_names(tmp_path: Path) -> None:
    async def story(running: Issuer) -> None:
        oidc = {"issuer": running.url, "client_id": "gosched"}
        async with staged(tmp_path, {"server": PORTS, "oidc": oidc}) as stage, guests_channel(stage) as channel:
            now = int(time.time())
            good = running.token(iat=now, exp=now + 600)
            scheduler = scheduler_pb2_grpc.SchedulerServiceStub(channel)
            own = scheduler_pb2.GetJobRequest(job="own")
            # It is authenticated, and has no role yet.
            assert await code(scheduler.GetJob(own, metadata=with_token(good))) == "PERMISSION_DENIED"
            await stage.bind(
                *BINDINGS, Binding(name="ml", role=AccessRole.SUBMITTER, groups=("oidc:ml",), tenants=("a",))
            )
            assert await code(scheduler.GetJob(own, metadata=with_token(good))) == "OK"
            await scheduler.SubmitJob(submission("by-login", "a"), metadata=with_token(good))
            assert stage.state.find_job("by-login").user == "oidc:alice@example.com"
            other = running.token(iat=now, exp=now + 600, aud="others")
            over = running.token(iat=now - 700, exp=now - 100)
            for bad in (other, over, good[:-4] + "AAAA", "a.b.c"):
                assert await code(scheduler.GetJob(own, metadata=with_token(bad))) == "UNAUTHENTICATED"
            # The stream of one whose login ends, ends.
            short = running.token(iat=now, exp=int(time.time()) + 2)
            watch = scheduler.WatchJob(own, metadata=with_token(short))
            await watch.read()
            assert await code(_drain(watch)) == "UNAUTHENTICATED"

    with issuer() as running:
        asyncio.run(story(running))


async def _drain(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


def test_tokens_are_not_taken_in_plain_text() -> None:
    settings = MasterSettings.model_validate({"server": {"token_addr": ":9093"}})
    with pytest.raises(ConfigError, match="token_addr needs TLS"):
        settings.listens()
