"""Specs that differ from a sound one in the name alone are checked by their names, and by nothing else that is new."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.features import NEWEST_LEVEL, FeatureLevel
from gosched.core.rules import jobs
from gosched.core.rules.jobs import MAX_PARENT_NAME_LENGTH, check_job
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.task_group import Framework, Runtime, TaskGroup
from tests.state_machine.cluster import spec


@pytest.fixture(autouse=True)
def none_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_sound", dict[tuple[object, ...], None]())


def test_a_bad_name_of_a_known_shape_is_found() -> None:
    sound = spec("a")
    assert check_job(sound, NEWEST_LEVEL) is None
    assert len(jobs._sound) == 1
    assert check_job(replace(sound, name="b"), NEWEST_LEVEL) is None
    assert len(jobs._sound) == 1
    for name in ("", "a b", "x" * 300):
        found = check_job(replace(sound, name=name), NEWEST_LEVEL)
        assert found is not None
        jobs._sound.clear()
        assert check_job(replace(sound, name=name), NEWEST_LEVEL) == found
        assert check_job(sound, NEWEST_LEVEL) is None


def test_the_name_of_a_parent_is_bounded_also_where_its_shape_is_known() -> None:
    parent = replace(spec("a"), array=Array(step=1, last=3))
    assert check_job(parent, NEWEST_LEVEL) is None
    found = check_job(replace(parent, name="x" * (MAX_PARENT_NAME_LENGTH + 1)), NEWEST_LEVEL)
    assert found is not None
    assert "of an array, at most" in str(found)


def test_a_shape_is_known_for_its_own_level_alone() -> None:
    mpi = replace(spec("a").groups[0], framework=Framework.MPI, runtime=Runtime.PROCESS, mpi_ranks=1)
    wanted = replace(spec("a"), groups=(mpi,))
    assert check_job(wanted, NEWEST_LEVEL) is None
    assert check_job(wanted, FeatureLevel.BOUNDED - 1) is not None


def test_what_is_wrong_is_never_known_and_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_KNOWN_SHAPES", 2)
    wrong = replace(spec("a"), priority=-1)
    assert check_job(wrong, NEWEST_LEVEL) is not None
    assert not jobs._sound
    for priority in range(5):
        assert check_job(replace(spec("a"), priority=priority), NEWEST_LEVEL) is None
        assert len(jobs._sound) <= 2
    large = _with_command(spec("a"), "x" * (jobs.MAX_KNOWN_BYTES + 1))
    jobs._sound.clear()
    assert check_job(large, NEWEST_LEVEL) is None
    assert not jobs._sound


def _with_command(of: JobSpec, argument: str) -> JobSpec:
    group: TaskGroup = replace(of.groups[0], command=("x", argument))
    return replace(of, groups=(group,))


def test_long_names_of_queues_and_of_other_jobs_are_not_kept() -> None:
    after = tuple([Dependency(job=f"{'x' * 200}-{number}", condition=Condition.ANY) for number in range(50)])
    for more in ({"queue": "q" * 300_000}, {"after": after}):
        assert check_job(spec("a", **more), NEWEST_LEVEL) is None
        assert not jobs._sound
