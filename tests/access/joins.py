"""Masters at which agents join, for tests: two of them, with an authority that signs, and the agent's side of it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
from cryptography.hazmat.primitives.asymmetric import ec

from gosched.agent.datadir import DataDir
from gosched.agent.join import begin_joining, join
from gosched.agent.join_files import JoinFiles
from gosched.config import AgentSettings
from gosched.wire.certificate_request import make_request, new_key
from gosched.wire.signing import key_pem
from gosched.wire.v1 import join_pb2, join_pb2_grpc
from tests.access.stage import Stage, staged
from tests.replication.certificates import Authority

PORTS = {"grpc_addr": "127.0.0.1:0", "http_addr": "127.0.0.1:0", "token_addr": "127.0.0.1:0"}
HOUR_MS = 3_600_000
ONE_REFUSAL = "the join token is not valid, or not any more"


def write_key(authority: Authority) -> Path:
    """Write the key of a test's authority beside its certificate."""
    path = authority.folder / "ca.key"
    path.touch(mode=0o600)
    path.write_bytes(key_pem(authority._key))
    return path


@contextlib.asynccontextmanager
async def joinable(folder: Path, *, lasts: str = "30d", **more: Any) -> AsyncIterator[Stage]:
    """Two masters at which agents can join."""
    (folder / "ca").mkdir()
    settings = {"ca_cert": str(folder / "ca" / "ca.pem"), "ca_key": str(folder / "ca" / "ca.key")}
    settings |= {"certificate_lasts": lasts}
    authority = Authority(folder / "ca")
    write_key(authority)
    async with staged(folder, {"server": PORTS, "join": settings, **more}, authority=authority) as stage:
        yield stage


def token_address(stage: Stage, master: int = 0) -> str:
    return f"127.0.0.1:{stage.servers[master].endpoints.token_port}"


@contextlib.asynccontextmanager
async def guest(stage: Stage, master: int = 0) -> AsyncIterator[Any]:
    """A caller without a certificate."""
    ca = Path(stage.authority.folder, "ca.pem").read_bytes()
    async with grpc.aio.secure_channel(token_address(stage, master), grpc.ssl_channel_credentials(ca)) as channel:
        yield join_pb2_grpc.JoinServiceStub(channel)


def operator(stage: Stage, master: int = 0, user: str = "olga") -> Any:
    return join_pb2_grpc.JoinServiceStub(stage.channel(user, master))


async def new_token(stage: Stage, **more: Any) -> join_pb2.CreateJoinTokenResponse:
    request = join_pb2.CreateJoinTokenRequest(**{"name": "t", "lasts_ms": HOUR_MS, **more})
    answer: join_pb2.CreateJoinTokenResponse = await operator(stage).CreateJoinToken(request)
    return answer


def asked(secret: str, node: str = "n1", key: ec.EllipticCurvePrivateKey | None = None, **more: Any) -> Any:
    csr = make_request(key or new_key(), "whoever")
    return join_pb2.JoinRequest(**{"token": secret, "csr": csr, "node": node, "hosts": ["127.0.0.1"], **more})


class Agent:
    """An agent as far as it joins, in this process."""

    def __init__(self, folder: Path, masters: Sequence[str], given: str = "", node: str = "n1") -> None:
        folder.mkdir(exist_ok=True)
        (folder / "node_id").write_text(f"{node}\n")
        self.data_dir = DataDir(folder)
        settings = AgentSettings.model_validate({"masters": list(masters), "data_dir": str(folder)})
        self.settings, self.joining = begin_joining(settings, given)
        self.files = JoinFiles(folder)

    async def join(self) -> None:
        assert self.joining is not None
        await join(self.joining, self.settings, self.data_dir, ["127.0.0.1"])

    def close(self) -> None:
        self.data_dir.close()
