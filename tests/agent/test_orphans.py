"""Tasks whose agent has lost its data directory: they are gone before the next agent of that place joins, and nobody
else's are touched."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.conftest import Agent, FakeMaster, lives, number_in, shell, wait_for

MakeAgent = Callable[..., Agent]

ID = "j1/main/0.1"
# It leaves the session and the process group, and does not hear SIGTERM.
DAEMON = "setsid sh -c \"trap '' TERM; echo \\$\\$ > {0}; while :; do sleep 0.1; done\" & sleep 600"


def joins_without(master: FakeMaster, agent: Agent, pids: list[int]) -> None:
    """Starts it; by its first registration none of these processes lives."""
    alive: list[int] = []
    master.on_registration = lambda: alive.extend(pid for pid in pids if lives(pid))
    agent.start(master)
    assert not alive
    assert not agent.identity.tasks


@pytest.mark.parametrize("how", ["removed", "moved away"])
def test_tasks_of_a_lost_data_directory_end_before_the_new_node_joins(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path, how: str
) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell(ID, DAEMON.format(tmp_path / "pid")))
    daemon = number_in(tmp_path / "pid")
    supervisor, task = records(agent)
    before = agent.identity.node_id
    agent.end()
    if how == "removed":
        shutil.rmtree(agent.data_dir)
    else:
        agent.data_dir.rename(tmp_path / "old")
    assert all(lives(pid) for pid in (daemon, supervisor, task))
    joins_without(master, agent, [daemon, supervisor, task])
    assert agent.identity.node_id == before, "it is the same host"
    if how == "moved away":
        exit_file = tmp_path / "old" / "tasks" / ID.replace("/", "%2F") / "exit.json"
        assert json.loads(exit_file.read_text())["exit_code"] == 137


@pytest.mark.parametrize("cgroup_root", ["", "/none"])
def test_what_is_left_of_a_task_ends_though_its_supervisor_is_gone_too(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path, cgroup_root: str
) -> None:
    (tmp_path / "agent.yaml").write_text(f"cgroup_root: '{cgroup_root}'\n")
    agent = make_agent(master, f"--config={tmp_path}/agent.yaml").start(master)
    agent.run(shell(ID, DAEMON.format(tmp_path / "pid")))
    daemon = number_in(tmp_path / "pid")
    supervisor, task = records(agent)
    agent.end()
    os.kill(supervisor, signal.SIGKILL)
    wait_for(lambda: not lives(task), why="it goes with its supervisor")
    shutil.rmtree(agent.data_dir)
    assert lives(daemon)
    joins_without(master, agent, [daemon])


def test_the_tasks_of_other_agents_go_on_whether_those_live_or_not(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agents = [make_agent(master, name=name).start(master) for name in ("alive", "down")]
    for agent in agents:
        agent.run(shell(ID, f"echo $$ > {tmp_path}/{agent.data_dir.name}.pid; sleep 600"))
    pids = [number_in(tmp_path / f"{agent.data_dir.name}.pid") for agent in agents]
    agents[1].end()
    third = make_agent(master, name="third").start(master)
    assert all(lives(pid) for pid in pids)
    assert any("a task of an agent that does not run goes on" in line for line in third.lines)
    agents[1].start(master)
    for agent in agents:
        agent.stop(ID, 0)


def test_an_agent_whose_data_directory_is_taken_away_ends_and_says_so(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    agent.data_dir.rename(tmp_path / "elsewhere")
    assert agent.exit_code() == 2
    assert f"the data directory {agent.data_dir} was removed or replaced" in agent.lines[-1]


def records(agent: Agent) -> tuple[int, int]:
    """The pids of the supervisor and of the task."""
    spool = agent.spool(ID)
    wait_for((spool / "task.json").exists)
    supervisor, task = (json.loads((spool / name).read_text())["pid"] for name in ("supervisor.json", "task.json"))
    return supervisor, task
