"""A copy of an agent's data directory, on the same machine: it is refused, and the tasks of the original go on."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from tests.agent.conftest import Agent, FakeMaster, lives, shell, wait_for

MakeAgent = Callable[..., Agent]

ID = "j1/main/0.1"


@pytest.fixture
def original(master: FakeMaster, make_agent: MakeAgent) -> Agent:
    """With a task that runs."""
    agent = make_agent(master).start(master)
    agent.run(shell(ID, "sleep 600"))
    wait_for((agent.spool(ID) / "task.json").exists)
    return agent


def pid_of_task(agent: Agent) -> int:
    return int(json.loads((agent.spool(ID) / "task.json").read_text())["pid"])


def copied(original: Agent, make_agent: MakeAgent, master: FakeMaster) -> Agent:
    copy = make_agent(master, name="copy")
    shutil.copytree(original.data_dir, copy.data_dir)
    return copy


@pytest.mark.parametrize("is_up", [True, False])
@pytest.mark.parametrize("says_its_place", [True, False])
def test_a_copy_is_refused_before_it_touches_a_task(
    master: FakeMaster, make_agent: MakeAgent, original: Agent, is_up: bool, says_its_place: bool
) -> None:
    """Whether the original's agent is up or not. One of a release before did not note its place."""
    pid = pid_of_task(original)
    if not is_up:
        original.end()
    copy = copied(original, make_agent, master)
    if not says_its_place:
        (copy.data_dir / "place").unlink()
    registered = len(master.registrations)
    copy.launch()
    assert copy.exit_code() == 2
    assert "is a copy" in copy.lines[-1]
    assert str(original.data_dir) in copy.lines[-1]
    assert len(master.registrations) == registered
    assert lives(pid)
    if not is_up:
        original.start(master)
    original.stop(ID, 0)
    master.await_end(ID)


def test_a_copy_that_the_masters_send_away_has_touched_no_task(
    master: FakeMaster, make_agent: MakeAgent, original: Agent
) -> None:
    """Nothing in it says that it is one: as of a disk's image."""
    pid = pid_of_task(original)
    copy = copied(original, make_agent, master)
    (copy.data_dir / "place").unlink()
    (copy.spool(ID) / "supervisor.json").unlink()
    master.refusal = (grpc.StatusCode.FAILED_PRECONDITION, "node id n-1 is in use by the agent at 10.0.0.7:9100")
    copy.launch()
    assert copy.exit_code() == 1
    assert lives(pid)
    master.refusal = None
    original.stop(ID, 0)
    assert master.await_end(ID) == ("KILLED", 137, "CANCELLED")


def test_a_directory_that_was_moved_goes_on_at_its_new_place(
    master: FakeMaster, make_agent: MakeAgent, original: Agent, tmp_path: Path
) -> None:
    pid = pid_of_task(original)
    original.end(signal.SIGTERM)
    original.data_dir = original.data_dir.rename(tmp_path / "moved")
    before = original.identity.node_id
    assert original.start(master).identity.node_id == before
    master.await_state(ID, "RUNNING")
    assert lives(pid)
    original.stop(ID, 0)
    master.await_end(ID)
