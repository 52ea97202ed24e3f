"""A cluster with a user of each role: two masters with certificates, two tenants, and a job of each kind.

The tenants are `a` and `b`, their queues `root.a` and `root.b`. The jobs are `own` and `mates`, both of tenant a and
submitted by the submitter and by another one, and `foreign`, of tenant b.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from gosched.config.access_file import bindings_keys
from gosched.core.records.access import AccessRole, Binding
from gosched.core.records.queue import Queue
from gosched.core.spec.job_spec import JobSpec
from gosched.master.server import MasterServer
from gosched.replication.memory import MemoryCluster
from gosched.wire.codec import to_message
from gosched.wire.v1 import access_pb2, access_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc, types_pb2
from tests.master.harness import settings, spec, until
from tests.replication.certificates import Authority

QUEUES = (Queue(path="root"), Queue(path="root.a"), Queue(path="root.b"), Queue(path="default"))
BINDINGS = (
    Binding(name="lead", role=AccessRole.TENANT_ADMIN, users=("tina",), tenants=("a",), queues=("root.a",),
            ceiling=(("cpu", 8000),)),
    Binding(name="operators", role=AccessRole.OPERATOR, users=("olga",)),
    Binding(name="people-of-b", role=AccessRole.SUBMITTER, users=("bert",), tenants=("b",), queues=("root.b",)),
    Binding(name="people-of-a", role=AccessRole.SUBMITTER, users=("mate", "sue"), tenants=("a",), queues=("root.a",)),
    Binding(name="watchers", role=AccessRole.VIEWER, groups=("auditors",), tenants=("a",)),
)  # fmt: skip
#: Each role, and who has it; `nobody` has none.
USERS = {
    "nobody": "nick",
    "viewer": "vera",
    "submitter": "sue",
    "tenant-admin": "tina",
    "operator": "olga",
    "admin": "root",
}
GROUPS = {"vera": ("auditors",)}


class Stage:
    """The running cluster; m1 leads."""

    def __init__(self, authority: Authority, cluster: MemoryCluster, servers: list[MasterServer]) -> None:
        self.authority = authority
        self.cluster = cluster
        self.servers = servers
        self._channels: dict[tuple[str, int], Any] = {}

    @property
    def state(self) -> Any:
        return self.cluster.members["m1"].state

    def channel(self, user: str, master: int = 0) -> Any:
        if (user, master) not in self._channels:
            files = self.authority.files(user, "client", groups=GROUPS.get(user, ()))
            key, cert, ca = (Path(path).read_bytes() for path in (files.key, files.cert, files.ca))
            address = self.servers[master].record.grpc_address
            credentials = grpc.ssl_channel_credentials(ca, key, cert)
            self._channels[user, master] = grpc.aio.secure_channel(address, credentials)
        return self._channels[user, master]

    def context(self, user: str) -> ssl.SSLContext:
        files = self.authority.files(user, "client", groups=GROUPS.get(user, ()))
        found = ssl.create_default_context(cafile=files.ca)  # noqa: TID251 - a client of a test
        found.load_cert_chain(files.cert, files.key)
        return found

    def scheduler(self, user: str, master: int = 0) -> Any:
        return scheduler_pb2_grpc.SchedulerServiceStub(self.channel(user, master))

    def access(self, user: str, master: int = 0) -> Any:
        return access_pb2_grpc.AccessServiceStub(self.channel(user, master))

    async def bind(self, *bindings: Binding) -> None:
        request = access_pb2.SetBindingsRequest(bindings=[to_message(one, types_pb2.Binding) for one in bindings])
        await self.access("root").SetBindings(request)

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        for server in self.servers:
            await server.stop()


@contextlib.asynccontextmanager
async def staged(
    folder: Path,
    more: dict[str, Any] | None = None,
    masters: tuple[str, ...] = ("m1", "m2"),
    authority: Authority | None = None,
    **access: Any,
) -> AsyncIterator[Stage]:
    authority = authority or Authority(folder / "ca")
    cluster = MemoryCluster(*masters)
    servers = []
    for member in masters:
        files = authority.files(member)
        raft = {"enabled": True, "node_id": member, "peers": ["m1=127.0.0.1:1", "m2=127.0.0.1:2"]}
        tls = {"cert": files.cert, "key": files.key, "ca": files.ca}
        access = {"admins": ["root"], **access}
        with_folder = settings(tls=tls, raft=raft, access=access, data_dir=str(folder / member), **(more or {}))
        (folder / member).mkdir(parents=True)
        servers.append(MasterServer(with_folder, cluster.members[member]))
    stage = Stage(authority, cluster, servers)
    try:
        for server in servers:
            await server.start()
        cluster.elect("m1")
        await until(lambda: stage.state.queues and len(stage.state.masters) == len(masters))
        queues = [to_message(queue, types_pb2.Queue) for queue in QUEUES]
        await stage.scheduler("root").SetQueues(scheduler_pb2.SetQueuesRequest(queues=queues))
        await stage.bind(*BINDINGS)
        for user, name, tenant in (("sue", "own", "a"), ("mate", "mates", "a"), ("bert", "foreign", "b")):
            await stage.scheduler(user).SubmitJob(submission(name, tenant))
        yield stage
    finally:
        await stage.close()


def job_of(name: str, tenant: str) -> JobSpec:
    """Return a job that waits, since there is no node."""
    made = spec(name, tenant=tenant)
    return type(made)(**{**{f: getattr(made, f) for f in made.__dataclass_fields__}, "queue": f"root.{tenant}"})


def submission(name: str, tenant: str) -> scheduler_pb2.SubmitJobRequest:
    return scheduler_pb2.SubmitJobRequest(spec=to_message(job_of(name, tenant), types_pb2.JobSpec))


def as_file(bindings: tuple[Binding, ...]) -> dict[str, Any]:
    return bindings_keys(bindings)


async def end_of(stream: Any) -> str:
    """Return the code with which a stream ends."""
    try:
        while await stream.read() is not grpc.aio.EOF:
            pass
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "OK"
