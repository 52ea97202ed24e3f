"""Which orders of masters count on a node, whatever order they come in."""

from __future__ import annotations

from gosched.agent.logic.fence import Fence, Made
from gosched.agent.logic.reconcile import Desired
from gosched.core.orders import StopOrder

START = Desired(start=("j/main/0.1",))


def made(registration: int, revision: int = 0) -> Made:
    return Made(registration=registration, revision=revision)


def fence(registration: int = 7) -> Fence:
    found = Fence()
    found.register(registration)
    return found


def test_an_order_of_another_registration_is_refused() -> None:
    fenced = fence(7)
    assert fenced.take_push(START, made(7, 10)) == ""
    fenced.register(20)
    for desired in (START, Desired(stop=(StopOrder(allocation_id="j/main/0.1", grace_ms=0),)), Desired(freeze=("a",))):
        assert "is of 7" in fenced.take_push(desired, made(7, 10))
        assert "is of none" in fenced.take_push(desired, made(0))
    assert fenced.take_answer(START, made(7, 30), ()) != ""
    assert fenced.take_push(START, made(20, 21)) == ""


def test_a_start_that_a_newer_answer_does_not_know_of_is_refused() -> None:
    fenced = fence()
    assert fenced.take_answer(Desired(), made(7, 100), ["j/main/0.1"]) == ""
    assert fenced.take_push(START, made(7, 98)) == "", "the answer has left it to this push"
    assert fenced.take_answer(Desired(), made(7, 110), ()) == ""
    assert "overtaken" in fenced.take_push(START, made(7, 98))
    assert fenced.take_push(START, made(7, 111)) == ""


def test_two_pushes_that_arrive_swapped_are_both_obeyed() -> None:
    fenced = fence()
    assert fenced.take_push(Desired(start=("b",)), made(7, 12)) == ""
    assert fenced.take_push(Desired(start=("a",)), made(7, 11)) == ""


def test_a_freeze_does_not_undo_a_newer_thaw() -> None:
    fenced = fence()
    assert fenced.take_push(Desired(thaw=("a",)), made(7, 12)) == ""
    assert "overtaken" in fenced.take_push(Desired(freeze=("a",)), made(7, 11))
    assert "overtaken" in fenced.take_answer(Desired(freeze=("a",)), made(7, 11), ())
    assert fenced.take_answer(Desired(freeze=("a",)), made(7, 13), ()) == ""
    assert "overtaken" in fenced.take_push(Desired(thaw=("a",)), made(7, 12))


def test_the_newest_start_that_was_obeyed_is_told_until_the_next_registration() -> None:
    fenced = fence()
    fenced.note(START, made(7, 12))
    fenced.note(Desired(), made(7, 13))
    assert fenced.heard == 12
    fenced.register(7)
    assert fenced.heard == 12
    fenced.register(8)
    assert fenced.heard == 0


def test_a_master_that_names_no_revision_is_obeyed_as_before() -> None:
    fenced = fence(0)
    assert fenced.take_push(START, made(0)) == ""
    assert fenced.take_answer(START, made(0), ()) == ""


def test_an_agent_that_is_being_stopped_obeys_nothing() -> None:
    fenced = fence()
    fenced.close()
    assert "being stopped" in fenced.take_push(START, made(7, 1))
