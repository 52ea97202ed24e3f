"""Agents die and come back; tasks do not notice, and each result arrives once."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.agent.conftest import Agent, FakeMaster, lives, number_in, shell, wait_for

MakeAgent = Callable[..., Agent]


def test_tasks_survive_kill_9_of_the_agent_and_both_exits_arrive(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    agent.run(
        shell("j1/main/0.1", f"echo $$ > {tmp_path}/pid0; while [ ! -e {tmp_path}/go0 ]; do sleep 0.02; done; exit 6"),
        shell("j1/main/1.1", f"echo $$ > {tmp_path}/pid1; while [ ! -e {tmp_path}/go1 ]; do sleep 0.02; done; exit 7"),
    )
    pids = [number_in(tmp_path / "pid0"), number_in(tmp_path / "pid1")]
    started = master.await_state("j1/main/1.1", "RUNNING").started_at_ms
    agent.end(signal.SIGKILL)
    assert all(lives(pid) for pid in pids)
    (tmp_path / "go0").touch()
    wait_for(lambda: not lives(pids[0]))
    agent.start(master)
    assert master.await_end("j1/main/0.1") == ("FAILED", 6, "NONZERO_EXIT")
    adopted = master.await_state("j1/main/1.1", "RUNNING")
    assert adopted.started_at_ms == started
    assert number_in(tmp_path / "pid1") == pids[1]
    assert lives(pids[1])
    (tmp_path / "go1").touch()
    assert master.await_end("j1/main/1.1") == ("FAILED", 7, "NONZERO_EXIT")


def test_an_adopted_task_can_be_stopped_and_a_stop_survives_the_agent(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    deaf = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    agent.run(shell("j1/main/0.1", "sleep 300"), shell("j1/main/1.1", deaf))
    wait_for(lambda: any(c.data for c in agent.logs("j1/main/1.1", follow=False)))
    master.await_state("j1/main/0.1", "RUNNING")
    agent.stop("j1/main/1.1", 1_500)
    agent.end(signal.SIGKILL)
    agent.start(master)
    agent.stop("j1/main/0.1", 20_000)
    assert master.await_end("j1/main/0.1") == ("KILLED", 143, "CANCELLED")
    assert master.await_end("j1/main/1.1") == ("KILLED", 137, "CANCELLED")


def test_sigterm_ends_the_agent_cleanly_and_the_task_goes_on(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", f"echo $$ > {tmp_path}/pid; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"))
    pid = number_in(tmp_path / "pid")
    assert agent.end(signal.SIGTERM) == 0
    assert lives(pid)
    assert not [line for line in agent.lines if "Traceback" in line]
    (tmp_path / "go").touch()
    wait_for(lambda: not lives(pid))
    agent.start(master)
    assert master.await_end("j1/main/0.1") == ("SUCCEEDED", 0, "")


def test_a_killed_supervisor_makes_the_task_lost_and_takes_the_whole_tree_along(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    for place, restart in enumerate((False, True)):
        allocation, pid_file = f"j1/main/{place}.1", tmp_path / f"pid{place}"
        agent.run(shell(allocation, f"setsid sh -c 'echo $$ > {pid_file}; sleep 300; true' & sleep 300"))
        daemon = number_in(pid_file)
        master.await_state(allocation, "RUNNING")
        record = json.loads((agent.spool(allocation) / "supervisor.json").read_text())
        task = json.loads((agent.spool(allocation) / "task.json").read_text())
        if restart:
            agent.end(signal.SIGKILL)
        os.kill(record["pid"], signal.SIGKILL)
        if restart:
            agent.start(master)
        assert master.await_end(allocation) == ("LOST", None, "SUPERVISOR_LOST")
        assert not lives(daemon)
        assert not lives(task["pid"])


def test_the_tasks_of_other_agents_are_not_taken_for_what_a_dead_supervisor_left(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    """An agent of another cluster on this machine may have a task of the same allocation id."""
    agents = [make_agent(master, name=name).start(master) for name in ("here", "there")]
    for agent in agents:
        agent.run(shell("j1/main/0.1", "sleep 300"))
        wait_for((agent.spool("j1/main/0.1") / "task.json").exists)
    supervisors, tasks = (
        [json.loads((agent.spool("j1/main/0.1") / name).read_text())["pid"] for agent in agents]
        for name in ("supervisor.json", "task.json")
    )
    os.kill(supervisors[0], signal.SIGKILL)
    wait_for(lambda: agents[0].logs("j1/main/0.1", follow=True)[-1].end)
    assert not lives(tasks[0])
    assert lives(tasks[1])
    agents[1].stop("j1/main/0.1", 0)


def test_a_reboot_makes_running_tasks_lost_and_nothing_runs_again(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    """A reboot is played by a dead supervisor and a record with the boot id of another boot."""
    agent = make_agent(master).start(master)
    runs = tmp_path / "runs"
    agent.run(shell("j1/main/0.1", f"echo run >> {runs}; sleep 300"))
    wait_for(lambda: runs.exists() and runs.read_text())
    master.await_state("j1/main/0.1", "RUNNING")
    agent.end(signal.SIGKILL)
    path = agent.spool("j1/main/0.1") / "supervisor.json"
    record = json.loads(path.read_text())
    os.kill(record["pid"], signal.SIGKILL)
    path.write_text(json.dumps({**record, "boot_id": "another-boot", "pid": os.getpid()}))
    agent.start(master)
    assert master.await_end("j1/main/0.1") == ("LOST", None, "NODE_REBOOTED")
    agent.run(shell("j1/main/0.1", f"echo run >> {runs}"), shell("j1/main/1.1", "exit 0"))
    master.await_end("j1/main/1.1")
    assert runs.read_text() == "run\n"


def test_an_order_that_was_stored_but_never_started_is_reported_and_not_started(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    task = shell("j1/main/0.1", f"touch {tmp_path}/ran")
    agent.end(signal.SIGKILL)
    stored = agent.spool("j1/main/0.1")
    stored.mkdir()
    (stored / "order").write_bytes(task.SerializeToString())
    unfinished = agent.spool("j1/main/1.1")  # killed before the order was whole
    unfinished.mkdir()
    (unfinished / "order.tmp").write_bytes(b"half")
    agent.start(master)
    assert master.await_end("j1/main/0.1") == ("LOST", None, "NEVER_STARTED")
    agent.run(task, shell("j1/main/1.1", "exit 0"))
    assert master.await_end("j1/main/1.1")[0] == "SUCCEEDED"
    assert not (tmp_path / "ran").exists()


def test_no_task_runs_twice_however_often_the_agent_is_killed_while_starting_it(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    """Each round the agent dies at another moment of the start; every heartbeat orders all tasks of all rounds."""
    agent = make_agent(master)
    rounds = [[f"j1/main/{n * 4 + i}.1" for i in range(4)] for n in range(6)]
    for number, fresh in enumerate(rounds):
        master.start = [*master.start, *(shell(i, f"echo {i} >> {tmp_path}/runs; sleep 0.2") for i in fresh)]
        agent.launch()
        wait_for((agent.spool(fresh[0]) / "order").exists)
        time.sleep(number * 0.015)  # the moment of the kill, from before the supervisors to after the tasks' start
        agent.end(signal.SIGKILL)
    agent.start(master)
    ends = {i: master.await_end(i) for fresh in rounds for i in fresh}
    runs = (tmp_path / "runs").read_text().split()
    assert len(runs) == len(set(runs))
    assert {end[0] for end in ends.values()} <= {"SUCCEEDED", "LOST"}
    assert {i for i, end in ends.items() if end[0] == "SUCCEEDED"} == set(runs)
    assert {end[2] for end in ends.values() if end[0] == "LOST"} <= {"NEVER_STARTED"}


def test_the_node_keeps_its_id_and_each_boot_has_its_own_incarnation(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    first = agent.identity
    agent.end(signal.SIGTERM)
    second = agent.start(master).identity
    assert second.node_id == first.node_id
    assert second.incarnation != first.incarnation
