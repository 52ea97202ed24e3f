"""A submission that is repeated, on real masters: by a client whose answer was lost, and by one whose time was up."""

from __future__ import annotations

import asyncio
import re
import signal
import uuid
from collections.abc import Iterator

import grpc
import pytest

from gosched.cli.local_cluster import LocalCluster
from gosched.wire.codec import to_message
from gosched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc, types_pb2
from tests.integration.support import goschedctl, kill_whole, replica_of, until_all_serve
from tests.state_machine.cluster import spec

OTHERS = 1_200  # clients of their own; 1,024 were once remembered


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=3, agents=0) as cluster:
        yield cluster


def submission(name: str, client: str, request_id: str) -> scheduler_pb2.SubmitJobRequest:
    message = to_message(spec(name, hold=True), types_pb2.JobSpec)
    return scheduler_pb2.SubmitJobRequest(spec=message, client_id=client, request_id=request_id)


async def crowd(address: str) -> None:
    """Let many clients cancel what is not there: nothing changes, and each is answered."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = scheduler_pb2_grpc.SchedulerServiceStub(channel)
        places = asyncio.Semaphore(50)

        async def one() -> grpc.StatusCode:
            request = scheduler_pb2.CancelJobRequest(job="nobody", client_id=uuid.uuid4().hex, request_id="r")
            async with places:
                try:
                    await stub.CancelJob(request, timeout=60)
                except grpc.aio.AioRpcError as error:
                    return error.code()
            return grpc.StatusCode.OK

        assert {*await asyncio.gather(*(one() for _ in range(OTHERS)))} == {grpc.StatusCode.NOT_FOUND}


def submit(cluster: LocalCluster, request: scheduler_pb2.SubmitJobRequest) -> scheduler_pb2.SubmitJobResponse:
    with grpc.insecure_channel(cluster.leader().grpc) as channel:
        return scheduler_pb2_grpc.SchedulerServiceStub(channel).SubmitJob(request, timeout=60)


def test_a_repeat_after_the_leader_was_lost_and_a_crowd_was_answered_gets_the_first_answer(cluster) -> None:
    request = submission("once", uuid.uuid4().hex, "r1")
    first = submit(cluster, request)
    killed = cluster.leader()
    kill_whole(killed)
    asyncio.run(crowd(cluster.leader().grpc))
    goschedctl(cluster.endpoints, "job", "cancel", first.job_id)  # so that its name is free for another one
    with cluster.client() as client:
        again = submit(cluster, request)
        assert again.job_id == first.job_id
        assert [job.id for job in client.list_jobs() if job.spec.name == "once"] == [first.job_id]
    cluster.restart(killed)
    cluster.wait_ready()


def test_a_submission_that_ran_out_of_time_is_repeated_by_another_process(cluster) -> None:
    until_all_serve(cluster)
    replicas = [replica_of(master) for master in cluster.masters.values()]
    for replica in replicas:
        replica.send_signal(signal.SIGSTOP)
    try:
        gave_up = goschedctl(cluster.endpoints, "submit", "--name", "slow", "--hold", "--", "true")
    finally:
        for replica in replicas:
            replica.send_signal(signal.SIGCONT)
    assert gave_up.returncode == 5, gave_up.stderr
    found = re.search(r"--request-id=(at\d{13}-\w+)", gave_up.stderr)
    assert found is not None, gave_up.stderr
    cluster.wait_ready()
    words = ["submit", f"--request-id={found[1]}", "--name", "slow", "--hold", "-o", "name", "--", "true"]
    repeated = goschedctl(cluster.endpoints, *words)
    assert repeated.returncode == 0, repeated.stderr
    goschedctl(cluster.endpoints, "job", "cancel", repeated.stdout.strip())
    again = goschedctl(cluster.endpoints, *words)
    assert (again.returncode, again.stdout) == (0, repeated.stdout)
    with cluster.client() as client:
        assert len([job for job in client.list_jobs() if job.spec.name == "slow"]) == 1
