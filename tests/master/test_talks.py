"""What is told to an agent once, and what of an agent comes too late."""

from __future__ import annotations

from gosched.core.records.node import Node
from gosched.core.resources import ZERO
from gosched.master.agents.talks import Talks


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
