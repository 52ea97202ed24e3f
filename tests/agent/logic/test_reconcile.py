"""What is wanted against what is here."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gosched.agent.logic.reconcile import Action, Desired, Forget, Start, Stop, Tombstone, hastened, reconcile
from gosched.core.orders import StopOrder
from gosched.core.records.task import TaskState

STEADY = settings(deadline=None, derandomize=True)


def wish(allocation_id: str) -> StopOrder:
    return StopOrder(allocation_id=allocation_id, grace_ms=1000)


def test_only_what_is_not_here_is_started_and_only_once() -> None:
    desired = Desired(start=("a", "b", "b", "c"))
    assert reconcile(desired, {"a": TaskState.RUNNING, "c": TaskState.FAILED}) == (Start(allocation_id="b"),)


def test_a_stop_of_a_live_task_is_a_stop_of_an_ended_one_nothing_of_an_unknown_one_a_burial() -> None:
    desired = Desired(stop=(wish("live"), wish("ended"), wish("unknown")))
    observed = {"live": TaskState.STARTING, "ended": TaskState.KILLED}
    assert reconcile(desired, observed) == (Stop(order=wish("live")), Tombstone(order=wish("unknown")))


def test_a_stop_wins_over_a_start_in_one_message() -> None:
    assert reconcile(Desired(start=("a",), stop=(wish("a"),)), {}) == (Tombstone(order=wish("a")),)


def test_only_ended_tasks_are_forgotten() -> None:
    desired = Desired(forget=("live", "ended", "unknown"))
    observed = {"live": TaskState.RUNNING, "ended": TaskState.LOST}
    assert reconcile(desired, observed) == (Forget(allocation_id="ended"),)


_times = st.integers(0, 3)
_wishes = st.builds(
    StopOrder,
    allocation_id=st.just("a"),
    grace_ms=_times,
    checkpoint_ms=_times,
    checkpoint_signal=st.sampled_from([0, 10]),
    reason=st.sampled_from(["PREEMPTED", "CANCELLED"]),
)


@STEADY
@given(_wishes, _wishes)
def test_one_more_order_to_stop_only_brings_the_end_nearer_and_the_same_again_changes_nothing(
    now: StopOrder, more: StopOrder
) -> None:
    after = hastened(now, more)
    assert after.grace_ms == min(now.grace_ms, more.grace_ms)
    assert after.checkpoint_ms == min(now.checkpoint_ms, more.checkpoint_ms)
    assert after.checkpoint_signal == now.checkpoint_signal, "what was sent cannot be taken back"
    assert (after == now) or after.reason == more.reason
    assert hastened(now, now) == now
    assert hastened(after, more) == after


def test_an_order_without_a_checkpoint_ends_the_saving() -> None:
    evicted = StopOrder(allocation_id="a", grace_ms=10, checkpoint_signal=10, checkpoint_ms=300, reason="PREEMPTED")
    assert evicted.saves
    assert not hastened(evicted, StopOrder(allocation_id="a", grace_ms=900, reason="CANCELLED")).saves


_ids = st.lists(st.sampled_from("abcdef"), max_size=6)


def after(observed: dict[str, TaskState], actions: tuple[Action, ...]) -> dict[str, TaskState]:
    result = dict(observed)
    for action in actions:
        match action:
            case Start():
                assert action.allocation_id not in result, "started twice"
                result[action.allocation_id] = TaskState.STARTING
            case Stop():
                result[action.order.allocation_id] = TaskState.STOPPING
            case Tombstone():
                result[action.order.allocation_id] = TaskState.KILLED
            case Forget():
                assert result[action.allocation_id].is_final
    return result


@STEADY
@given(_ids, _ids, _ids, st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(list(TaskState)[3:])))
def test_a_repeated_message_starts_and_buries_nothing(
    start: list[str], stop: list[str], forget: list[str], observed: dict[str, TaskState]
) -> None:
    desired = Desired(start=tuple(start), stop=tuple(map(wish, stop)), forget=tuple(forget))
    then = after(observed, reconcile(desired, observed))
    again = reconcile(desired, then)
    assert not any(isinstance(action, Start | Tombstone) for action in again)
