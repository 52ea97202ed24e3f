"""Garbage on the wire and in bodies: an error with its reason, never a bug of ours, and the master goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gosched.wire.v1 import cluster_pb2, history_pb2, join_pb2, node_pb2, scheduler_pb2
from tests.master.harness import LIMIT_S, Front, one_master, spec
from tests.master.http_client import request

SERVICES = {
    "SchedulerService": scheduler_pb2,
    "NodeService": node_pb2,
    "HistoryService": history_pb2,
    "ClusterService": cluster_pb2,
    "JoinService": join_pb2,
}
METHODS = [method for name, module in SERVICES.items() for method in module.DESCRIPTOR.services_by_name[name].methods]
# They end the cluster, or wait for what never comes.
LEFT_OUT = {"RemoveMaster", "AddMaster", "FinalizeUpgrade", "TransferLeadership", "AnnounceMaster", "TakeBackup"}
ROUNDS = 3
STREAM_S = 0.2

TEXTS = ("", "a", "default", "a\nb", "é" * 50, "x" * 400, "../..", "\0", "%s", "j-1/main/0", "worker/0", "1" * 19)
NUMBERS = (0, 1, -1, 2, 1000, 2**31 - 1, -(2**31))
LARGE = (*NUMBERS, 2**63 - 1, -(2**63), 1 << 53)


def random_value(r: Random, field: FieldDescriptor, depth: int) -> Any:
    if field.message_type is not None:
        return random_message(r, GetMessageClass(field.message_type), depth - 1)
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            text = r.choice(TEXTS)
            return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
        case FieldDescriptor.CPPTYPE_BOOL:
            return r.random() < 0.5
        case FieldDescriptor.CPPTYPE_ENUM:
            return r.choice([*[value.number for value in field.enum_type.values], 99, -1])
        case FieldDescriptor.CPPTYPE_INT64:
            return r.choice(LARGE)
        case FieldDescriptor.CPPTYPE_UINT32 | FieldDescriptor.CPPTYPE_UINT64:
            return abs(r.choice(NUMBERS))
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return r.choice((0.0, -1.0, 1e300, float("inf"), float("nan")))
        case _:
            return r.choice(NUMBERS)


def random_message(r: Random, kind: type[Message], depth: int) -> Message:
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if r.random() < 0.4 or (field.message_type is not None and depth <= 0):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entry = field.message_type.fields_by_name
            pairs = getattr(message, field.name)
            key = random_value(r, entry["key"], 0)
            if entry["value"].message_type is None:
                pairs[key] = random_value(r, entry["value"], 0)
        elif field.is_repeated:
            items = [random_value(r, field, depth) for _ in range(r.choice((1, 1, 2, 5)))]
            getattr(message, field.name).extend(items)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(random_value(r, field, depth))
        else:
            setattr(message, field.name, random_value(r, field, depth))
    return message


def sound_name(r: Random, message: Message) -> None:
    """Let requests meet a job that is there, now and then."""
    for name in ("job", "name", "node_id"):
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is not None and field.cpp_type == FieldDescriptor.CPPTYPE_STRING and r.random() < 0.5:
            setattr(message, name, "a")


async def code_of(channel: grpc.aio.Channel, method: Any, request_bytes: bytes) -> grpc.StatusCode:
    path = f"/{method.containing_service.full_name}/{method.name}"
    kind = ("stream" if method.client_streaming else "unary") + ("_stream" if method.server_streaming else "_unary")
    call = getattr(channel, kind)(path)
    sent = iter([request_bytes]) if method.client_streaming else request_bytes
    try:
        if method.server_streaming:
            async for _ in call(sent, timeout=STREAM_S):
                pass
        else:
            await call(sent, timeout=LIMIT_S)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def is_well(master: Front) -> bool:
    request = scheduler_pb2.ListJobsRequest(page_size=1)
    return bool((await master.scheduler.ListJobs(request, timeout=LIMIT_S)).understood)


def test_no_message_whatever_its_values_makes_a_service_fail_by_a_bug(tmp_path: Path) -> None:
    r, seen = Random(14), set[grpc.StatusCode]()

    async def story() -> None:
        async with one_master(data_dir=str(tmp_path)) as master:
            await master.submit(spec("a", cpus=100))
            for _ in range(ROUNDS):
                for method in METHODS:
                    if method.name in LEFT_OUT:
                        continue
                    message = random_message(r, GetMessageClass(method.input_type), 4)
                    sound_name(r, message)
                    code = await code_of(master.channel, method, message.SerializeToString())
                    assert code not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN), (method.name, message)
                    seen.add(code)
            assert await is_well(master)

    asyncio.run(story())
    assert {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND} <= seen


def test_bytes_that_are_no_message_are_refused_by_every_method(tmp_path: Path) -> None:
    r = Random(15)

    async def story() -> None:
        async with one_master(data_dir=str(tmp_path)) as master:
            for method in METHODS:
                if method.name in LEFT_OUT:
                    continue
                for raw in (b"\xff" * 20, b"\x0a\xff\xff\xff\xff\x0f", r.randbytes(200), b"\x0a\x02\xff\xfe"):
                    code = await code_of(master.channel, method, raw)
                    assert code not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN), (method.name, raw)
            assert await is_well(master)

    asyncio.run(story())


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["1Gi", "30s", "2h", "50%", "all", "0-9", "h100:8", "a" * 300, "/x", "exists"]),
)
_NAMES = (
    "name run queue count resources cpu gpu memory gang min tasks placement affinity array range matrix after deadline"
    " in spark app conf labels env timeout priority retry when volumes limits rlimits schedule cron"
)
KEYS = st.sampled_from(_NAMES.split())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(KEYS, st.text(max_size=5)), inner, max_size=4)
    ),
    max_leaves=12,
)
JOBS = st.dictionaries(KEYS, VALUES, max_size=6).map(lambda job: {"name": "fuzz", "run": "x", **job})
LINES = (
    *("name: a", "run: x", "count: 1e99", "a: &x [*x]", "? {}", "- ", "---", "...", "%YAML 9.9", "!!binary x"),
    *("<<: {}", "  b: ]", '"', "'", "|", ">-", "\t", "# é", "labels: {a: 1, a: 2}", "run: [x"),
    *("env: {" + "a: " * 40, "k: " + "9" * 400),
)
YAML_LINES = st.lists(st.sampled_from(LINES), max_size=8).map("\n".join)


def test_no_body_whatever_it_holds_is_a_bug_or_a_hang() -> None:
    async def story(bodies: list[tuple[str, bytes]]) -> None:
        async with one_master() as master:
            for path in ("/api/v1/jobs?dryRun=true", "/api/v1/jobs", "/api/v1/plan", "/api/v1/jobs:batch"):
                for kind, body in bodies:
                    answer = await request(master, "POST", path, body=body, headers={"Content-Type": kind})
                    assert answer.status < 500, (path, kind, body, answer.text)
                    if answer.status >= 400:
                        assert answer.content_type == "application/problem+json"
            assert await is_well(master)

    bodies: list[tuple[str, bytes]] = []

    @settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(JOBS, VALUES, YAML_LINES, st.binary(max_size=40))
    def collect(job: Any, value: Any, lines: str, raw: bytes) -> None:
        bodies.append(("application/json", json.dumps(job).encode()))
        bodies.append(("application/json", json.dumps(value).encode()))
        bodies.append(("application/yaml", lines.encode()))
        bodies.append((("application/json", "application/yaml")[len(raw) % 2], raw))

    collect()
    asyncio.run(story(bodies[:: max(1, len(bodies) // 60)]))
