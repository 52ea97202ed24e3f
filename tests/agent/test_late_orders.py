"""A real agent: orders of an earlier registration start nothing; one that is told to stop says goodbye."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from gosched.agent.supervisor.records import boot_ms
from gosched.wire.v1 import scheduler_pb2, worker_pb2_grpc
from tests.agent.conftest import Agent, FakeMaster, shell, wait_for

MakeAgent = Callable[..., Agent]


def refused(agent: Agent, *orders: object, **more: int) -> str:
    with pytest.raises(grpc.RpcError) as raised:
        agent.run(*orders, **more)
    assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    return str(raised.value.details())


def test_orders_and_execs_of_an_earlier_registration_do_nothing(master: FakeMaster, make_agent: MakeAgent) -> None:
    master.registration = 5
    agent = make_agent(master).start(master)
    agent.run(shell("j/main/0.1", "sleep 60"), registration=5, revision=6)
    master.await_state("j/main/0.1", "RUNNING")
    wait_for(lambda: master.heartbeats[-1].heard == 6)
    master.registration = 9  # the node was given up meanwhile
    registered = len(master.registrations)
    master.register_again = True
    wait_for(lambda: len(master.registrations) > registered)
    wait_for(lambda: master.heartbeats[-1].registration == 9)
    assert "this is registration 9" in refused(agent, shell("k/main/0.1", "true"), registration=5, revision=7)
    with grpc.insecure_channel(agent.identity.address) as channel:
        start = scheduler_pb2.ExecStart(allocation_id="j/main/0.1", command=["true"], registration=5, epoch=1)
        call = worker_pb2_grpc.WorkerServiceStub(channel).Exec(iter([scheduler_pb2.ExecRequest(start=start)]))
        with pytest.raises(grpc.RpcError) as raised:
            list(call)
        assert "this is registration 9" in str(raised.value.details())
    agent.run(shell("k/main/0.2", "true"), registration=9, revision=10)
    assert master.await_end("k/main/0.2")[0] == "SUCCEEDED"
    assert master.seen("k/main/0.1") is None
    master.stop_first = ["j/main/0.1"]
    master.register_again = True
    master.await_end("j/main/0.1")


def test_an_agent_that_is_told_to_stop_says_goodbye_and_its_tasks_wait(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    master.registration, master.lease_ms, master.away_ms = 5, 3000, 60_000
    agent = make_agent(master).start(master)
    order = shell("j/main/0.1", f"until [ -e {tmp_path}/go ]; do sleep 0.05; done")
    order.stop_alone = True
    agent.run(order, registration=5, revision=6)
    master.await_state("j/main/0.1", "RUNNING")
    assert agent.end(signal.SIGTERM) == 0
    goodbye = master.heartbeats[-1]
    assert (goodbye.goodbye, goodbye.registration) == (True, 5)
    assert [beat.number for beat in master.heartbeats] == list(range(1, len(master.heartbeats) + 1))
    until_ms, length_ms = map(int, (agent.data_dir / "lease").read_text().split())
    assert length_ms == 3000
    assert until_ms > boot_ms() + 50_000
    time.sleep(3.1)  # longer than the usual lease
    master.registration = 9
    agent.start(master)
    until_ms, _ = map(int, (agent.data_dir / "lease").read_text().split())
    assert until_ms <= boot_ms() + 3000
    (tmp_path / "go").touch()
    assert master.await_end("j/main/0.1")[0] == "SUCCEEDED"


def test_an_agent_that_finds_no_master_ends_all_the_same(master: FakeMaster, make_agent: MakeAgent) -> None:
    master.registration = 5
    agent = make_agent(master).start(master)
    master.vanish()
    began = time.monotonic()
    assert agent.end(signal.SIGTERM) == 0
    assert time.monotonic() - began < 10
    assert any("no master took this agent's goodbye" in line for line in agent.lines)
    master.serve()
