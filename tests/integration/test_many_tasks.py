"""A thousand tasks on one agent, each in a cgroup of its own. Needs root and cgroup v2, with or without controllers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.conftest import Agent, FakeMaster, make_agent, master, shell, wait_for  # noqa: F401
from tests.integration.containers import UNIFIED

BATCH = 50
BATCH_S = 120.0  # it takes half a second on two idle cores

pytestmark = pytest.mark.timeout(1200)


def cgroups_of(agent: Agent) -> list[str]:
    """Walked, not globbed: cgroups of others come and go meanwhile."""
    assert UNIFIED is not None, "there is no cgroup v2 here"
    (tasks,) = [names for path, names, _ in os.walk(UNIFIED) if Path(path).match(f"{agent.cgroup}/tasks")]
    return tasks


def ended(master: FakeMaster) -> dict[str, int]:  # noqa: F811
    return {t.allocation_id: t.exit_code for t in master.heartbeats[-1].tasks if t.HasField("exit_code")}


def test_a_thousand_tasks_leave_no_cgroup(
    master: FakeMaster,  # noqa: F811
    make_agent: Callable[..., Agent],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    agent = make_agent(master).start(master)
    began = time.monotonic()
    for first in range(0, 1000, BATCH):
        codes = {f"many/{number}.1": number % 7 for number in range(first, first + BATCH)}
        agent.run(*(shell(task, f"exit {code}") for task, code in codes.items()))
        wait_for(lambda codes=codes: len(ended(master).keys() & codes.keys()) == BATCH, limit_s=BATCH_S)  # type: ignore[misc]
        assert ended(master).items() >= codes.items()
        master.forget = list(codes)
    took = time.monotonic() - began
    wait_for(lambda: cgroups_of(agent) == [])
    with capsys.disabled():
        print(f"\n    1,000 tasks, {1000 / took:.0f} per second: no cgroup is left")
