"""Queues and quotas: set by users and by the config, listed, and told to a job that waits."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from gosched.api.explanation import Refused
from gosched.cli.main import run_cli
from gosched.client import GoSchedClient
from gosched.config import load_master_settings
from gosched.core.reasons import WaitReason
from gosched.core.records.job import JobState
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.master.base.job_changes import JobChanges
from gosched.master.planning import cycles, planner
from gosched.master.planning.cycles import with_another_reason
from gosched.scheduling import Plan
from gosched.scheduling.explain.explanation import Explanation
from gosched.scheduling.snapshot.view import View
from gosched.wire.codec import to_message
from gosched.wire.v1 import scheduler_pb2, types_pb2
from tests.master import http_client
from tests.master.harness import LIMIT_S, RUNNING, SUCCEEDED, Front, agent, one_master, spec, two_masters, until

CONFIG = {"queues": [{"name": "a"}], "quotas": [{"tenant": "nlp", "limit": {"cpu": 4}}]}
NLP = Quota(tenant="nlp", limit=(("cpu", 4000),))


async def set_queues(front: Front, *queues: Queue, request_id: str = "") -> scheduler_pb2.SetQueuesResponse:
    request = scheduler_pb2.SetQueuesRequest(
        request_id=request_id, client_id="test", queues=[to_message(queue, types_pb2.Queue) for queue in queues]
    )
    return await front.scheduler.SetQueues(request, timeout=LIMIT_S)


async def set_quotas(front: Front, *quotas: Quota) -> scheduler_pb2.SetQuotasResponse:
    request = scheduler_pb2.SetQuotasRequest(quotas=[to_message(quota, types_pb2.Quota) for quota in quotas])
    return await front.scheduler.SetQuotas(request, timeout=LIMIT_S)


async def explained(front: Front, job: str) -> scheduler_pb2.JobExplanation:
    return await front.scheduler.ExplainJob(scheduler_pb2.GetJobRequest(job=job), timeout=LIMIT_S)


async def get(front: Front, path: str) -> tuple[int, str, Any]:
    answer = await http_client.get(front, path)
    return answer.status, answer.content_type, answer.json()


def test_queues_are_replaced_as_a_whole_or_not_at_all() -> None:
    async def story() -> None:
        async with one_master() as master:
            queues = (Queue(path="default"), Queue(path="a", max_running_jobs=3))
            assert not (await set_queues(master, *queues, request_id="r1")).unchanged
            assert master.state.queues == {queue.path: queue for queue in queues}
            assert (await set_queues(master, *queues)).unchanged
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await set_queues(master, Queue(path="b"), Queue(path="b"))
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "given twice" in (raised.value.details() or "")
            assert list(master.state.queues) == ["default", "a"]
            await set_queues(master, Queue(path="default"))
            assert not (await set_queues(master, *queues, request_id="r1")).unchanged  # the first answer, again
            assert list(master.state.queues) == ["default"]

    asyncio.run(story())


def test_more_rules_than_fit_in_one_log_entry_are_refused_in_one_line() -> None:
    async def story() -> None:
        async with one_master() as master:
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await set_queues(master, *[Queue(path=f"{'q' * 50}{i}") for i in range(9000)])
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "fit in one change" in (raised.value.details() or "")

    asyncio.run(story())


def test_a_quota_is_set_listed_with_what_is_held_and_taken_away() -> None:
    async def story() -> None:
        async with two_masters() as (_, one, two), agent(one) as n1:
            await set_quotas(two, NLP)
            assert one.state.quotas == {"nlp": NLP}
            await one.submit(replace(spec("a", cpus=2), tenant="nlp"))
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(one)
            listed = await two.scheduler.ListQuotas(scheduler_pb2.ListQuotasRequest(), timeout=LIMIT_S)
            (item,) = listed.quotas
            assert (item.quota.limit["cpu"], item.used["cpu"], item.running_jobs) == (4000, 2000, 1)
            await set_quotas(one, Quota(tenant="nlp"))
            assert not one.state.quotas
            listed = await one.scheduler.ListQuotas(scheduler_pb2.ListQuotasRequest(), timeout=LIMIT_S)
            assert [(item.quota.tenant, dict(item.quota.limit)) for item in listed.quotas] == [("nlp", {})]

    asyncio.run(story())


def test_a_quota_that_is_lifted_starts_the_job_that_it_held_at_once() -> None:
    async def story() -> None:
        slow = {"grpc_addr": "127.0.0.1:0", "http_addr": "127.0.0.1:0", "schedule_period": "60s"}
        async with one_master(server=slow) as master, agent(master) as n1:
            await set_quotas(master, Quota(tenant="default", limit=(("cpu", 1000),)))
            job_id = (await master.submit(spec(cpus=2))).job_id
            await master.until_planned(job_id)
            assert not n1.orders
            await set_quotas(master, Quota(tenant="default"))
            await until(lambda: n1.orders)

    asyncio.run(story())


def test_the_configs_queues_and_quotas_are_for_the_first_start_only() -> None:
    async def story() -> None:
        async with two_masters(**CONFIG) as (cluster, one, two):
            assert list(one.state.queues) == ["a", "default"]
            assert one.state.quotas == {"nlp": NLP}
            await set_queues(one, Queue(path="default"))
            await set_quotas(one, Quota(tenant="nlp"))
            with capture_logs() as logs:
                cluster.elect("m2")
                await until(lambda: two.leads)
            assert [line["log_level"] for line in logs if "goschedctl queue apply" in line["event"]] == ["warning"]
            assert list(two.state.queues) == ["default"]
            assert not two.state.quotas

    asyncio.run(story())


def test_a_config_that_agrees_with_the_cluster_is_not_warned_about() -> None:
    async def story() -> None:
        async with two_masters(**CONFIG) as (cluster, _, two):
            with capture_logs() as logs:
                cluster.elect("m2")
                await until(lambda: two.leads)
            assert not [line for line in logs if line["log_level"] == "warning"]

    asyncio.run(story())


def test_a_follower_that_reads_its_config_again_changes_the_whole_cluster(tmp_path: Path) -> None:
    path = tmp_path / "gosched.yaml"
    path.write_text("queues: [{name: b}]\nquotas: [{tenant: cv, max_running_jobs: 2}]\nserver: {schedule_period: 9s}\n")

    async def story() -> None:
        async with two_masters(read_again=lambda: load_master_settings(str(path), {}), **CONFIG) as (_, one, two):
            with capture_logs() as logs:
                two.server.reload()
                await until(lambda: [line for line in logs if line["event"] == "config read again"])
            assert list(one.state.queues) == ["b", "default"]
            assert one.state.quotas == {"cv": Quota(tenant="cv", max_running_jobs=2)}
            (restart,) = [line for line in logs if line["log_level"] == "warning"]
            assert "server" in restart["keys"].split(",")
            assert "queues" not in restart["keys"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("text", "words"),
    [("queues: [{nme: b}]", "nme"), ("queues: [{name: b}, {name: b}]", "b"), ("queues: [{name: other}]", "live jobs")],
)
def test_a_config_that_is_broken_or_refused_changes_nothing(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "gosched.yaml"
    path.write_text(text)

    async def story() -> None:
        async with one_master(read_again=lambda: load_master_settings(str(path), {}), **CONFIG) as master:
            await master.submit(replace(spec(cpus=64), queue="a"))
            with capture_logs() as logs:
                master.server.reload()
                (failed,) = await until(lambda: [line for line in logs if line["log_level"] == "error"])
            assert words in failed["why"]
            assert list(master.state.queues) == ["a", "default"]

    asyncio.run(story())


def test_a_waiting_job_is_told_its_place_and_what_holds_it() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master):
            await set_queues(master, Queue(path="default"), Queue(path="a"))
            names = [(await master.submit(spec(f"j{i}", cpus=64 + i))).job_id for i in range(2)]
            other = (await master.submit(replace(spec("other", cpus=64), queue="a"))).job_id
            await master.until_planned(*names, other)
            found = [await explained(master, job) for job in ("j0", "j1", "other")]
            assert [item.position for item in found] == [1, 2, 1]
            assert {item.code for item in found} == {"NODE_TOO_SMALL"}
            assert found[1].queue.path == "default"
            assert found[1].queue.demand["cpu"] == 129_000

    asyncio.run(story())


def test_a_running_job_is_told_where_it_runs_and_an_ended_one_that_it_ended() -> None:
    async def story() -> None:
        async with one_master() as master, agent(master, "n1") as n1, agent(master, "n2") as n2:
            await master.submit(spec("gang", count=6))
            await until(lambda: len(n1.orders) + len(n2.orders) == 6)
            found = await explained(master, "gang")
            assert {item.node_id: item.tasks for item in found.nodes} == {"n1": len(n1.orders), "n2": len(n2.orders)}
            assert (found.code, found.message, found.position) == ("", "", 0)
            for node in (n1, n2):
                node.see_all(SUCCEEDED, exit_code=0)
                await node.beat(master)
            found = await explained(master, "gang")
            assert found.job.state == JobState.SUCCEEDED
            assert not found.nodes

    asyncio.run(story())


@pytest.mark.parametrize("by_follower", [False, True])
def test_http_shows_queues_quotas_and_explanations_by_whatever_master(by_follower: bool) -> None:
    async def story() -> None:
        async with two_masters(**CONFIG) as (_, one, two):
            front = two if by_follower else one
            job_id = (await one.submit(spec("w", cpus=64))).job_id
            await one.until_planned(job_id)
            status, _, queues = await get(front, "/api/v1/queues")
            assert (status, [queue["name"] for queue in queues]) == (200, ["a", "default"])
            assert queues[1]["demand"]["cpu"] == 64
            _, _, quotas = await get(front, "/api/v1/quotas")
            assert [(quota["tenant"], quota["limit"]) for quota in quotas] == [("nlp", {"cpu": 4})]
            _, _, why = await get(front, "/api/v1/jobs/w/explain")
            assert (why["id"], why["state"], why["code"], why["position"]) == (job_id, "PENDING", "NO_NODE", 1)
            status, kind, problem = await get(front, "/api/v1/jobs/nobody/explain")
            assert (status, kind) == (404, "application/problem+json")
            assert problem["detail"] == "there is no job 'nobody'"

    asyncio.run(story())


def test_the_client_returns_typed_records() -> None:
    async def story() -> None:
        async with one_master() as master:
            client = GoSchedClient(master.server.record.grpc_address)
            queues = (Queue(path="default"), Queue(path="a", limit=(("cpu", 0),)))
            assert await asyncio.to_thread(client.set_queues, queues)
            assert not await asyncio.to_thread(client.set_queues, queues)
            assert await asyncio.to_thread(client.set_quotas, [NLP])
            (quota,) = await asyncio.to_thread(client.list_quotas)
            assert (quota.quota, quota.used, quota.running_jobs) == (NLP, (), 0)
            status = await asyncio.to_thread(client.get_status)
            assert tuple(queue.rules for queue in status.queues) == queues
            assert status.queues[1].ceiling == (("cpu", 0),)
            await master.submit(spec("w"))
            await master.until_planned("w")
            why = await asyncio.to_thread(client.explain, "w")
            assert (why.code, why.position, why.nodes) == ("NO_NODE", 1, ())
            client.close()

    asyncio.run(story())


def test_explaining_a_cycle_touches_only_watched_jobs_whose_reason_changed() -> None:
    changes = JobChanges()
    first, equal = (Explanation(code=WaitReason.NO_NODE, message="no node has joined yet") for _ in range(2))
    before = {"same": first, "equal": first, "new": first}
    with changes.of("same") as same, changes.of("equal") as alike, changes.of("new") as new, changes.of("gone") as gone:
        after = Explanation(code=WaitReason.NO_NODE, message="no node is ready")
        changes.touch(with_another_reason(changes.watched, before, {"same": first, "equal": equal, "new": after}))
        assert [event.is_set() for event in (same, alike, new, gone)] == [False, False, True, False]


def test_what_the_planner_found_reaches_the_user_the_log_and_the_metrics(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = Explanation(
        code=WaitReason.FRAGMENTED,
        message="1 of 2 tasks fit",
        limit="queue default: limit of 16 GPUs, 12 used",
        refused=(Refused("short of memory", 12), Refused("not ready", 1)),
        nearest="needs 8 GPUs on one rack; best is r7 with 6",
    )

    def plan(view: View, *more: Any) -> Plan:
        shares = {"default": {"cpu": 2000}}
        found = {gang.job_id: why for gang in view.pending}
        return Plan(revision=view.revision, explanations=found, shares=shares, faults=("spark: took 80 ms of 50 ms",))

    monkeypatch.setattr(planner, "schedule", plan)
    monkeypatch.setattr(cycles, "explain_on_request", lambda *given: why)

    async def story() -> None:
        async with one_master() as master:
            job_id = (await master.submit(spec("w"))).job_id
            await master.until_planned(job_id)
            found = await explained(master, "w")
            assert (found.limit, found.nearest) == (why.limit, why.nearest)
            assert [(item.filter, item.nodes) for item in found.refused] == list(why.refused)
            assert found.queue.fair_share["cpu"] == 2000
            (fault,) = {(line["plugin"], line["why"]) for line in logs if "plugin" in line}
            assert fault == ("spark", "took 80 ms of 50 ms")
            text = master.server.metrics.text().decode()
            assert 'gosched_plugin_faults_total{plugin="spark"}' in text
            assert 'gosched_queue_fair_share_ratio{queue="default"} 0.0' in text
            monkeypatch.setenv("GOSCHED_ENDPOINTS", master.server.record.grpc_address)
            capsys.readouterr()
            assert await asyncio.to_thread(run_cli, ["explain", "w"]) == 0
            said = capsys.readouterr().out.splitlines()[3:]
            assert [line for line in said if not line.startswith("Queue uses")] == [
                "Position   1 in its queue",
                "Waits      FRAGMENTED: 1 of 2 tasks fit",
                "Limit      queue default: limit of 16 GPUs, 12 used",
                "Refused    12 short of memory, 1 not ready",
                "Nearest    needs 8 GPUs on one rack; best is r7 with 6",
                "Fair share cpu 2",
            ]

    with capture_logs() as logs:  # its lines would go where the command writes
        asyncio.run(story())


def test_a_leader_that_is_deposed_forgets_the_shares_of_its_last_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    go_on.set()

    def plan(view: View, *more: Any) -> Plan:
        assert go_on.wait(LIMIT_S)
        return Plan(revision=view.revision, shares={"default": {"cpu": 2000}})

    monkeypatch.setattr(planner, "schedule", plan)

    async def shares(of: Front) -> dict[str, int]:
        return dict((await explained(of, "job")).queue.fair_share)

    async def story() -> None:
        async with two_masters() as (cluster, one, two):
            await one.submit(spec())
            async with asyncio.timeout(LIMIT_S):
                while not await shares(one):
                    await asyncio.sleep(0.01)
            go_on.clear()  # no cycle is done any more
            cluster.elect("m2")
            await until(lambda: two.leads)
            cluster.elect("m1")
            await until(lambda: one.leads)
            assert not await shares(one)
            go_on.set()

    try:
        asyncio.run(story())
    finally:
        go_on.set()
