"""What follows from task groups alone is made once for all jobs that have them."""

from __future__ import annotations

from gosched.core.resources import Resources
from gosched.core.spec.task_group import TaskGroup
from gosched.scheduling.snapshot import by_groups
from gosched.scheduling.snapshot.by_groups import ByGroups, Groups


def group(name: str) -> TaskGroup:
    return TaskGroup(name=name, count=2, resources=Resources(cpu_millis=1000))


def test_it_is_made_once_for_the_same_groups_and_number() -> None:
    made: list[tuple[Groups, int]] = []

    def make(groups: Groups, number: int) -> int:
        made.append((groups, number))
        return len(made)

    follows = ByGroups(make)
    a, b = group("a"), group("b")
    numbers = [follows((a,)), follows((a,)), follows((a,), 1), follows((a, b)), follows((b, a)), follows((a,))]
    assert numbers == [1, 1, 2, 3, 4, 1]
    assert made == [((a,), 0), ((a,), 1), ((a, b), 0), ((b, a), 0)]


def test_groups_that_are_gone_are_never_taken_for_new_ones_and_the_memory_is_bounded() -> None:
    follows = ByGroups(lambda groups, _: groups[0].name)
    for number in range(3 * by_groups.MAX_REMEMBERED):
        assert follows((group(f"g{number}"),)) == f"g{number}"  # each may stand where one before it stood
    assert len(follows._known) <= by_groups.MAX_REMEMBERED
