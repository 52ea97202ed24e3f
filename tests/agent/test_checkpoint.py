"""Checkpoints: asked for before a stop, waited for, told of; and those that a task makes by itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gosched.wire.v1 import worker_pb2
from tests.agent.conftest import Agent, FakeMaster, number_in, shell, wait_for
from tests.log_lines import records

MakeAgent = Callable[..., Agent]

ID = "j1/main/0.1"
ENDS = "trap 'echo asked; exit 0' TERM; "
SAVES = "trap 'echo signalled; touch $GOSCHED_CHECKPOINT_FILE' USR1; "
FOR_EVER = "while :; do sleep 0.02; done"
PYTHON = """
import os, pathlib, signal, sys, time
def save(*_):
    time.sleep(0.2)
    pathlib.Path("half").write_text("")
    os.rename("half", os.environ["GOSCHED_CHECKPOINT_FILE"])
signal.signal(signal.SIGUSR1, save)
print("ready", flush=True)
while True: time.sleep(1)
"""


def evict(agent: Agent, allocation_id: str = ID, *, checkpoint_ms: int = 60_000, grace_ms: int = 5_000) -> None:
    stop = worker_pb2.StopOrder(
        allocation_id=allocation_id,
        grace_ms=grace_ms,
        reason="PREEMPTED",
        checkpoint_signal=signal.SIGUSR1,
        checkpoint_ms=checkpoint_ms,
    )
    me = agent.identity
    agent.call(
        "StopTasks",
        worker_pb2.StopTasksRequest(epoch=1, node_id=me.node_id, incarnation=me.incarnation, orders=[stop]),
    )


def start(agent: Agent, line: str, allocation_id: str = ID) -> None:
    agent.run(shell(allocation_id, line))
    wait_for(lambda: b"ready" in written(agent, allocation_id), why="the task is ready")


def written(agent: Agent, allocation_id: str = ID) -> bytes:
    return b"".join(c.data for c in agent.logs(allocation_id, follow=False))


def story(agent: Agent) -> list[str]:
    """What was logged of the task until its end, in order; each line names job, task and allocation. The agent writes
    a line before it tells the masters, but it may be read after that."""
    wait_for(lambda: "task ended" in events(agent), why="the end is in the log")
    return events(agent)


def events(agent: Agent) -> list[str]:
    told = [record for record in records(list(agent.lines)) if record["event"] in STORY]
    for record in told:
        assert (record["job"], record["task"], record["allocation"]) == ("j1", "j1/main/0", "j1/main/0.1")
    return [record["event"] for record in told]


STORY = ("task started", "checkpoint signal sent", "checkpoint acknowledged", "checkpoint grace over", "task ended")


def test_a_task_saves_itself_then_is_asked_to_end_and_the_log_tells_it_in_order(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    start(agent, f"{ENDS}{SAVES}echo ready; {FOR_EVER}")
    before_ms = time.time() * 1000
    evict(agent)
    assert master.await_end(ID) == ("KILLED", 0, "PREEMPTED")
    assert agent.stdout(ID) == b"ready\nsignalled\nasked\n"
    assert master.seen(ID).checkpoint_at_ms >= before_ms - 10
    assert story(agent) == ["task started", "checkpoint signal sent", "checkpoint acknowledged", "task ended"]


def test_a_program_behind_a_shell_without_a_handler_is_asked_and_the_shell_does_not_die_of_it(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(PYTHON)
    agent = make_agent(master).start(master)
    start(agent, f"{sys.executable} {tmp_path}/train.py; echo never; sleep 300")
    evict(agent)
    assert master.await_end(ID) == ("KILLED", 143, "PREEMPTED")
    assert "checkpoint acknowledged" in story(agent)
    assert agent.stdout(ID) == b"ready\n"


def test_a_handler_that_comes_late_is_still_asked(master: FakeMaster, make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = make_agent(master).start(master)
    late = f"while [ ! -e {tmp_path}/evicted ]; do sleep 0.1; done"
    start(agent, f"{ENDS}echo ready; {late}; {SAVES}{FOR_EVER}")
    evict(agent)
    (tmp_path / "evicted").touch()
    assert master.await_end(ID) == ("KILLED", 0, "PREEMPTED")
    assert agent.stdout(ID) == b"ready\nsignalled\nasked\n"


def test_a_task_that_ends_by_itself_after_the_signal_is_not_waited_for(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    start(agent, "trap 'exit 3' USR1; echo ready; " + FOR_EVER)
    evict(agent)
    assert master.await_end(ID) == ("KILLED", 3, "PREEMPTED")


def test_without_an_acknowledgement_the_time_runs_out_and_the_usual_stop_follows(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    start(agent, "trap 'echo signalled' USR1; trap '' TERM; echo ready; " + FOR_EVER)
    began = time.monotonic()
    evict(agent, checkpoint_ms=500, grace_ms=400)
    assert master.await_end(ID) == ("KILLED", 137, "PREEMPTED")
    assert time.monotonic() - began >= 0.9
    assert story(agent)[1:] == ["checkpoint signal sent", "checkpoint grace over", "task ended"]


def test_an_old_checkpoint_is_no_answer(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    start(agent, "trap 'echo signalled' USR1; touch $GOSCHED_CHECKPOINT_FILE; echo ready; " + FOR_EVER)
    began = time.monotonic()
    evict(agent, checkpoint_ms=600)
    master.await_end(ID)
    assert time.monotonic() - began >= 0.6


def test_a_repeated_order_signals_once_and_one_without_a_checkpoint_cuts_the_wait_short(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    start(agent, f"trap 'echo signalled' USR1; {ENDS}echo ready; {FOR_EVER}")
    for _ in range(3):
        evict(agent)
    wait_for(lambda: b"signalled" in written(agent))
    wait_for(lambda: master.seen(ID).reason == "SAVING")
    time.sleep(0.3)  # for another signal, which must not come
    agent.stop(ID, 50_000)
    assert master.await_end(ID) == ("KILLED", 0, "CANCELLED")
    assert agent.stdout(ID) == b"ready\nsignalled\nasked\n"


def test_the_wait_goes_on_and_ends_in_time_without_masters_and_agent(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master).start(master)
    saves = f"trap 'touch {tmp_path}/signalled; sleep 0.6; touch $GOSCHED_CHECKPOINT_FILE' USR1; "
    start(agent, f"trap 'sleep 0.05; exit 143' TERM; {saves}echo $$ > {tmp_path}/pid; echo ready; {FOR_EVER}")
    evict(agent)
    wait_for((tmp_path / "signalled").exists)
    agent.end(signal.SIGKILL)
    master.vanish()
    pid = number_in(tmp_path / "pid")
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    agent.lines.clear()
    master.serve()
    agent.start(master)
    assert master.await_end(ID) == ("KILLED", 143, "PREEMPTED")
    assert story(agent) == ["task started", "checkpoint signal sent", "checkpoint acknowledged", "task ended"]
    times = [record["at"] for record in records(agent.lines) if "at" in record]
    assert times == sorted(times)
    assert len(set(times)) == 4, "each line says when it was, not when it was logged"


def test_checkpoints_of_a_running_task_are_told_with_the_heartbeats_over_restarts_of_the_agent(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    (tmp_path / "agent.yaml").write_text("heartbeat: 100ms\n")
    agent = make_agent(master, f"--config={tmp_path}/agent.yaml").start(master)
    save = f"if [ -e {tmp_path}/go ]; then rm {tmp_path}/go; touch $GOSCHED_CHECKPOINT_FILE; fi"
    agent.run(shell(ID, f"while :; do {save}; sleep 0.02; done"))
    master.await_state(ID, "RUNNING")
    assert master.seen(ID).checkpoint_at_ms == 0

    def told_after(at_ms: int) -> Any:
        (tmp_path / "go").touch()
        return wait_for(lambda: (seen := master.seen(ID)) and seen.checkpoint_at_ms > at_ms and seen)

    first = told_after(0)
    assert first.state == 4
    second = told_after(first.checkpoint_at_ms)
    agent.end(signal.SIGKILL)
    agent.start(master)
    wait_for(lambda: master.registrations[-1].tasks[0].checkpoint_at_ms == second.checkpoint_at_ms or None)
    agent.stop(ID, 0)
    master.await_end(ID)


def test_checkpoint_done_inside_a_task_writes_the_file_and_outside_says_what_is_wrong(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    goschedctl = Path(sys.executable).with_name("goschedctl")
    agent.run(shell(ID, f"{goschedctl} checkpoint-done"))
    assert master.await_end(ID) == ("SUCCEEDED", 0, "")
    assert master.seen(ID).checkpoint_at_ms > 0
    outside = subprocess.run([goschedctl, "checkpoint-done"], env={}, capture_output=True, text=True, check=False)
    assert (outside.returncode, outside.stdout) == (1, "")
    assert "GOSCHED_CHECKPOINT_FILE" in outside.stderr
