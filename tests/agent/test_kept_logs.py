"""Logs of ended tasks: found after their task's directory and the agent have gone, within their bounds."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from tests.agent.conftest import Agent, FakeMaster, order, shell, wait_for

MakeAgent = Callable[..., Agent]


def configured(tmp_path: Path, text: str = "") -> str:
    config = tmp_path / "agent.yaml"
    config.write_text(f"keep_finished: 100ms\nheartbeat: 50ms\n{text}")
    return f"--config={config}"


def run_to_end(master: FakeMaster, agent: Agent, allocation_id: str, line: str) -> None:
    """Once its directory has gone, too."""
    agent.run(shell(allocation_id, line), cluster_id=master.cluster_id)
    master.await_end(allocation_id)
    master.forget.append(allocation_id)
    wait_for(lambda: not agent.spool(allocation_id).exists(), why="the task's directory goes")


def why_missing(agent: Agent, allocation_id: str) -> str:
    with pytest.raises(grpc.RpcError) as raised:
        agent.logs(allocation_id)
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND
    return str(raised.value.details())


def test_a_log_outlives_its_tasks_directory_and_its_agent(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master, configured(tmp_path)).start(master)
    run_to_end(master, agent, "j1/main/0.1", "echo kept; echo too >&2")
    agent.end()
    agent.start(master)
    chunks = agent.logs("j1/main/0.1")
    assert {c.stream: c.data for c in chunks if c.data} == {1: b"kept\n", 2: b"too\n"}
    assert {c.task_id for c in chunks} == {"j1/main/0"}
    assert sum(c.end for c in chunks) == 2


def test_a_log_goes_with_its_jobs_record_and_no_other_log_does(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master, configured(tmp_path)).start(master)
    run_to_end(master, agent, "j1/main/0.1", "echo one")
    run_to_end(master, agent, "j2/main/0.1", "echo two")
    wait_for(lambda: set(master.heartbeats[-1].log_jobs) == {"j1", "j2"}, why="the masters are asked")
    master.forgotten_jobs.add("j1")
    wait_for(lambda: set(master.heartbeats[-1].log_jobs) == {"j2"}, why="it is removed")
    assert "logs are kept as long as their job's record" in why_missing(agent, "j1/main/0.1")
    assert agent.stdout("j2/main/0.1") == b"two\n"


def test_the_oldest_log_is_dropped_for_the_size_and_a_reader_is_told_also_by_the_next_agent(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master, configured(tmp_path, "logs: {max: 300Ki}\n")).start(master)
    agent.run(shell("j9/main/0.1", "head -c 400000 /dev/zero; sleep 300"))
    for number in (1, 2):
        run_to_end(master, agent, f"j{number}/main/0.1", f"head -c 200000 /dev/zero | tr '\\0' {number}")
    expected = "to stay below 0.000286102 GiB (logs.max)"
    wait_for(lambda: any("a kept log is dropped" in line for line in agent.lines))
    assert expected in why_missing(agent, "j1/main/0.1")
    agent.end()
    agent.start(master)
    said = why_missing(agent, "j1/main/0.1")
    assert said.startswith("dropped on 20")
    assert said.endswith(f" UTC {expected}")
    assert agent.stdout("j2/main/0.1") == b"2" * 200_000
    running = agent.logs("j9/main/0.1", follow=False)
    assert sum(len(c.data) for c in running) == 400_000, "a running task's log is not touched"
    agent.stop("j9/main/0.1", 0)
    master.await_end("j9/main/0.1")


def test_a_task_that_did_not_start_has_no_log_and_the_reader_is_told_why(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = make_agent(master, configured(tmp_path)).start(master)
    agent.run(order("j1/main/0.1", "/no/such/program"))
    assert master.await_end("j1/main/0.1")[0] == "FAILED"
    before = why_missing(agent, "j1/main/0.1")
    assert "the task did not start" in before
    assert "/no/such/program" in before
    master.forget.append("j1/main/0.1")
    wait_for(lambda: not agent.spool("j1/main/0.1").exists())
    assert why_missing(agent, "j1/main/0.1") == before


def test_a_task_without_output_has_an_empty_log(master: FakeMaster, make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = make_agent(master, configured(tmp_path)).start(master)
    run_to_end(master, agent, "j1/main/0.1", "true")
    assert [c.data for c in agent.logs("j1/main/0.1")] == [b"", b""]


def test_logs_are_in_the_archive_soon_and_an_archive_that_is_away_delays_no_report(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    master.cluster_id = "c1"
    shared = tmp_path / "shared"
    config = configured(tmp_path, f"archive: {{url: 'file://{shared}'}}\n")
    agent = make_agent(master, config).start(master)
    run_to_end(master, agent, "j1/main/0.2", "echo archived")
    wait_for(lambda: any("a log could not be archived yet" in line for line in agent.lines))
    assert agent.stdout("j1/main/0.2") == b"archived\n"
    agent.end()
    shared.mkdir()
    agent.start(master)
    archived = shared / "c1/j1/main/0.2.stdout.gz"
    wait_for(archived.exists)
    wait_for((shared / "c1/j1/main/0.2.stderr.gz").exists)
    assert gzip.decompress(archived.read_bytes()) == b"archived\n"
