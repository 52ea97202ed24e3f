"""Real masters with TLS: each change and each refusal is recorded once, by the master that served or refused it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import symbol_database
from google.protobuf.message_factory import GetMessageClass

from gosched.audit.log import STARTED
from gosched.audit.record import AuditRecord
from gosched.audit.verify import verify
from gosched.config import ConfigError
from gosched.master.base import methods
from gosched.master.base.audit_object import object_of
from gosched.master.base.audited import Audit, begin_http
from gosched.master.base.callers import FORWARDED, FORWARDED_ADDRESS, Caller, Callers
from gosched.master.base.errors import ApiError
from gosched.master.base.methods import HTTP_METHOD, OWN, Needs, method_of
from gosched.master.server import MasterServer
from gosched.replication.memory import MemoryCluster, MemoryReplication
from gosched.wire.roles import Role
from gosched.wire.v1 import access_pb2, node_pb2, scheduler_pb2, scheduler_pb2_grpc, secret_pb2
from tests.audit.lines import whole_lines
from tests.master import http_client
from tests.master.harness import LIMIT_S, FakeAgent, front, settings, spec, submission, until
from tests.master.test_roles import METHODS, Secured, code_of
from tests.replication.certificates import Authority

RECORDED = {
    *("SubmitJob", "SubmitJobs", "CancelJob", "ControlJob", "ExecTask", "StreamJobLogs", "SetQueues", "SetQuotas"),
    *("SetClock", "SetWindow", "DropWindow", "CordonNode", "UncordonNode", "DrainNode", "RemoveNode", "LabelNode"),
    *("FinalizeUpgrade", "AddMaster", "RemoveMaster", "TransferLeadership", "TakeSnapshot", "TakeBackup"),
    *("SetLogLevel", "SetBindings", "CreateToken", "RevokeToken", "SetSecret", "DeleteSecret", "RotateSecrets"),
    *("RevokeCertificate", "UnrevokeCertificate"),
    *("Join", "RenewCertificate", "CreateJoinToken", "RevokeJoinToken"),
}


@contextlib.asynccontextmanager
async def audited(folder: Path) -> AsyncIterator[Secured]:
    """Two masters with certificates and audit logs; m1 leads."""
    authority, cluster, servers = Authority(folder / "ca"), MemoryCluster("m1", "m2"), []
    for member in ("m1", "m2"):
        files = authority.files(member)
        raft = {"enabled": True, "node_id": member, "peers": ["m1=127.0.0.1:1", "m2=127.0.0.1:2"]}
        tls = {"cert": files.cert, "key": files.key, "ca": files.ca}
        access = {"admins": ["ann"]}
        own = settings(tls=tls, raft=raft, access=access, audit={"path": str(folder / member)})
        servers.append(MasterServer(own, cluster.members[member]))
    running = Secured(authority, cluster, servers)
    try:
        for server in servers:
            await server.start()
        cluster.elect("m1")
        state = cluster.members["m1"].state
        await until(lambda: state.queues and len(state.masters) == 2)
        yield running
    finally:
        await running.close()


def records(folder: Path) -> list[dict[str, Any]]:
    return [one for one in whole_lines(folder) if one["action"] != STARTED]


def told(folder: Path, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(one.get(key, "") for key in keys) for one in records(folder)]


def test_every_method_is_judged() -> None:
    assert {f"{OWN}{name}" for name in methods.METHODS} - {HTTP_METHOD} == {*METHODS}
    assert {method.rpartition("/")[2] for method in METHODS if method_of(method).is_recorded} == RECORDED
    unknown = method_of("/gosched.v1.SchedulerService/OneOfTheNextRelease")
    assert (unknown.is_recorded, unknown.roles, unknown.needs) == (True, frozenset(), Needs.MACHINE)
    assert not method_of("/grpc.health.v1.Health/Check").is_recorded


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_record_can_say_what_any_call_is_about(method: str) -> None:
    service, _, name = method.removeprefix("/").partition("/")
    found = symbol_database.Default().pool.FindServiceByName(service).methods_by_name[name]
    request, answer = (GetMessageClass(kind)() for kind in (found.input_type, found.output_type))
    object_of(request, answer)  # raises where a field is not what it is taken for


def test_a_record_names_the_first_objects_of_a_call_and_no_secret() -> None:
    jobs = scheduler_pb2.SubmitJobsRequest()
    for number in range(12):
        jobs.specs.add(name=f"j-{number}", queue="research", tenant=f"t-{number % 2}")
    answer = scheduler_pb2.SubmitJobsResponse(revision=9)
    answer.outcomes.add(job_id="id-0")
    names = ", ".join([f"j-{number}" for number in range(10)])
    assert object_of(jobs, answer) == f"job {names}; id id-0; queue research; tenant t-0, t-1; and 2 more jobs"
    assert object_of(jobs, None) == f"job {names}; queue research; tenant t-0, t-1; and 2 more jobs", "it failed"
    assert object_of(None, answer) == "", "its request never came"
    secret = secret_pb2.SetSecretRequest(tenant="a", name="key", value=b"sesame")
    assert object_of(secret, None) == "secret a/key"
    token = access_pb2.CreateTokenRequest(name="ci", user="bob", queues=["research", "batch"], lasts_ms=5)
    assert object_of(token, None) == "queue research, batch; user bob; name ci"
    action = scheduler_pb2.ControlJobRequest(job="train", action=99)
    assert object_of(action, None) == "job train; action 99", "of a later release"


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_changes_and_refusals_over_grpc_are_recorded_once_with_their_caller(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with audited(tmp_path) as run, FakeAgent("n1").serving() as one:
            ann = scheduler_pb2_grpc.SchedulerServiceStub(run.channel(run.authority.files("ann", "client"), master))
            agent_files = run.authority.files("n1", "agent")
            agent = scheduler_pb2_grpc.SchedulerServiceStub(run.channel(agent_files, master))
            nodes = run.nodes(agent_files, master)
            await nodes.RegisterNode(one.registration(), timeout=LIMIT_S)
            await nodes.Heartbeat(node_pb2.HeartbeatRequest(node_id="n1", incarnation="boot-1"), timeout=LIMIT_S)
            made = await ann.SubmitJob(submission(spec("train"), "r-1"), timeout=LIMIT_S)
            await ann.ListJobs(scheduler_pb2.ListJobsRequest(), timeout=LIMIT_S)
            cancel = scheduler_pb2.CancelJobRequest(request_id="r-2", client_id="t", job="train")
            await ann.CancelJob(cancel, timeout=LIMIT_S)
            gone = scheduler_pb2.CancelJobRequest(request_id="r-3", client_id="t", job="none")
            assert await code_of(ann.CancelJob(gone)) is grpc.StatusCode.NOT_FOUND
            for _ in range(50):
                assert await code_of(agent.CancelJob(cancel)) is grpc.StatusCode.PERMISSION_DENIED
            posed = nodes.RegisterNode(one.registration(node_id="n2", name="host-2"))
            assert await code_of(posed) is grpc.StatusCode.PERMISSION_DENIED
            claimed = ((FORWARDED, "gosched:///client/boss"), (FORWARDED_ADDRESS, "9.9.9.9"))
            leader = scheduler_pb2_grpc.SchedulerServiceStub(run.channel(run.authority.files("ann", "client")))
            await leader.CancelJob(cancel, metadata=claimed, timeout=LIMIT_S)
            job_id = made.job_id
        found = told(tmp_path / "m1", "user", "authenticated", "action", "outcome", "code", "request_id", "address")
        ann_did = [one for one in found if one[0] == "ann"]
        what, here = ("ann", "certificate"), "127.0.0.1"
        assert ann_did == [
            (*what, "SchedulerService/SubmitJob", "allowed", "OK", "r-1", here),
            (*what, "SchedulerService/CancelJob", "allowed", "OK", "r-2", here),
            (*what, "SchedulerService/CancelJob", "failed", "NOT_FOUND", "r-3", here),
            (*what, "SchedulerService/CancelJob", "allowed", "OK", "r-2", here),
        ], "by its certificate, whatever it says of itself"
        first = records(tmp_path / "m1")[0]
        assert first["object"] == f"job train; id {job_id}; queue default; tenant default"
        assert first["revision"] > 0
        assert first["roles"] == "client"
        # Each master records what it refuses itself: the role at the door, the node where its records are.
        door = told(tmp_path / f"m{master + 1}", "user", "action", "outcome", "code", "count")
        refusals = [one for one in door if one[0] == "n1" and one[1].endswith("CancelJob")]
        denied = ("n1", "SchedulerService/CancelJob", "refused", "PERMISSION_DENIED")
        assert refusals == [(*denied, ""), (*denied, 49)]
        beats = told(tmp_path / "m1", "user", "action", "outcome", "object")
        assert [one for one in beats if "NodeService" in one[1]] == [
            ("n1", "NodeService/RegisterNode", "refused", "node n2; name host-2")
        ]
        assert {one["user"] for one in records(tmp_path / "m2")} <= ({"n1"} if master else set())
        for member in ("m1", "m2"):
            assert verify([tmp_path / member]).problem == ""

    asyncio.run(story())


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_changes_and_refusals_over_rest_are_recorded_once(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with audited(tmp_path) as run:
            address = run.servers[master].record.http_address

            def tls(name: str, role: str) -> ssl.SSLContext:
                files = run.authority.files(name, role)
                context = ssl.create_default_context(cafile=files.ca)  # noqa: TID251
                context.load_cert_chain(files.cert, files.key)
                return context

            ann, agent = tls("ann", "client"), tls("n1", "agent")
            text = b"name: a\nresources: {cpu: 1}\nrun: sleep 1\n"
            made = await http_client.request(
                address, "POST", "/api/v1/jobs", body=text, headers={"Content-Type": "application/yaml"}, tls=ann
            )
            assert made.status in (200, 201), made.text
            job_id = made.json()["id"] if "id" in made.json() else made.json()["job_id"]
            cancelled = await http_client.request(address, "POST", f"/api/v1/jobs/{job_id}/cancel", tls=ann)
            assert cancelled.status == 200, cancelled.text
            assert (await http_client.get(address, "/api/v1/jobs", tls=ann)).status == 200
            assert (await http_client.get(address, "/api/v1/jobs", tls=agent)).status == 403
            cross = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
            refused = await http_client.request(
                address, "POST", f"/api/v1/jobs/{job_id}/cancel", headers=cross, tls=ann
            )
            assert refused.status == 403
        changes = told(tmp_path / "m1", "user", "action", "outcome", "address")
        assert [one for one in changes if one[2] == "allowed"] == [
            ("ann", "SchedulerService/SubmitJob", "allowed", "127.0.0.1"),
            ("ann", "SchedulerService/CancelJob", "allowed", "127.0.0.1"),
        ]
        door = [one for one in records(tmp_path / f"m{master + 1}") if one["outcome"] == "refused"]
        assert [(one["user"], one["action"], one["code"]) for one in door] == [
            ("n1", "HTTP/GET /api/v1/jobs", "PERMISSION_DENIED"),
            ("ann", f"HTTP/POST /api/v1/jobs/{job_id}/cancel", "PERMISSION_DENIED"),
        ]
        assert "may not call" in door[0]["reason"]
        assert verify([tmp_path / "m1"]).problem == ""
        other = records(tmp_path / f"m{2 - master}")
        assert [one for one in other if one["outcome"] == "refused"] == []

    asyncio.run(story())


def test_without_tls_a_caller_is_its_address_and_a_reload_is_the_masters_own_change(tmp_path: Path) -> None:
    async def story() -> None:
        wanted = settings(queues=[{"name": "research", "type": "fair"}], audit={"path": str(tmp_path)})
        async with front(MemoryReplication("m1"), audit={"path": str(tmp_path)}, read_again=lambda: wanted) as running:
            await until(lambda: running.state.epoch and running.state.queues)
            await running.submit(spec())
            running.server.reload()
            await until(lambda: "research" in running.state.queues)
        found = told(tmp_path, "user", "authenticated", "action", "outcome", "roles")
        assert found == [
            ("127.0.0.1", "address", "SchedulerService/SubmitJob", "allowed", ""),
            ("m1", "master", "SchedulerService/SetQueues", "allowed", ""),
        ]

    asyncio.run(story())


def test_a_master_whose_audit_log_cannot_be_opened_says_so_and_does_not_start(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "file").write_text("")
        for audit in ({"path": str(tmp_path / "file/log")}, {"target": "syslog", "path": str(tmp_path / "none")}):
            server = MasterServer(settings(audit=audit), MemoryReplication("m1"))
            with pytest.raises(ConfigError, match=r"audit: cannot write to .*target: none"):
                await server.start()
            await server.stop()
        (tmp_path / "open").mkdir()
        (tmp_path / "open/other").write_text("")
        (tmp_path / "open").chmod(0o777)
        server = MasterServer(settings(audit={"path": str(tmp_path / "open")}), MemoryReplication("m1"))
        with pytest.raises(ConfigError, match="users other than its owner can write"):
            await server.start()
        await server.stop()

    asyncio.run(story())


class Context:
    """What gRPC says of a call with a certificate of this role."""

    def __init__(self, authority: Authority, role: str, *metadata: tuple[str, str]) -> None:
        self._role, self._metadata = role, metadata
        self._pem = Path(authority.files("x", role).cert).read_bytes()

    def auth_context(self) -> dict[str, list[bytes]]:
        uri = f"gosched:///{self._role}/x".encode()
        return {"transport_security_type": [b"ssl"], "peer_uri": [uri], "x509_pem_cert": [self._pem]}

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    def peer(self) -> str:
        return "ipv4:10.0.0.2:999"


def test_a_masters_word_alone_counts_for_the_address_of_a_call_that_was_passed_on(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    ann = Caller(role=Role.CLIENT, name="ann", address="10.0.0.1")
    assert dict(ann.header) == {FORWARDED: "gosched:///client/ann", FORWARDED_ADDRESS: "10.0.0.1"}
    seen = [Callers().of_call(Context(authority, role, *ann.header)) for role in ("master", "client", "agent")]
    assert [(one.name, one.address) for one in seen] == [("ann", "10.0.0.1"), ("x", "10.0.0.2"), ("x", "10.0.0.2")]
    without_name = Context(authority, "master", (FORWARDED, "1"), (FORWARDED_ADDRESS, "10.0.0.1"))
    assert Callers().of_call(without_name).address == "10.0.0.2"


class Watched:
    """An Audit whose records are kept."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []
        self.audit = Audit(self.records.append, "m1", lambda: 7)

    def call(self, method: str, error: BaseException | None = None, **more: object) -> list[tuple[str, str]]:
        """Return outcome and code of what was recorded of a call that ended so."""
        self.records.clear()
        with (
            contextlib.suppress(BaseException),
            self.audit.watch(f"/gosched.v1.{method}", Caller(role=Role.CLIENT, name="ann")) as audited,
        ):
            for name, value in more.items():
                setattr(audited, name, value)
            if audited.answer is not None:
                audited.begun(audited.answer)
            if error is not None:
                raise error
        return [(record.outcome.value, record.code) for record in self.records]


def test_a_call_is_recorded_by_how_it_ended_and_where_it_was_served() -> None:
    watched = Watched()
    cancel, read = "SchedulerService/CancelJob", "SchedulerService/GetJob"
    refused = ApiError(grpc.StatusCode.PERMISSION_DENIED, "no")
    assert watched.call(cancel) == [("allowed", "OK")]
    assert watched.call(cancel, refused) == watched.call(read, refused) == [("refused", "PERMISSION_DENIED")]
    assert watched.call(cancel, ApiError(grpc.StatusCode.NOT_FOUND, "gone")) == [("failed", "NOT_FOUND")]
    assert watched.call(cancel, asyncio.CancelledError()) == [("failed", "CANCELLED")]
    assert watched.call(cancel, RuntimeError("bug")) == [("failed", "INTERNAL")]
    assert watched.call(read) == watched.call(read, RuntimeError()) == []
    assert watched.call(cancel, passed_on=True) == watched.call(cancel, asyncio.CancelledError(), passed_on=True) == []
    answer = scheduler_pb2.LogChunk()
    logs = "SchedulerService/StreamJobLogs"
    assert watched.call(logs, asyncio.CancelledError()) == [("failed", "CANCELLED")]
    odd = type("Odd", (), {"labels": 3, "window": 4})()
    assert watched.call(cancel, request=odd) == [("allowed", "OK")], "no odd message hides a call"
    jobs = scheduler_pb2.SubmitJobsResponse(revision=9)
    jobs.outcomes.add(code="PERMISSION_DENIED", problem="not your queue")
    assert watched.call("SchedulerService/SubmitJobs", answer=jobs) == [("refused", "PERMISSION_DENIED")]
    jobs.outcomes.add(job_id="j-1")
    assert watched.call("SchedulerService/SubmitJobs", answer=jobs) == [("allowed", "OK")]
    assert watched.records[0].reason.startswith("1 of 2 jobs were not submitted: PERMISSION_DENIED: not your queue")
    assert watched.records[0].revision == 9
    assert watched.call(logs, request=scheduler_pb2.StreamJobLogsRequest(job="a")) == [("allowed", "OK")]
    assert watched.records[0].object == "job a"
    with watched.audit.watch(f"/gosched.v1.{logs}") as audited:
        watched.records.clear()
        audited.begun(answer)
        assert len(watched.records) == 1, "a stream is recorded when it begins"
        audited.begun(answer)
    assert len(watched.records) == 1


def test_commands_in_tasks_and_output_are_recorded(tmp_path: Path) -> None:
    async def story() -> None:
        async with front(MemoryReplication("m1"), audit={"path": str(tmp_path)}) as run:
            await until(lambda: run.state.epoch and run.state.queues)
            start = scheduler_pb2.ExecStart(job="none", command=["cat", "/etc/passwd"], env={"TOKEN": "secret"})
            asked = iter([scheduler_pb2.ExecRequest(start=start)])
            assert await code_of(run.scheduler.ExecTask(asked).read()) is grpc.StatusCode.NOT_FOUND
            asked_logs = scheduler_pb2.StreamJobLogsRequest(job="none")
            assert await code_of(run.scheduler.StreamJobLogs(asked_logs).read()) is grpc.StatusCode.NOT_FOUND
        assert told(tmp_path, "action", "object", "outcome") == [
            ("SchedulerService/ExecTask", "job none; command cat /etc/passwd", "failed"),
            ("SchedulerService/StreamJobLogs", "job none", "failed"),
        ]

    asyncio.run(story())


def test_a_refusal_over_http_is_recorded_where_it_is_noticed_first() -> None:
    watched, ann = Watched(), Caller(role=Role.CLIENT, name="ann")

    def over_http(*, inside: bool) -> list[str]:
        begin_http()
        if inside:
            watched.call("SchedulerService/ListJobs", ApiError(grpc.StatusCode.PERMISSION_DENIED, "no"))
        else:
            watched.records.clear()
        watched.audit.refused_http("HTTP/GET /api/v1/jobs", ann, "10.0.0.1", "PERMISSION_DENIED", "no")
        return [record.action for record in watched.records]

    assert contextvars.copy_context().run(lambda: over_http(inside=True)) == ["SchedulerService/ListJobs"]
    assert contextvars.copy_context().run(lambda: over_http(inside=False)) == ["HTTP/GET /api/v1/jobs"]
