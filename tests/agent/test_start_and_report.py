"""A task from its order to its reported end."""

from __future__ import annotations

from collections.abc import Callable

from tests.agent.conftest import Agent, FakeMaster, shell


def test_a_task_ordered_by_push_runs_and_its_exit_is_reported(
    master: FakeMaster, make_agent: Callable[..., Agent]
) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", "echo hello; exit 3"))
    assert master.await_end("j1/main/0.1") == ("FAILED", 3, "NONZERO_EXIT")
    assert agent.stdout("j1/main/0.1") == b"hello\n"
