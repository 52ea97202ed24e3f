"""Every change that may be asked for again gets its first answer again, whatever would stand in its way by then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from gosched.core.commands.cluster import SetClock
from gosched.core.commands.command import Command
from gosched.core.commands.jobs import Action
from gosched.core.commands.nodes import MarkNodeDead
from gosched.master.agents.join_service import JoinService
from gosched.master.base.access import Access
from gosched.master.base.clock import StateClock
from gosched.master.base.errors import unmet
from gosched.master.base.proposals import Proposals
from gosched.master.base.secret_keys import SecretKeys
from gosched.master.cluster.feature_levels import FeatureLevels
from gosched.master.jobs.admission import Admissions
from gosched.wire.codec import to_message
from gosched.wire.v1 import access_pb2, cluster_pb2, join_pb2, node_pb2, scheduler_pb2, secret_pb2, types_pb2
from tests.access.joins import joinable
from tests.access.stage import BINDINGS, QUEUES, Stage, job_of
from tests.access.walk import SERVICES
from tests.master.harness import LIMIT_S, until
from tests.master.test_secrets import with_keys
from tests.state_machine.cluster import registration

USER = "root"
HOUR_MS = 3_600_000
PAST_END = "has made .*token .* before, and its secret cannot be had again"


def job(name: str) -> types_pb2.JobSpec:
    return to_message(job_of(name, "a"), types_pb2.JobSpec)


#: Each change with a request id, and a request that takes effect; of the second kind a change by the name of the first.
CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "SubmitJob": lambda _: scheduler_pb2.SubmitJobRequest(spec=job("one")),
    "SubmitJobs": lambda _: scheduler_pb2.SubmitJobsRequest(specs=[job("two"), job("three")], all_or_nothing=True),
    "ControlJob": lambda done: scheduler_pb2.ControlJobRequest(job=done["SubmitJob"].job_id, action=Action.HOLD.value),
    "CancelJob": lambda done: scheduler_pb2.CancelJobRequest(job=done["SubmitJob"].job_id),
    "SetQueues": lambda _: scheduler_pb2.SetQueuesRequest(
        queues=[to_message(queue, types_pb2.Queue) for queue in (*QUEUES, type(QUEUES[0])(path="root.new"))]
    ),
    "SetQuotas": lambda _: scheduler_pb2.SetQuotasRequest(quotas=[types_pb2.Quota(tenant="a", limit={"cpu": 1000})]),
    "SetWindow": lambda _: scheduler_pb2.SetWindowRequest(
        window=types_pb2.Window(name="w", nodes=["n1"], start_ms=1, end_ms=int(time.time() * 1000) + 48 * HOUR_MS)
    ),
    "DropWindow": lambda _: scheduler_pb2.DropWindowRequest(name="w"),
    "SetClock": lambda _: scheduler_pb2.SetClockRequest(),
    "CordonNode": lambda _: node_pb2.ControlNodeRequest(node="n1"),
    "DrainNode": lambda _: node_pb2.ControlNodeRequest(node="n1"),
    "UncordonNode": lambda _: node_pb2.ControlNodeRequest(node="n1"),
    "LabelNode": lambda _: node_pb2.LabelNodeRequest(node="n1", labels={"a": "b"}),
    "RemoveNode": lambda _: node_pb2.ControlNodeRequest(node="n2"),
    "FinalizeUpgrade": lambda _: cluster_pb2.FinalizeUpgradeRequest(),
    "CreateToken": lambda _: access_pb2.CreateTokenRequest(
        name="t", role=types_pb2.ACCESS_ROLE_VIEWER, lasts_ms=60_000
    ),
    "RevokeToken": lambda done: access_pb2.RevokeTokenRequest(id=done["CreateToken"].token.id),
    "RevokeCertificate": lambda _: access_pb2.RevokeCertificateRequest(serial="abc"),
    "UnrevokeCertificate": lambda _: access_pb2.UnrevokeCertificateRequest(serial="abc"),
    "SetSecret": lambda _: secret_pb2.SetSecretRequest(tenant="a", name="s", value=b"v"),
    "DeleteSecret": lambda _: secret_pb2.DeleteSecretRequest(tenant="a", name="s"),
    "CreateJoinToken": lambda _: join_pb2.CreateJoinTokenRequest(name="t", lasts_ms=60_000),
    "RevokeJoinToken": lambda done: join_pb2.RevokeJoinTokenRequest(id=done["CreateJoinToken"].token.id),
    "SetBindings": lambda _: access_pb2.SetBindingsRequest(
        bindings=[to_message(binding, types_pb2.Binding) for binding in BINDINGS[1:]]
    ),
}


def methods() -> dict[str, Any]:
    """Return the calls whose answers are remembered."""
    found = [m for s, module in SERVICES.items() for m in module.DESCRIPTOR.services_by_name[s].methods]
    return {method.name: method for method in found if "request_id" in method.input_type.fields_by_name}


def stand_in_the_way(patch: pytest.MonkeyPatch) -> None:
    """Let whatever is looked at before a change refuse it, its user's permission included."""

    def refuse(*_: object, **__: object) -> Any:
        raise unmet("it would be refused now")

    patch.setattr(Access, "bindings_of", lambda *_: ())
    patch.setattr(Access, "check", refuse)
    patch.setattr(Access, "find_job", refuse)
    patch.setattr(Access, "check_submission", refuse)
    patch.setattr(Access, "check_quota", refuse)
    patch.setattr(FeatureLevels, "newest", lambda _: {"m1": 5, "m2": 0})
    patch.setattr(StateClock, "agreed_ms", lambda _: None)
    patch.setattr(SecretKeys, "needed", refuse)
    patch.setattr(JoinService, "_check_can_sign", refuse)
    patch.setattr(Admissions, "submission", refuse)
    patch.setattr(Admissions, "plain", refuse)
    patch.setattr(Proposals, "_check_level", refuse)
    patch.setattr(Proposals, "propose_all", refuse)


def test_a_repeat_gets_the_first_answer_whatever_stands_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sorted(methods()) == sorted(CHANGES), "each change has a line"

    async def story() -> None:
        async with joinable(tmp_path, **with_keys(tmp_path)) as stage:
            await prepare(stage)
            monkeypatch.setattr(StateClock, "agreed_ms", lambda _: int(time.time() * 1000))
            done: dict[str, Any] = {}
            requests: dict[str, Any] = {}
            for name, request in CHANGES.items():
                requests[name] = request(done)
                requests[name].client_id, requests[name].request_id = "client", f"r-{name}"
                done[name] = await call(stage, name, requests[name])
            stand_in_the_way(monkeypatch)
            for name, request in requests.items():
                if name in ("CreateToken", "CreateJoinToken"):  # the secret is nowhere; the refusal says what there is
                    with pytest.raises(grpc.aio.AioRpcError, match=PAST_END):
                        await call(stage, name, request)
                    continue
                try:
                    again = await call(stage, name, request)
                except grpc.aio.AioRpcError as error:
                    raise AssertionError(f"{name}: {error.details()}") from error
                assert without_revision(again) == without_revision(done[name]), name
            new = scheduler_pb2.DropWindowRequest(name="w", client_id="client", request_id="new")
            with pytest.raises(grpc.aio.AioRpcError, match="root may not"):
                await call(stage, "DropWindow", new)

    asyncio.run(story())


async def prepare(stage: Stage) -> None:
    member = stage.cluster.members["m1"]
    now_ms = stage.state.clock_ms
    await member.propose([Command(body=registration(node)) for node in ("n1", "n2")])
    await member.propose([Command(body=MarkNodeDead(node_id="n2", incarnation="b1"))])
    await member.propose([Command(body=SetClock(to_ms=now_ms + HOUR_MS))])
    await until(lambda: {"n1", "n2"} <= set(stage.state.nodes))


async def call(stage: Stage, name: str, request: Any) -> Any:
    method = methods()[name]
    path = f"/{method.containing_service.full_name}/{name}"
    answer = type(request), method.output_type._concrete_class
    sent = stage.channel(USER).unary_unary(
        path, request_serializer=answer[0].SerializeToString, response_deserializer=answer[1].FromString
    )
    return await sent(request, timeout=LIMIT_S)


def without_revision(answer: Any) -> Any:
    """Return what is the same each time: not the revision, nor what the answer says of the state as it is."""
    for name in ("revision", "warnings", "window", "in_the_way", "staying", "revocation", "to_ms"):
        if name in answer.DESCRIPTOR.fields_by_name:
            answer.ClearField(name)
    for outcome in getattr(answer, "outcomes", ()):
        outcome.ClearField("warnings")
    return answer
