"""What is told to an agent once, and what of an agent comes too late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import structlog

from gosched.core.records.node import Node
from gosched.core.records.task import TaskState
from gosched.core.resources import ZERO
from gosched.master.agents.dispatch import Dispatcher
from gosched.master.agents.talks import Talks
from gosched.observe.faults import Faults


def node(registration: int = 5, incarnation: str = "boot") -> Node:
    return Node(
        id="n1",
        name="n1",
        address="h:1",
        capacity=ZERO,
        incarnation=incarnation,
        registered_at_ms=1,
        changed_at_ms=1,
        registration=registration,
    )


def test_a_heartbeat_that_was_made_before_one_that_came_is_late() -> None:
    talks = Talks()
    assert not talks.is_late(node(), 2)
    assert talks.is_late(node(), 1)
    assert talks.is_late(node(), 2)
    assert not talks.is_late(node(), 3)
    assert not talks.is_late(node(6), 1), "of a new registration"
    assert not talks.is_late(node(6), 0), "an agent that does not count them"


def test_an_order_is_left_to_the_push_until_the_agent_must_have_it() -> None:
    talks = Talks()
    talks.is_late(node(), 1)
    assert talks.answer(node(), 0) == frozenset()
    talks.push(node(), ["a", "b"])
    assert talks.answer(node(), 0) == {"a", "b"}
    talks.pushed(node(), ["a"], 10, obeyed=True)
    talks.pushed(node(), ["b"], 10, obeyed=False)
    assert talks.answer(node(), 9) == {"a"}, "a heartbeat that was made before the push came"
    assert talks.answer(node(), 10) == frozenset(), "one that was made later, and does not name it"


def test_what_an_answer_has_brought_is_not_pushed() -> None:
    talks = Talks()
    talks.told(node(), ["a"])
    assert talks.is_told(node(), "a")
    talks.told(node(), [])
    assert not talks.is_told(node(), "a")


def test_what_an_older_registration_was_told_says_nothing_of_the_present_one() -> None:
    talks = Talks()
    talks.is_late(node(5), 1)
    talks.push(node(5), ["a"])
    talks.is_late(node(6), 1)
    talks.pushed(node(5), ["a"], 10, obeyed=True)
    assert talks.answer(node(6), 0) == frozenset()


def test_everything_is_told_again_to_an_agent_that_counts_nothing() -> None:
    talks = Talks()
    talks.push(node(0), ["a"])
    talks.is_late(node(0), 0)
    assert talks.answer(node(0), 0) == frozenset()


class Pushes:
    """A dispatcher of one node, and what it has pushed. `before` and `after`: of each use of the node's channel."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pushed: list[str] = []
        self.faults: list[str] = []
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None
        replication: Any = SimpleNamespace(state=SimpleNamespace(nodes={"n1": node()}))
        fake: Any = SimpleNamespace(bounded=self._bounded)
        self.dispatcher = Dispatcher(replication, fake, fake, None, Faults(self.faults.append))
        monkeypatch.setattr(self.dispatcher, "_send", self._send)

    def note(self, allocation_id: str) -> None:
        self.dispatcher._note("n1", allocation_id, TaskState.PLACED)

    @asynccontextmanager
    async def _bounded(self, node: Node) -> AsyncIterator[Any]:
        self.before()
        yield Mock()
        self.after()

    async def _send(self, node_id: str, due: Any, stub: Any) -> None:
        self.pushed += due.start


async def all_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_an_order_that_comes_while_the_sender_ends_is_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        pushes, late = Pushes(monkeypatch), ["b"]
        # The listener of a batch that runs after the sender's last look, and before anything knows that it has ended.
        pushes.after = lambda: late and asyncio.get_running_loop().call_soon(pushes.note, late.pop())
        pushes.note("a")
        await all_turns()
        assert pushes.pushed == ["a", "b"]
        assert not pushes.dispatcher._senders

    asyncio.run(story())


def test_a_channel_that_cannot_be_had_is_counted_and_costs_no_later_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        pushes, problems = Pushes(monkeypatch), [RuntimeError("can't start new thread")]

        def before() -> None:
            if problems:
                pushes.note("b")
                raise problems.pop()

        pushes.before = before
        with structlog.testing.capture_logs():
            pushes.note("a")
            await all_turns()
        assert pushes.faults == ["orders"]
        assert pushes.pushed == ["b"]

    asyncio.run(story())
