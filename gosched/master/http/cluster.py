"""REST of the cluster itself: its masters and who leads, snapshots, and what is used now."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request

from gosched.api.json.cluster import member_json
from gosched.api.json.document import Document
from gosched.api.json.usage import node_usage_json, task_usage_json
from gosched.api.json.values import Json
from gosched.api.status import MasterMember
from gosched.config.requests import NewMaster
from gosched.master.http.call import Call, JsonResponse, read_model
from gosched.master.http.changes import Change, MasterChange
from gosched.master.http.routes import answers, body_of, rest_router
from gosched.wire.codec import to_record
from gosched.wire.node_views import live_usage
from gosched.wire.v1 import cluster_pb2, node_pb2

router = rest_router("cluster")

_MEMBER = member_json.schema()
_NEW: Json = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[A-Za-z0-9]([A-Za-z0-9_.-]{0,60}[A-Za-z0-9])?$"},
        "address": {
            "type": "string",
            "description": "host:port of its replica",
            "pattern": "^[a-z0-9]([a-z0-9.-]{0,60}[a-z0-9])?:[1-9][0-9]{0,3}$",
        },
    },
    "required": ["id", "address"],
}
_master_json = Document(MasterChange)
_removed_json = Document(Change, "unchanged")


def _usage_schema() -> Json:
    nodes = {**node_usage_json.schema()}
    nodes = {**nodes, "properties": {"node": {"type": "string"}, **nodes["properties"]}}
    return {
        "type": "object",
        "properties": {
            "nodes": {"type": "array", "items": nodes},
            "tasks": {"type": "array", "items": task_usage_json.schema()},
        },
        "required": ["nodes", "tasks"],
    }


@router.get("/cluster/members", summary="List the masters that the log names", **answers("Member", _MEMBER, many=True))
async def list_members(call: Call) -> JsonResponse:
    message = await call.ask("ListMembers", cluster_pb2.ListMembersRequest())
    return JsonResponse([member_json(to_record(member, MasterMember)) for member in message.members])


@router.post(
    "/cluster/members",
    summary="Add a master, which votes once it has caught up; asked again, it says how far that is",
    openapi_extra=body_of("NewMaster", _NEW),
    **answers("Member", _MEMBER),
)
async def add_member(request: Request, call: Call) -> JsonResponse:
    body = await read_model(request, NewMaster)
    message = await call.ask("AddMaster", cluster_pb2.AddMasterRequest(id=body.id, address=body.address))
    return JsonResponse(member_json(to_record(message.member, MasterMember)))


@router.delete(
    "/cluster/members/{member}",
    summary="Remove a master, dead or alive",
    **answers("Removed", _removed_json.schema()),
)
async def remove_member(member: str, call: Call) -> JsonResponse:
    message = await call.ask("RemoveMaster", cluster_pb2.RemoveMasterRequest(id=member))
    return JsonResponse(_removed_json(Change(unchanged=message.unchanged, revision=0)))


@router.post(
    "/cluster/transfer-leadership",
    summary="Let another master lead",
    **answers("MasterChange", _master_json.schema()),
)
async def transfer_leadership(call: Call) -> JsonResponse:
    message = await call.ask("TransferLeadership", cluster_pb2.TransferLeadershipRequest())
    return JsonResponse(_master_json(MasterChange(master=message.leader)))


@router.post(
    "/cluster/snapshot",
    summary="Let the master that is asked store its state, and shorten its log",
    **answers("MasterChange", _master_json.schema()),
)
async def take_snapshot(call: Call) -> JsonResponse:
    message = await call.here("TakeSnapshot", cluster_pb2.TakeSnapshotRequest())
    return JsonResponse(_master_json(MasterChange(master=message.master)))


@router.get("/usage", summary="What nodes, and running tasks, use now", **answers("Usage", _usage_schema()))
async def usage(
    call: Call,
    node: Annotated[str, Query(max_length=256, description="An id: of this node alone.")] = "",
    job: Annotated[str, Query(max_length=256, description="Of this job's tasks alone, by id or name.")] = "",
    tasks: Annotated[bool, Query(description="Of tasks, too.")] = False,
) -> JsonResponse:
    request = node_pb2.ListUsageRequest(node=node, job=job, tasks=tasks)
    found = live_usage(await call.ask("ListUsage", request))
    nodes = [{"node": one.node_id, **node_usage_json(one)} for one in found.nodes]
    return JsonResponse({"nodes": nodes, "tasks": [task_usage_json(task) for task in found.tasks]})
