"""Walks all calls with all roles, and says what came of each.

Each RPC and each route has a line below: the permission that it needs, and a request for each object that it can be on.
Whether a call was allowed is read from its answer alone: a refusal is PERMISSION_DENIED (403), or that there is no such
job; anything else, an error too, is an answer of a service that was reached.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from fastapi.routing import APIRoute

from gosched.core.commands.jobs import Action
from gosched.core.records.queue import Queue
from gosched.master.http.app import ROUTERS
from gosched.wire.codec import to_message
from gosched.wire.v1 import (
    access_pb2,
    cluster_pb2,
    history_pb2,
    join_pb2,
    node_pb2,
    scheduler_pb2,
    secret_pb2,
    types_pb2,
)
from tests.access.stage import BINDINGS, QUEUES, USERS, Stage, as_file, job_of
from tests.master import http_client
from tests.master.harness import LIMIT_S

SERVICES = {
    "AccessService": access_pb2,
    "ClusterService": cluster_pb2,
    "HistoryService": history_pb2,
    "JoinService": join_pb2,
    "NodeService": node_pb2,
    "SchedulerService": scheduler_pb2,
    "SecretService": secret_pb2,
}
OBJECTS = ("own", "mates", "foreign")
TENANT = {"own": "a", "mates": "a", "foreign": "b"}
#: Of the programs of a cluster; no user calls them.
OF_MACHINES = (
    "RegisterNode",
    "Heartbeat",
    "AnnounceMaster",
    "ReadClock",
    "GetStateDigests",
    "StreamHistory",
    "RenewCertificate",
)
STREAMS = ("WatchJob", "StreamJobLogs", "ExecTask", "TakeBackup", "WatchEvents", "StreamHistory")
ALL = ("",)

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Line:
    """A call: what it needs, and its request for each object; of what is on no object, for ""."""

    permission: str
    objects: tuple[str, ...]
    request: Callable[[str], Any]
    query: str = ""


def _job(kind: Any) -> Callable[[str], Any]:
    return lambda job: kind(job=job)


def _spec(on: str) -> types_pb2.JobSpec:
    return to_message(job_of(f"new-{next(_numbers)}", TENANT[on]), types_pb2.JobSpec)


def _queues(on: str) -> list[types_pb2.Queue]:
    new = Queue(path=f"root.{TENANT[on]}.n{next(_numbers)}")
    return [to_message(queue, types_pb2.Queue) for queue in (*QUEUES, new)]


def _quota(on: str) -> list[types_pb2.Quota]:
    return [types_pb2.Quota(tenant=TENANT[on], limit={"cpu": 1000 + next(_numbers)})]


def _bindings() -> list[types_pb2.Binding]:
    return [to_message(binding, types_pb2.Binding) for binding in BINDINGS]


RPCS: Mapping[str, Line] = {
    "SetBindings": Line("grant", ALL, lambda _: access_pb2.SetBindingsRequest(bindings=_bindings())),
    "ListBindings": Line("grant", ALL, lambda _: access_pb2.ListBindingsRequest()),
    "CheckAccess": Line("-", ALL, lambda _: access_pb2.CheckAccessRequest()),
    "CreateToken": Line(
        "view",
        ALL,
        lambda _: access_pb2.CreateTokenRequest(name="t", role=types_pb2.ACCESS_ROLE_VIEWER, lasts_ms=60_000),
    ),
    "ListTokens": Line("view", ALL, lambda _: access_pb2.ListTokensRequest()),
    "RevokeToken": Line("view", ALL, lambda _: access_pb2.RevokeTokenRequest(id="none")),
    "RevokeCertificate": Line("administer", ALL, lambda _: access_pb2.RevokeCertificateRequest(serial="no mark")),
    "ListRevocations": Line("administer", ALL, lambda _: access_pb2.ListRevocationsRequest()),
    "UnrevokeCertificate": Line("administer", ALL, lambda _: access_pb2.UnrevokeCertificateRequest(serial="no mark")),
    "GetAuthority": Line("-", ALL, lambda _: join_pb2.GetAuthorityRequest()),
    "Join": Line("-", ALL, lambda _: join_pb2.JoinRequest(token="none")),
    "CreateJoinToken": Line("operate", ALL, lambda _: join_pb2.CreateJoinTokenRequest(name="t", lasts_ms=60_000)),
    "ListJoinTokens": Line("operate", ALL, lambda _: join_pb2.ListJoinTokensRequest()),
    "RevokeJoinToken": Line("operate", ALL, lambda _: join_pb2.RevokeJoinTokenRequest(id="none")),
    "FinalizeUpgrade": Line("administer", ALL, lambda _: cluster_pb2.FinalizeUpgradeRequest()),
    "AddMaster": Line("administer", ALL, lambda _: cluster_pb2.AddMasterRequest()),
    "RemoveMaster": Line("administer", ALL, lambda _: cluster_pb2.RemoveMasterRequest()),
    "ListMembers": Line("view", ALL, lambda _: cluster_pb2.ListMembersRequest()),
    "TakeBackup": Line("administer", ALL, lambda _: cluster_pb2.TakeBackupRequest()),
    "TakeSnapshot": Line("administer", ALL, lambda _: cluster_pb2.TakeSnapshotRequest()),
    "TransferLeadership": Line("administer", ALL, lambda _: cluster_pb2.TransferLeadershipRequest()),
    "GetMasterHealth": Line("view", ALL, lambda _: cluster_pb2.GetMasterHealthRequest()),
    "SetLogLevel": Line("administer", ALL, lambda _: cluster_pb2.SetLogLevelRequest(level="loud")),
    "ListEvents": Line("view", ALL, lambda _: history_pb2.ListEventsRequest()),
    "WatchEvents": Line("view", ALL, lambda _: history_pb2.ListEventsRequest()),
    "ListAttempts": Line("view-job", OBJECTS, _job(history_pb2.ListAttemptsRequest)),
    "ListFinishedJobs": Line("view", ALL, lambda _: history_pb2.ListFinishedJobsRequest()),
    "ListNodes": Line("view", ALL, lambda _: node_pb2.ListNodesRequest()),
    "CordonNode": Line("operate", ALL, lambda _: node_pb2.ControlNodeRequest(node="n")),
    "UncordonNode": Line("operate", ALL, lambda _: node_pb2.ControlNodeRequest(node="n")),
    "DrainNode": Line("operate", ALL, lambda _: node_pb2.ControlNodeRequest(node="n")),
    "RemoveNode": Line("operate", ALL, lambda _: node_pb2.ControlNodeRequest(node="n")),
    "LabelNode": Line("operate", ALL, lambda _: node_pb2.LabelNodeRequest(node="n")),
    "ListUsage": Line("view-job", OBJECTS, _job(node_pb2.ListUsageRequest)),
    "SetSecret": Line(
        "set-secret",
        ("own", "foreign"),
        lambda on: secret_pb2.SetSecretRequest(tenant=TENANT[on], name="s", value=b"v"),
    ),
    "ListSecrets": Line("use-secret", ("own", "foreign"), lambda on: secret_pb2.ListSecretsRequest(tenant=TENANT[on])),
    "DeleteSecret": Line(
        "set-secret", ("own", "foreign"), lambda on: secret_pb2.DeleteSecretRequest(tenant=TENANT[on], name="none")
    ),
    "RotateSecrets": Line("administer", ALL, lambda _: secret_pb2.RotateSecretsRequest()),
    "SubmitJob": Line("submit", ("own", "foreign"), lambda on: scheduler_pb2.SubmitJobRequest(spec=_spec(on))),
    "SubmitJobs": Line("submit", ("own", "foreign"), lambda on: scheduler_pb2.SubmitJobsRequest(specs=[_spec(on)])),
    "ReadJobs": Line("view", ALL, lambda _: scheduler_pb2.ReadJobsRequest(text=b"name: x\nrun: 'true'")),
    "GetJob": Line("view-job", OBJECTS, _job(scheduler_pb2.GetJobRequest)),
    "ListJobs": Line("view", ALL, lambda _: scheduler_pb2.ListJobsRequest()),
    "WatchJob": Line("view-job", OBJECTS, _job(scheduler_pb2.GetJobRequest)),
    "CancelJob": Line("change-job", OBJECTS, lambda job: scheduler_pb2.CancelJobRequest(job=job, reason="x" * 2000)),
    "ExecTask": Line(
        "exec", OBJECTS, lambda job: scheduler_pb2.ExecRequest(start=scheduler_pb2.ExecStart(job=job, command=["true"]))
    ),
    "StreamJobLogs": Line("read-logs", OBJECTS, _job(scheduler_pb2.StreamJobLogsRequest)),
    "ExplainJob": Line("view-job", OBJECTS, _job(scheduler_pb2.GetJobRequest)),
    "ListWaits": Line("view", ALL, lambda _: scheduler_pb2.ListWaitsRequest()),
    "GetClusterStatus": Line("view", ALL, lambda _: scheduler_pb2.GetClusterStatusRequest()),
    "SetQueues": Line("set-queue", ("own", "foreign"), lambda on: scheduler_pb2.SetQueuesRequest(queues=_queues(on))),
    "SetQuotas": Line("set-quota", ("own", "foreign"), lambda on: scheduler_pb2.SetQuotasRequest(quotas=_quota(on))),
    "ListQuotas": Line("view", ALL, lambda _: scheduler_pb2.ListQuotasRequest()),
    "ControlJob": Line(
        "change-job",
        OBJECTS,
        lambda job: scheduler_pb2.ControlJobRequest(job=job, action=Action.HOLD.value),
    ),
    "PlanJob": Line("submit", ("own", "foreign"), lambda on: scheduler_pb2.PlanJobRequest(specs=[_spec(on)])),
    "SetClock": Line("administer", ALL, lambda _: scheduler_pb2.SetClockRequest()),
    "SetWindow": Line("operate", ALL, lambda _: scheduler_pb2.SetWindowRequest()),
    "DropWindow": Line("operate", ALL, lambda _: scheduler_pb2.DropWindowRequest(name="w")),
    "ListReservations": Line("view", ALL, lambda _: scheduler_pb2.ListReservationsRequest()),
}


def _text(on: str) -> Any:
    return {"name": f"new-{next(_numbers)}", "tenant": TENANT[on], "queue": f"root.{TENANT[on]}", "run": "true"}


def _tree(on: str) -> Any:
    below = {tenant: [{"name": f"n{next(_numbers)}"}] if tenant == TENANT[on] else [] for tenant in "ab"}
    leaves = [{"name": tenant, **({"children": below[tenant]} if below[tenant] else {})} for tenant in "ab"]
    return {"queues": [{"name": "root", "children": leaves}, {"name": "default"}]}


#: Method and path; {job}, {tenant} stand for the object. The request is the body.
ROUTES: Mapping[str, Line] = {
    "GET /api/v1/access/bindings": Line("grant", ALL, lambda _: None),
    "PUT /api/v1/access/bindings": Line("grant", ALL, lambda _: as_file(BINDINGS)),
    "GET /api/v1/access/check": Line("-", ALL, lambda _: None),
    "GET /api/v1/tokens": Line("view", ALL, lambda _: None),
    "POST /api/v1/tokens": Line("view", ALL, lambda _: {"name": "t", "role": "viewer", "lasts": "1m"}),
    "DELETE /api/v1/tokens/{token}": Line("view", ALL, lambda _: None),
    "GET /api/v1/secrets": Line("list-secrets", ALL, lambda _: None),
    "PUT /api/v1/secrets/{tenant}/{name}": Line("set-secret", ("own", "foreign"), lambda _: {"value": "v"}),
    "DELETE /api/v1/secrets/{tenant}/{name}": Line("set-secret", ("own", "foreign"), lambda _: None),
    "POST /api/v1/secrets/rotate": Line("administer", ALL, lambda _: None),
    "GET /api/v1/status": Line("view", ALL, lambda _: None),
    "GET /api/v1/cluster/members": Line("view", ALL, lambda _: None),
    "POST /api/v1/cluster/members": Line("administer", ALL, lambda _: {"id": "m9", "address": "x"}),
    "DELETE /api/v1/cluster/members/{member}": Line("administer", ALL, lambda _: None),
    "POST /api/v1/cluster/transfer-leadership": Line("administer", ALL, lambda _: None),
    "POST /api/v1/cluster/snapshot": Line("administer", ALL, lambda _: None),
    "GET /api/v1/usage": Line("view", ALL, lambda _: None),
    "GET /api/v1/nodes": Line("view", ALL, lambda _: None),
    "GET /api/v1/nodes/{node}": Line("view", ALL, lambda _: None),
    "POST /api/v1/nodes/{node}/cordon": Line("operate", ALL, lambda _: {}),
    "POST /api/v1/nodes/{node}/uncordon": Line("operate", ALL, lambda _: {}),
    "POST /api/v1/nodes/{node}/drain": Line("operate", ALL, lambda _: {}),
    "DELETE /api/v1/nodes/{node}": Line("operate", ALL, lambda _: None),
    "POST /api/v1/nodes/{node}/labels": Line("operate", ALL, lambda _: {}),
    "GET /api/v1/queues": Line("view", ALL, lambda _: None),
    "GET /api/v1/queues/{queue}": Line("view", ALL, lambda _: None),
    "PUT /api/v1/queues": Line("set-queue", ("own", "foreign"), _tree),
    "GET /api/v1/quotas": Line("view", ALL, lambda _: None),
    "PUT /api/v1/quotas": Line(
        "set-quota", ("own", "foreign"), lambda on: {"quotas": [{"tenant": TENANT[on], "limit": {"cpu": 1}}]}
    ),
    "PUT /api/v1/quotas/{tenant}": Line(
        "set-quota", ("own", "foreign"), lambda _: {"limit": {"cpu": f"{1000 + next(_numbers)}m"}}
    ),
    "DELETE /api/v1/quotas/{tenant}": Line("drop-quota", ("own", "foreign"), lambda _: None),
    "GET /api/v1/reservations": Line("view", ALL, lambda _: None),
    "PUT /api/v1/reservations/{name}": Line("operate", ALL, lambda _: {"nodes": ["n"], "end": "2099-01-01T00:00:00Z"}),
    "DELETE /api/v1/reservations/{name}": Line("operate", ALL, lambda _: None),
    "GET /api/v1/jobs": Line("view", ALL, lambda _: None),
    "POST /api/v1/jobs": Line("submit", ("own", "foreign"), _text),
    "POST /api/v1/jobs:batch": Line("submit", ("own", "foreign"), lambda on: [_text(on)]),
    "POST /api/v1/plan": Line("submit", ("own", "foreign"), _text),
    "GET /api/v1/events": Line("view", ALL, lambda _: None),
    "GET /api/v1/history/jobs": Line("view", ALL, lambda _: None),
    "POST /api/v1/jobs/{job}/cancel": Line("change-job", OBJECTS, lambda _: {"reason": "x" * 2000}),
    **{
        f"POST /api/v1/jobs/{{job}}/{change}": Line("change-job", OBJECTS, lambda _: None)
        for change in ("hold", "release", "suspend", "resume", "requeue")
    },
    "POST /api/v1/jobs/{job}/scale": Line("change-job", OBJECTS, lambda _: None, query="?tasks=1"),
    "GET /api/v1/jobs/{job}": Line("view-job", OBJECTS, lambda _: None),
    "GET /api/v1/jobs/{job}/explain": Line("view-job", OBJECTS, lambda _: None),
    "GET /api/v1/jobs/{job}/spec": Line("view-job", OBJECTS, lambda _: None),
    "GET /api/v1/jobs/{job}/attempts": Line("view-job", OBJECTS, lambda _: None),
    "GET /api/v1/jobs/{job}/logs": Line("read-logs", OBJECTS, lambda _: None),
}


@dataclass(frozen=True, slots=True)
class Walked:
    """One call by one role: whether it was allowed."""

    call: str
    permission: str
    role: str
    on: str
    allowed: bool


def routes() -> list[tuple[str, str]]:
    """Return the methods and paths of REST."""
    found = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    return [(method, route.path) for route in found for method in sorted(route.methods)]


async def walk_rpcs(stage: Stage, master: int) -> list[Walked]:
    """Make each RPC with each role on each object."""
    found = []
    for service, module in SERVICES.items():
        for method in module.DESCRIPTOR.services_by_name[service].methods:
            line = RPCS.get(method.name)
            for role, user in USERS.items():
                for on in line.objects if line else ALL:
                    allowed = await _rpc(stage, user, master, method, line.request(on) if line else None)
                    if method.name == "TransferLeadership" and allowed:
                        stage.cluster.elect("m1")
                        await asyncio.sleep(0.1)
                    permission = line.permission if line else "(machines)"
                    found.append(Walked(f"{service}/{method.name}", permission, role, on, allowed))
    return found


async def walk_routes(stage: Stage, master: int, routes: list[tuple[str, str]]) -> list[Walked]:
    """Make each call of REST with each role on each object."""
    found = []
    contexts = {user: stage.context(user) for user in USERS.values()}
    address = f"localhost:{stage.servers[master].record.http_address.rpartition(':')[2]}"
    for method, path in routes:
        line = ROUTES.get(f"{method} {path}")
        assert line is not None, f"{method} {path} has no line in tests/access/walk.py"
        for role, user in USERS.items():
            for on in line.objects:
                names = {"job": on, "tenant": TENANT.get(on, ""), "queue": "root", "node": "n"}
                names |= {"token": "none", "member": "m9", "name": "w"}
                answer = await http_client.request(
                    address, method, path.format(**names) + line.query, body=line.request(on), tls=contexts[user]
                )
                refused = (
                    answer.status in (401, 403)
                    or "PERMISSION_DENIED" in answer.text
                    or (answer.status == 404 and "there is no job" in answer.text)
                )
                if method == "POST" and path.endswith("transfer-leadership") and not refused:
                    stage.cluster.elect("m1")
                    await asyncio.sleep(0.1)
                found.append(Walked(f"{method} {path}", line.permission, role, on, not refused))
    return found


async def _rpc(stage: Stage, user: str, master: int, method: Any, request: Any) -> bool:
    path = f"/{method.containing_service.full_name}/{method.name}"
    channel = stage.channel(user, master)
    data = b"" if request is None else request.SerializeToString()
    if method.name in STREAMS:
        call = channel.stream_stream(path)(iter([data]))
        pending = call.read()
    else:
        pending = call = channel.unary_unary(path)(data)
    try:
        async with asyncio.timeout(LIMIT_S):
            answer = await pending
    except grpc.aio.AioRpcError as error:
        refused = error.code() is grpc.StatusCode.PERMISSION_DENIED or "there is no job" in (error.details() or "")
        return not refused
    finally:
        call.cancel()
    if method.name == "SubmitJobs":  # each job has its own outcome
        outcomes = scheduler_pb2.SubmitJobsResponse.FromString(answer).outcomes
        return outcomes[0].code != grpc.StatusCode.PERMISSION_DENIED.name
    return True


def table(walked: list[Walked]) -> str:
    """Return the table of calls and roles, as Markdown: on which objects each role may make each call."""
    calls: dict[str, dict[str, list[str]]] = {}
    permissions = {one.call: one.permission for one in walked}
    for one in walked:
        roles = calls.setdefault(one.call, {role: [] for role in USERS})
        if one.allowed:
            roles[one.role].append(one.on or "yes")
    head = ["call", "permission", *USERS]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for call, roles in calls.items():
        cells = [", ".join(dict.fromkeys(roles[role])) or "-" for role in USERS]
        lines.append(f"| {call} | {permissions[call]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def counts(walked: list[Walked]) -> dict[str, int]:
    return {
        "calls": len({one.call for one in walked}),
        "made": len(walked),
        "allowed": sum(one.allowed for one in walked),
        "refused": sum(not one.allowed for one in walked),
    }


def page(rpcs: list[Walked], routes: list[Walked]) -> str:
    """Return the page of the reference that has both tables."""
    parts = ["# Roles and calls", "", _INTRO, ""]
    for title, walked in (("gRPC", rpcs), ("REST", routes)):
        found = counts(walked)
        said = f"{found['calls']} calls, {len(USERS)} roles: {found['made']} made, {found['allowed']} allowed, "
        parts += [f"## {title}", "", f"{said}{found['refused']} refused.", "", table(walked), ""]
    return "\n".join(parts)


_INTRO = """\
What each role may call, as a test found it that made every call with every role (`tests/access/test_walk.py`; `python
-m tests.access.record` writes this page anew). The jobs are of two tenants: `own` is the caller's, `mates` another
user's of the same tenant, `foreign` of another tenant. The roles viewer, submitter and tenant-admin are bound to the
first tenant, and submitter and tenant-admin to its queue. [Access](../operations/access.md) says how to bind them.
Lists (`ListJobs`, `ListEvents`, ...) show each caller what it may see. `-`: refused."""
