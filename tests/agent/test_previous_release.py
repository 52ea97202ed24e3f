"""An agent of this release takes over the tasks that the previous release's agent started."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.conftest import Agent, FakeMaster, shell, wait_for
from tests.log_lines import records
from tests.upgrade import previous


def launch_previous(agent: Agent, source: Path) -> None:
    """Start it by the previous release's code, on the same data directory, with the flags that it would get."""
    config = agent.data_dir.with_name("previous.yaml")
    config.write_text("users: {own: true}\n")
    flags = [
        f"--master={agent.masters}",
        f"--data-dir={agent.data_dir}",
        *agent.flags,
        "--config",
        str(config),
    ]
    agent.process = subprocess.Popen(
        previous.program("agent", *flags),
        env=previous.environment(source),
        cwd=source,
        stderr=subprocess.PIPE,
        text=True,
    )
    agent.reader = threading.Thread(target=agent._read, args=(agent.process.stderr,), daemon=True)
    agent.reader.start()


def test_tasks_of_the_previous_release_are_adopted_reported_and_stopped(
    master: FakeMaster,
    make_agent: Callable[..., Agent],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    source = previous.unpack(tmp_path_factory.mktemp("previous"))
    agent = make_agent(master)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent, "launch", lambda: launch_previous(agent, source))
        agent.start(master)
    agent.run(
        shell("ends/main/0.1", f"echo out; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 7"),
        shell("ended/main/0.1", f"while [ ! -e {tmp_path}/now ]; do sleep 0.02; done; exit 8"),
        shell("stopped/main/0.1", "sleep 1000"),
    )
    for allocation in ("ends/main/0.1", "ended/main/0.1", "stopped/main/0.1"):
        master.await_state(allocation, "RUNNING")
    agent.end()
    (tmp_path / "now").touch()  # it ends while no agent is there
    wait_for(lambda: (agent.spool("ended/main/0.1") / "exit.json").exists())

    agent.start(master)
    assert master.await_end("ended/main/0.1") == ("FAILED", 8, "NONZERO_EXIT")
    agent.stop("stopped/main/0.1", grace_ms=10_000)
    assert master.await_end("stopped/main/0.1")[0] == "KILLED"
    (tmp_path / "go").touch()
    assert master.await_end("ends/main/0.1") == ("FAILED", 7, "NONZERO_EXIT")
    assert agent.stdout("ends/main/0.1") == b"out\n"
    assert {"task adopted"} <= {record["event"] for record in records(agent.lines)}
