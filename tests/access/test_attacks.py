"""What an attacker tried who had read the code."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToJson

from gosched.core.access import Identity, Limit, Object, Permission, may, may_run_as, may_set_quota
from gosched.core.commands.command import Command
from gosched.core.records.access import AccessRole, Binding
from gosched.core.records.node import NodeState
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.spec.policies import PreemptionPolicy
from gosched.master.base.proposals import Proposals
from gosched.wire.codec import to_message
from gosched.wire.v1 import access_pb2, node_pb2, node_pb2_grpc, scheduler_pb2, types_pb2
from tests.access.stage import QUEUES, Stage, staged, submission
from tests.access.test_guests import PORTS, guests_context, rest
from tests.access.test_tokens import asked, code, with_token
from tests.audit.lines import whole_lines
from tests.master import http_client
from tests.master.harness import until
from tests.state_machine.cluster import registration

TINA, ROOT = Identity(user="tina"), Identity(user="root")


def queues(*given: Queue) -> scheduler_pb2.SetQueuesRequest:
    return scheduler_pb2.SetQueuesRequest(queues=[to_message(queue, types_pb2.Queue) for queue in given])


def test_a_tenant_admin_of_no_queue_changes_none() -> None:
    lead = [Binding(name="lead", role=AccessRole.TENANT_ADMIN, users=("tina",), tenants=("a",))]
    for queue in ("", "root", "root.a"):
        assert not may(lead, TINA, Permission.SET_QUEUE, Object(queue=queue))


def test_a_narrow_token_of_an_administrator_has_no_administrators_rights() -> None:
    admins = [Binding(name="admins", role=AccessRole.ADMIN, users=("root",))]
    on, quota = Object(tenant="a", queue="root.a"), Quota(tenant="a", limit=(("cpu", 10**9),))
    narrow = Identity(user="root", limit=Limit(role=AccessRole.SUBMITTER, tenants=("a",)))
    lead = Identity(user="root", limit=Limit(role=AccessRole.TENANT_ADMIN, tenants=("a",)))
    assert may_run_as(admins, ROOT, on, "root")
    assert not may_run_as(admins, narrow, on, "root")
    assert may_set_quota(admins, ROOT, quota)
    assert not may_set_quota(admins, lead, quota)


def test_nobody_reads_or_spoils_the_answer_to_another_users_request(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            names = {"client_id": "http sue", "request_id": "nightly"}
            mine = submission("squat", "b")
            mine.client_id, mine.request_id = names.values()
            await stage.scheduler("bert").SubmitJob(mine)
            hers = submission("nightly", "a")
            hers.client_id, hers.request_id = names.values()
            made = await stage.scheduler("sue").SubmitJob(hers)
            assert stage.state.jobs[made.job_id].spec.name == "nightly"
            assert (await stage.scheduler("sue").SubmitJob(hers)).job_id == made.job_id  # her own repeat
            cancel = scheduler_pb2.CancelJobRequest(job="none", client_id="http sue", request_id="nightly")
            assert await code(stage.scheduler("mate").CancelJob(cancel)) == "NOT_FOUND"

    asyncio.run(story())


def test_names_of_hidden_jobs_are_in_no_line_for_people(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            state = stage.state
            foreign, own = state.find_job("foreign"), state.find_job("own")
            kind = type(own)
            told = kind(
                **{
                    **{f: getattr(own, f) for f in own.__dataclass_fields__},
                    "detail": f"gave way to job foreign ({foreign.id}), behind mates.",
                    "evicted_for": (foreign.id,),
                }
            )
            state.put_job(told)
            sue = stage.scheduler("sue")
            answers = [
                await sue.GetJob(scheduler_pb2.GetJobRequest(job="own")),
                await sue.ListJobs(scheduler_pb2.ListJobsRequest()),
                await sue.ListJobs(scheduler_pb2.ListJobsRequest(rows=True)),
                await sue.ExplainJob(scheduler_pb2.GetJobRequest(job="own")),
            ]
            for answer in answers:
                text = MessageToJson(answer)
                assert "foreign" not in text
                assert foreign.id not in text
            assert "a job of another tenant" in MessageToJson(answers[0])
            assert "behind mates" in MessageToJson(answers[0])
            assert "foreign" in MessageToJson(
                await stage.scheduler("root").GetJob(scheduler_pb2.GetJobRequest(job="own"))
            )

    asyncio.run(story())


def test_a_tenant_admin_cannot_let_its_queues_evict(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            tina = stage.scheduler("tina")
            for job in ("own", "mates"):  # a queue with jobs gets none below it
                await tina.CancelJob(scheduler_pb2.CancelJobRequest(job=job))
            assert await code(tina.SetQueues(queues(*QUEUES, Queue(path="root.a.x")))) == "OK"
            loose = Queue(path="root.a.x", preemption=PreemptionPolicy.LOWER_PRIORITY)
            assert await code(tina.SetQueues(queues(*QUEUES, loose))) == "PERMISSION_DENIED"
            assert await code(stage.scheduler("root").SetQueues(queues(*QUEUES, loose))) == "OK"
            assert await code(tina.SetQueues(queues(*QUEUES, loose, Queue(path="root.a.y")))) == "OK"

    asyncio.run(story())


def test_a_token_revokes_itself_alone_and_makes_none(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            one, two = [await stage.access("sue").CreateToken(asked()) for _ in range(2)]
            nick, token = stage.access("nick"), with_token(one.secret)
            revoke = access_pb2.RevokeTokenRequest
            assert await code(nick.RevokeToken(revoke(id=two.token.id), metadata=token)) == "PERMISSION_DENIED"
            assert await code(nick.RevokeToken(revoke(id=one.token.id), metadata=token)) == "OK"
            role = types_pb2.ACCESS_ROLE_ADMIN
            admins = await stage.access("root").CreateToken(asked(role=role))
            request = asked(role=role, groups=["x"])
            assert await code(nick.CreateToken(request, metadata=with_token(admins.secret))) == "PERMISSION_DENIED"

    asyncio.run(story())


@pytest.mark.parametrize("path", ["/ui/trends", "/ui/changes"])
def test_a_user_without_a_role_reads_no_figures_of_pages(tmp_path: Path, path: str) -> None:
    async def story() -> None:
        async with staged(tmp_path, {"server": PORTS}) as stage:
            answer = await http_client.request(rest(stage), "GET", path, tls=stage.context("nick"))
            assert answer.status == 403
            form = await http_client.request(rest(stage), "GET", "/login?next=//[", tls=guests_context(stage))
            assert form.status == 200

    asyncio.run(story())


def test_the_page_of_queues_names_the_tenants_of_its_reader(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            quotas = [types_pb2.Quota(tenant=tenant, limit={"cpu": 1000}) for tenant in ("a", "tenant-of-others")]
            await stage.scheduler("root").SetQuotas(scheduler_pb2.SetQuotasRequest(quotas=quotas))
            for user, sees in (("vera", False), ("root", True)):
                page = await http_client.request(rest(stage), "GET", "/queues", tls=stage.context(user))
                assert ("tenant-of-others" in page.text) is sees

    asyncio.run(story())


def test_an_array_that_is_hidden_is_not_there_as_a_parent_either(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            await refused(stage, scheduler_pb2.ListJobsRequest(parent="foreign"))
            await refused(stage, scheduler_pb2.ListJobsRequest(parent=stage.state.find_job("foreign").id))

    asyncio.run(story())


async def refused(stage: Stage, request: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="there is no job"):
        await stage.scheduler("sue").ListJobs(request)


def test_a_repeat_whose_answer_is_forgotten_meanwhile_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that was answered before passes without a permission, for its answer alone."""

    async def story() -> None:
        async with staged(tmp_path) as stage:
            names = {"client_id": "c", "request_id": "r"}
            ends = access_pb2.RevokeTokenRequest(id="none", **names)
            assert await code(stage.access("tina").RevokeToken(ends)) == "NOT_FOUND"
            request = queues(*(replace(queue, weight=77) for queue in QUEUES))
            request.client_id, request.request_id = names.values()
            assert await code(stage.scheduler("tina").SetQueues(request)) == "NOT_FOUND", "what was answered first"
            request.dry_run = True
            assert await code(stage.scheduler("tina").SetQueues(request)) == "PERMISSION_DENIED"
            request.dry_run = False
            monkeypatch.setattr(Proposals, "first_answer", lambda *_: None)
            for change in (
                stage.scheduler("tina").SetQueues(request),
                stage.scheduler("tina").DropWindow(scheduler_pb2.DropWindowRequest(name="w", **names)),
            ):
                assert await code(change) == "PERMISSION_DENIED"
            assert stage.state.queues["root.a"].weight != 77

    asyncio.run(story())


def test_the_answer_to_a_request_of_ones_own_opens_no_other_call(tmp_path: Path) -> None:
    """Who asks with the ids of a submission gets its answer, and nothing of what the other call tells or goes on to
    do."""

    async def story() -> None:
        async with staged(tmp_path) as stage:
            member, names = stage.cluster.members["m1"], {"client_id": "c", "request_id": "r"}
            await member.propose([Command(body=registration("n1"))])
            end_ms = int(time.time() * 1000) + 3_600_000
            window = types_pb2.Window(name="w", nodes=["n1"], start_ms=1, end_ms=end_ms)
            await stage.scheduler("root").SetWindow(scheduler_pb2.SetWindowRequest(window=window))
            request = submission("mine", "a")
            request.client_id, request.request_id = names.values()
            job_id = (await stage.scheduler("sue").SubmitJob(request)).job_id
            asked = scheduler_pb2.SetWindowRequest(window=window, **names)
            answer = await stage.scheduler("sue").SetWindow(asked)
            assert not answer.HasField("window")
            assert not answer.in_the_way
            drain = node_pb2.ControlNodeRequest(node="n1", **names)
            drained = await node_pb2_grpc.NodeServiceStub(stage.channel("sue")).DrainNode(drain)
            assert (drained.node_id, list(drained.staying)) == (job_id, [])
            assert stage.state.nodes["n1"].state is NodeState.READY

    asyncio.run(story())


def test_a_binding_of_queues_alone_gives_nobody_the_secrets_of_their_tenants() -> None:
    eve = Identity(user="eve")

    def bound(**scope: tuple[str, ...]) -> list[Binding]:
        return [Binding(name="b", role=AccessRole.TENANT_ADMIN, users=("eve",), **scope)]

    on = Object(tenant="payments", queue="research")
    assert may(bound(queues=("research",)), eve, Permission.SUBMIT, on)
    for permission in (Permission.USE_SECRET, Permission.SET_SECRET):
        assert not may(bound(queues=("research",)), eve, permission, on)
        assert may(bound(queues=("research",), tenants=("payments",)), eve, permission, on)
        assert may(bound(), eve, permission, on)
        narrow = Identity(user="eve", limit=Limit(role=AccessRole.TENANT_ADMIN, queues=("research",)))
        assert not may(bound(), narrow, permission, on)


def test_a_page_that_refuses_a_user_tells_the_audit_log_who_it_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, {"server": PORTS, "audit": {}}) as stage:
            secret = (await stage.access("sue").CreateToken(asked())).secret
            await stage.bind()
            headers = {"Authorization": f"Bearer {secret}"}
            answer = await http_client.request(rest(stage), "GET", "/", headers=headers, tls=guests_context(stage))
            assert answer.status == 403

            def told() -> list[tuple[object, object]]:
                lines = [one for one in whole_lines(tmp_path / "m1/audit") if one["action"] == "HTTP/GET /"]
                return [(one["user"], one["authenticated"]) for one in lines]

            await until(told)  # it is written beside the answer
            assert told() == [("sue", "token")]

    asyncio.run(story())
