"""The rate of calls of one identity: over gRPC and REST, with everybody else untouched."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gosched.master.api.lanes import Bound, Lane, Lanes
from gosched.master.api.rates import Rates
from gosched.master.base.callers import Caller
from gosched.master.base.errors import ApiError
from gosched.master.server import MasterServer
from gosched.replication.memory import MemoryReplication
from gosched.wire.roles import Role
from gosched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc
from tests.master import http_client
from tests.master.harness import LIMIT_S, settings, until
from tests.replication.certificates import Authority


class Bucket:
    """A bucket of tokens as textbooks have it."""

    def __init__(self, per_second: int, burst: int) -> None:
        self.tokens, self.burst, self.per_second, self.at = float(burst), burst, per_second, 0.0

    def takes(self, now: float) -> bool:
        self.tokens = min(self.burst, self.tokens + (now - self.at) * self.per_second)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@given(
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 20),
    st.lists(st.integers(0, 4096).map(lambda n: n / 256), max_size=200),  # exact in binary
)
def test_a_caller_gets_what_a_bucket_of_tokens_gives(per_second: int, burst: int, pauses: list[float]) -> None:
    now = 0.0
    rates, bucket = Rates(per_second, burst, lambda: now), Bucket(per_second, burst)
    for pause in pauses:
        now += pause
        assert rates.takes("ann") == bucket.takes(now)


def test_callers_have_rates_of_their_own_and_only_the_latest_are_remembered() -> None:
    rates = Rates(1, 2, lambda: 0.0, max_callers=3)
    assert [rates.takes("ann") for _ in range(3)] == [True, True, False]
    assert rates.takes("ben")
    for number in range(100):
        assert rates.takes(f"caller-{number}")
    assert len(rates._full_at) == 3
    assert rates.takes("ann")


@pytest.mark.parametrize("role", [Role.MASTER, Role.AGENT, None])
def test_masters_agents_and_callers_without_an_identity_have_no_rate(role: Role | None) -> None:
    refused: list[Bound] = []
    lanes = Lanes(rates=Rates(1, 1, lambda: 0.0), refused=refused.append)
    for _ in range(50):
        lanes.arrive(Lane.CALLS, Caller(role=role, name="m1")).leave()
    lanes.arrive(Lane.CALLS, Caller(role=Role.CLIENT, name="m1")).leave()
    with pytest.raises(ApiError, match="m1 makes more than 1 calls a second"):
        lanes.arrive(Lane.CALLS, Caller(role=Role.CLIENT, name="m1"))
    assert refused == [Bound.RATE]
    assert lanes.uses[Lane.CALLS].all_calls == 0


def test_calls_beyond_the_rate_are_refused_over_grpc_and_rest_and_counted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.files("m1")

    def channel(name: str) -> grpc.aio.Channel:
        files = authority.files(name, "client")
        credentials = grpc.ssl_channel_credentials(
            Path(files.ca).read_bytes(), Path(files.key).read_bytes(), Path(files.cert).read_bytes()
        )
        return grpc.aio.secure_channel(server.record.grpc_address, credentials)

    def context(name: str) -> ssl.SSLContext:
        files = authority.files(name, "client")
        made = ssl.create_default_context(cafile=files.ca)  # noqa: TID251
        made.check_hostname = False
        made.load_cert_chain(files.cert, files.key)
        return made

    async def codes(through: grpc.aio.Channel, count: int) -> list[grpc.StatusCode]:
        stub, found = scheduler_pb2_grpc.SchedulerServiceStub(through), []
        for _ in range(count):
            try:
                await stub.GetClusterStatus(scheduler_pb2.GetClusterStatusRequest(), timeout=LIMIT_S)
                found.append(grpc.StatusCode.OK)
            except grpc.aio.AioRpcError as error:
                found.append(error.code())
        return found

    async def story() -> None:
        nonlocal server
        tls = {"cert": own.cert, "key": own.key, "ca": own.ca}
        replication = MemoryReplication("m1")
        server = MasterServer(
            settings(tls=tls, limits={"calls_per_second": 1, "burst": 3}, access={"admins": ["ann", "ben", "carl"]}),
            replication,
        )
        server.endpoints.http_services.lanes._rates._now_s = lambda: 0.0  # type: ignore[union-attr]
        try:
            await server.start()
            await until(lambda: replication.state.epoch)
            async with channel("ann") as ann, channel("ben") as ben:
                assert await codes(ann, 5) == [grpc.StatusCode.OK] * 3 + [grpc.StatusCode.RESOURCE_EXHAUSTED] * 2
                assert await codes(ben, 1) == [grpc.StatusCode.OK]
            for name, status in (("ann", 429), ("carl", 200)):
                answer = await http_client.get(server.record.http_address, "/api/v1/status", tls=context(name))
                assert answer.status == status
                if status == 429:
                    assert answer.headers["retry-after"] == "1"
                    assert "ann makes more than 1 calls a second" in json.loads(answer.body)["detail"]
            assert b'gosched_calls_refused_total{bound="rate"} 3.0' in server.metrics.text()
        finally:
            await server.stop()

    server: MasterServer
    asyncio.run(story())
