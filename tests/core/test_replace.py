from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from gosched.core.commands.cluster import SetQueues
from gosched.core.records.queue import Queue
from gosched.core.records.task import Task, TaskState
from gosched.core.replace import draft_of, quickly_made, replace
from gosched.core.resources import Resources

TASK = Task(id="j/w/0", job_id="j", group="w", index=0, rank=3, cpus="0-1")


def test_it_is_dataclasses_replace() -> None:
    changed = replace(TASK, state=TaskState.RUNNING, rank=4)
    assert changed == dataclasses.replace(TASK, state=TaskState.RUNNING, rank=4)
    assert changed is not TASK
    assert (TASK.rank, changed.cpus) == (3, "0-1")
    assert replace(Resources(cpu_millis=5)) == Resources(cpu_millis=5)
    assert replace(SetQueues(queues=()), queues=(Queue(path="a"),)) == SetQueues(queues=(Queue(path="a"),))


def test_a_copy_is_as_frozen_as_the_record() -> None:
    changed = replace(TASK, rank=4)
    assert type(changed) is Task
    with pytest.raises(dataclasses.FrozenInstanceError):
        changed.rank = 5  # type: ignore[misc]
    assert hash(changed) == hash(dataclasses.replace(TASK, rank=4))


@dataclass(frozen=True, slots=True)
class _Longer(Queue):
    """A record with the fields of another and one more."""

    more: int = 0


def test_a_record_may_have_the_fields_of_another() -> None:
    assert replace(_Longer(path="a"), weight=2, more=3) == _Longer(path="a", weight=2, more=3)


def test_a_field_that_a_record_has_not_is_an_error() -> None:
    with pytest.raises(TypeError, match="Task has no field gpu"):
        replace(TASK, gpu=1)  # type: ignore[call-arg]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plain:
    name: str
    size: int = 3


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class _Quick:
    name: str
    size: int = 3


def test_a_record_that_is_quickly_made_is_like_any_other() -> None:
    assert dataclasses.asdict(_Quick(name="a")) == dataclasses.asdict(_Plain(name="a"))
    assert _Quick(size=4, name="a") == replace(_Quick(name="a"), size=4) == copy.copy(_Quick(name="a", size=4))
    assert repr(_Quick(name="a")) == repr(_Plain(name="a")).replace("_Plain", "_Quick")
    with pytest.raises(dataclasses.FrozenInstanceError):
        _Quick(name="a").size = 5  # type: ignore[misc]


def _refusal(kind: Callable[..., object], *given: str, **named: str) -> str:
    with pytest.raises(TypeError) as refused:
        kind(*given, **named)
    return str(refused.value).rpartition("__init__()")[2]


def test_it_refuses_the_arguments_that_others_refuse() -> None:
    assert _refusal(_Quick) == _refusal(_Plain)
    assert _refusal(_Quick, "a") == _refusal(_Plain, "a")
    assert _refusal(_Quick, name="a", color="red") == _refusal(_Plain, name="a", color="red")


def test_fields_that_are_given_by_place_or_made_anew_are_refused() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Made:
        found: list[int] = field(default_factory=list)

    for kind in (Made, _Longer):
        with pytest.raises(TypeError, match="by name, or made anew"):
            quickly_made(kind)


@dataclass(frozen=True, slots=True)
class _Checked:
    """A record that looks at its fields."""

    value: int

    def __post_init__(self) -> None:
        assert self.value > 0


@dataclass(frozen=True, slots=True)
class _Derived:
    """A record with a field that it makes itself."""

    value: int
    twice: int = field(init=False, default=0)


@pytest.mark.parametrize("kind", [_Checked, _Derived])
def test_records_that_do_more_than_to_take_their_fields_are_refused(kind: type) -> None:
    with pytest.raises(TypeError, match="does more"):
        draft_of(kind)
