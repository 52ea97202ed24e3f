"""A node is named by its host; the port of a job is looked at before its task starts."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from gosched.agent import datadir
from gosched.agent.datadir import DataDir
from gosched.agent.tasks.ports import is_taken
from gosched.core.reasons import Reason, RefusalReason
from tests.agent.conftest import Agent, FakeMaster, shell, wait_for

MakeAgent = Callable[..., Agent]


@pytest.mark.parametrize(
    ("host", "name"),
    [("node-17", "node-17"), ("gpu1.example.org", "gpu1.example.org"), ("bad name", "bad-name"), ("x" * 90, "x" * 64)],
)
def test_a_new_node_has_the_name_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, name: str
) -> None:
    monkeypatch.setattr(datadir.socket, "gethostname", lambda: host)
    first = DataDir(tmp_path / "data")
    first.close()
    monkeypatch.setattr(datadir.socket, "gethostname", lambda: "renamed")
    again = DataDir(tmp_path / "data")
    assert [first.node_id, again.node_id] == [name, name], "it keeps its id"
    assert not again.take_another_id(), "it is not the host's name any more"
    again.close()


@pytest.mark.parametrize("host", ["", "localhost", "localhost.localdomain"])
def test_a_host_without_a_name_of_its_own_gets_a_random_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr(datadir.socket, "gethostname", lambda: host)
    found = [DataDir(tmp_path / name) for name in ("a", "b")]
    assert found[0].node_id != found[1].node_id
    assert all(directory.node_id.startswith("n-") for directory in found)
    for directory in found:
        directory.close()


def test_a_second_agent_of_a_host_takes_another_id_unless_it_has_joined(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    master.refusal = (grpc.StatusCode.FAILED_PRECONDITION, "node id vm is in use by the agent at 127.0.0.1:7")
    master.refusal_reason = RefusalReason.NODE_ID_IN_USE
    agent = make_agent(master)
    agent.launch()
    wait_for(lambda: master.registrations, why=str(agent.lines))
    first = master.registrations[0].node_id
    wait_for(lambda: master.registrations[-1].node_id != first, why=str(agent.lines))
    assert master.registrations[-1].node_id.startswith(f"{first}-")
    assert agent.exit_code() == 1, "its own name is in use as well: somebody has to look"
    master.refusal, master.cluster_id = None, "c"
    named = agent.start(master).identity.node_id
    assert named.startswith(f"{first}-")


def test_a_task_whose_port_is_taken_is_lost_and_says_why(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    for host in ("127.0.0.1", "0.0.0.0"):
        with socket.create_server((host, 0)) as other:
            port = other.getsockname()[1]
            order = shell(f"j{port}/main/0.1", "exit 0")
            order.port = port
            agent.run(order)
            assert master.await_end(f"j{port}/main/0.1") == ("LOST", None, Reason.PORT_IN_USE)
            assert f"listens on port {port}" in master.seen(f"j{port}/main/0.1").detail
    assert not is_taken(port), "it is free again"
    order = shell("free/main/0.1", "exit 0")
    order.port = port
    agent.run(order)
    assert master.await_end("free/main/0.1")[0] == "SUCCEEDED"
