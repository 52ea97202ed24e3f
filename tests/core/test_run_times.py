"""What the run times of earlier jobs say of the next one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.limits import RUN_TIMES_KEPT
from gosched.core.records.job import Job
from gosched.core.records.run_history import RunHistory
from gosched.core.run_times import (
    LEAST_RANK_MILLI,
    MOST_RANK_MILLI,
    RunTimes,
    judged,
    keys_of,
    predict,
    taught,
)
from tests.state_machine.cluster import group, spec


def job(name: str = "train-7", user: str = "ann", *, known: bool = True, **more: object) -> Job:
    wanted = replace(spec(name, group(count=2)), **more)  # type: ignore[arg-type]
    return Job(id="j", spec=wanted, sequence=1, submitted_at_ms=1, user=user, authenticated=known)


def histories(**run_ms: tuple[int, ...]) -> dict[str, RunHistory]:
    return {key: RunHistory(key=key, run_ms=times) for key, times in run_ms.items()}


def test_jobs_that_differ_in_digits_alone_are_alike_and_others_share_wider_histories() -> None:
    alike, named, shaped, user = keys_of(job("train-7"))
    assert keys_of(job("train-12")) == (alike, named, shaped, user)
    other_command = job(groups=(replace(group(count=2), command=("/bin/false",)),))
    assert keys_of(other_command)[0] != alike
    assert keys_of(other_command)[1:] == (named, shaped, user)
    assert keys_of(job(timeout_ms=5))[1:] == (named, shaped, user)
    assert keys_of(job("other"))[2:] == (shaped, user)
    assert keys_of(job("other"))[:2] != (alike, named)
    assert keys_of(job(groups=(group(count=3),)))[2] != shaped
    assert not {alike, named, shaped, user} & {*keys_of(job(user="bob")), *keys_of(job(tenant="nlp"))}
    assert keys_of(job(user="ann", known=False)) == keys_of(job(user="bob", known=False))  # anybody can say so


def test_elements_of_an_array_count_as_one_name() -> None:
    first = replace(job("sweep.1"), parent="p", element=1)
    last = replace(job("sweep.12"), parent="p", element=12)
    assert keys_of(first) == keys_of(last) == keys_of(job("sweep"))


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"alike": (1, 2, 3, 4), "named": (50,) * 9, "user": (99,) * 9}, 2),
        ({"alike": (1, 2, 3), "named": (50,) * 4, "user": (99,) * 9}, 50),
        ({"alike": (), "named": (50,) * 3, "user": (99,) * 9}, 99),
        ({"named": (50,) * 3, "user": (99,) * 3}, 0),  # nothing is enough
        ({}, 0),
    ],
)
def test_a_wider_history_is_read_where_a_narrow_one_has_too_little(
    known: dict[str, tuple[int, ...]], expected: int
) -> None:
    found = predict(histories(**known), ("alike", "named", "user"))
    assert (found.expected_ms if found else 0) == expected


def test_what_is_likely_is_the_rank_of_the_user_and_never_beyond_the_timeout() -> None:
    known = histories(user=tuple(range(100, 2000, 100)))  # 19 of them: the 90 % rank of 20 is the 18th
    found = predict(known, ("user",))
    assert found is not None
    assert (found.expected_ms, found.likely_ms) == (1550, 1800)  # the median of the newest eight
    assert predict(known, ("user",), timeout_ms=1000) == RunTimes(
        known_ms=found.known_ms, expected_ms=1000, likely_ms=1000
    )
    bold = {"user": replace(known["user"], rank_milli=500)}
    timid = {"user": replace(known["user"], rank_milli=1150)}
    assert [predict(each, ("user",)).likely_ms for each in (bold, timid)] == [1000, 1900 + 1900 * 2]  # type: ignore[union-attr]


def test_few_run_times_leave_room_above_the_longest() -> None:
    likely = [predict(histories(user=(1000,) * count), ("user",)) for count in range(4, 12)]
    found = [each.likely_ms for each in likely if each is not None]
    assert found == [2000, 1670, 1430, 1250, 1120, 1000, 1000, 1000]


def test_a_job_that_runs_on_is_expected_to_end_like_those_that_ran_for_longer() -> None:
    known = RunTimes(known_ms=(10, 10, 20, 100, 300), expected_ms=20, likely_ms=100)
    ages = (0, 10, 20, 99, 100, 299, 300, 5000)
    assert [known.likely_after(age) for age in ages] == [300, 300, 300, 300, 300, 300, 100, 100]
    assert [known.expected_after(age) for age in ages] == [20, 100, 100, 100, 300, 300, 0, 0]


def test_a_history_keeps_the_newest_run_times() -> None:
    history = RunHistory(key="k")
    for run_ms in range(1, 100):
        history = taught(history, run_ms)
    assert history.run_ms == tuple(range(100 - RUN_TIMES_KEPT, 100))


def test_the_rank_comes_to_rest_where_one_of_ten_runs_longer_and_stays_in_its_bounds() -> None:
    history = RunHistory(key="k")
    for _ in range(10):
        for kept in (True,) * 9 + (False,):
            history = judged(history, kept=kept)
    assert history.rank_milli == 900
    for _ in range(1000):
        history = judged(history, kept=False)
    assert history.rank_milli == MOST_RANK_MILLI
    for _ in range(1000):
        history = judged(history, kept=True)
    assert history.rank_milli == LEAST_RANK_MILLI
