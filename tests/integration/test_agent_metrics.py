"""A real agent and its machine: what its heartbeats and its metrics say, and the disk that it protects."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agent.conftest import (
    Agent,
    FakeMaster,
    make_agent,  # noqa: F401 (a fixture)
    master,  # noqa: F401 (a fixture)
    shell,
    wait_for,
)

from .support import PATIENCE_S

MakeAgent = Callable[..., Agent]


@pytest.fixture
def port() -> Iterator[int]:
    """Bound here until the end, so that nobody else takes it; the agent may, for it allows the reuse of its address."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield int(held.getsockname()[1])


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def test_heartbeats_and_metrics_say_how_the_machine_does(
    master: FakeMaster,  # noqa: F811
    make_agent: MakeAgent,  # noqa: F811
    tmp_path: Path,
    port: int,
) -> None:
    (tmp_path / "agent.yaml").write_text(f"http_addr: '127.0.0.1:{port}'\nheartbeat: 200ms\n")
    agent = make_agent(master, f"--config={tmp_path}/agent.yaml").start(master)
    agent.run(shell("j1/main/0.1", "sleep 300"))
    master.await_state("j1/main/0.1", "RUNNING", limit_s=PATIENCE_S)
    usage = master.heartbeats[-1].usage
    assert usage.memory_bytes > 0
    assert usage.disk_bytes > 0
    text = scrape(port)
    assert 'gosched_agent_tasks{runtime="process",state="running"} 1.0' in text
    assert 'gosched_agent_task_start_duration_seconds_count{runtime="process"} 1.0' in text
    agent.stop("j1/main/0.1", 0)
    master.await_end("j1/main/0.1", limit_s=PATIENCE_S)
    assert 'gosched_agent_tasks{runtime="process",state="killed"} 1.0' in scrape(port)


def test_a_task_that_fills_the_disk_is_stopped_and_one_that_asked_for_the_room_goes_on(
    master: FakeMaster,  # noqa: F811
    make_agent: MakeAgent,  # noqa: F811
    tmp_path: Path,
) -> None:
    (tmp_path / "agent.yaml").write_text("work_max: 64Ki\nheartbeat: 200ms\n")
    agent = make_agent(master, f"--config={tmp_path}/agent.yaml").start(master)
    fills = "dd if=/dev/zero of=big bs=1024 count=1024; sleep 300"
    asked = shell("j1/asked/0.1", fills)
    asked.resources.storage_bytes = 10 << 20
    agent.run(shell("j1/main/0.1", fills), asked)
    assert master.await_end("j1/main/0.1", limit_s=PATIENCE_S)[::2] == ("FAILED", "DISK_QUOTA")
    seen = wait_for(lambda: master.seen("j1/main/0.1"))
    assert "may hold 65536: ask for more with resources.storage" in seen.detail
    master.await_state("j1/asked/0.1", "RUNNING", limit_s=PATIENCE_S)
    agent.stop("j1/asked/0.1", 0)
    master.await_end("j1/asked/0.1", limit_s=PATIENCE_S)
