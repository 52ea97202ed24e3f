"""The keys of a job file about time and force, and the order of several jobs in one file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gosched.config import ConfigError, parse_job_file
from gosched.core.features import NEWEST_LEVEL
from gosched.core.limits import MAX_DURATION_MS
from gosched.core.rules.jobs import check_job
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import JobSpec, OnMiss, Overlap
from gosched.core.spec.policies import MemberFailure, Preemption, PreemptionPolicy

HOUR_MS = 3_600_000


def job(text: str) -> JobSpec:
    """What is accepted here is what the masters accept."""
    (spec,) = parse_job_file(f"name: a\nrun: x\n{text}", "f")
    assert check_job(spec, NEWEST_LEVEL) is None
    return spec


def test_every_key_about_time_reaches_the_spec():
    spec = job(
        "preemption: {policy: never, preemptible: false, grace: 5m, checkpoint_signal: SIGUSR1, min_runtime: 10m}\n"
        "deadline: {in: 6h, on_miss: refuse}\nestimate: 45m\ntimeout: 3h\nhold: true\n"
        "after: {etl: success, j-17: any, clean-up: failure}\ngang: {wait: 2h, on_member_failure: continue}"
    )
    assert spec.preemption == Preemption(
        policy=PreemptionPolicy.NEVER,
        preemptible=False,
        grace_ms=300_000,
        checkpoint_signal=10,
        min_runtime_ms=600_000,
    )
    assert (spec.deadline_in_ms, spec.on_miss) == (6 * HOUR_MS, OnMiss.REFUSE)
    assert (spec.estimate_ms, spec.timeout_ms, spec.span_ms) == (2_700_000, 3 * HOUR_MS, 3 * HOUR_MS)
    assert spec.hold is True
    assert spec.after == (
        Dependency(job="clean-up", condition=Condition.FAILURE),
        Dependency(job="etl", condition=Condition.SUCCESS),
        Dependency(job="j-17", condition=Condition.ANY),
    )
    assert (spec.gang.wait_ms, spec.gang.on_member_failure) == (2 * HOUR_MS, MemberFailure.CONTINUE)


def test_without_them_a_job_waits_for_ever_and_may_evict_and_be_evicted():
    spec = job("")
    assert spec.preemption == Preemption()
    assert (spec.estimate_ms, spec.timeout_ms, spec.gang.wait_ms, spec.after, spec.hold) == (0, 0, 0, (), False)
    assert not spec.is_parent


@pytest.mark.parametrize(("written", "number"), [("SIGUSR2", 12), ("usr1", 10), ("15", 15), (34, 34), ("SIGTERM", 15)])
def test_a_signal_is_a_name_or_a_number_and_has_thirty_seconds(written, number):
    preemption = job(f"preemption: {{checkpoint_signal: {written}}}").preemption
    assert (preemption.checkpoint_signal, preemption.grace_ms) == (number, 30_000)


def test_a_grace_needs_no_signal():
    assert (job("preemption: {grace: 5m}").preemption.grace_ms, job("").preemption.grace_ms) == (300_000, 0)


def test_a_grace_of_nothing_stays_nothing():
    assert job("preemption: {checkpoint_signal: SIGUSR1, grace: 0}").preemption.grace_ms == 0


def test_a_range_is_an_array():
    spec = job("array: {range: 0-999, parallelism: 50, max_failures: 3}")
    assert spec.array == Array(first=0, last=999, step=1, parallelism=50, max_failures=3)
    assert (spec.array.size, spec.is_parent) == (1000, True)
    assert [job("array: {range: 3-10:3}").array.index(place) for place in range(3)] == [3, 6, 9]


def test_a_matrix_keeps_the_order_in_which_it_is_written():
    array = job("array: {matrix: {SEED: [1, 2], LR: [0.1, 1e-3]}}").array
    assert (array.size, array.max_failures, array.parallelism) == (4, -1, 0)
    assert array.values(1) == (("SEED", "1"), ("LR", "1e-3"))
    assert array.values(2) == (("SEED", "2"), ("LR", "0.1"))


def test_a_schedule_has_a_zone_and_a_rule_for_overlap():
    spec = job('schedule: {cron: "0 2 * * *", timezone: Europe/Berlin, overlap: forbid}')
    assert (spec.cron, spec.timezone, spec.overlap) == ("0 2 * * *", "Europe/Berlin", Overlap.FORBID)
    spec = job('schedule: {cron: "0 2 * * *"}')
    assert (spec.timezone, spec.overlap, spec.is_parent) == ("UTC", Overlap.ALLOW, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("preemption: {policy: always}", "f:3: preemption.policy: expected never or lower_priority, got 'always'"),
        ("preemption: {grace: 3000d}", "f:3: preemption.grace: is not between 0 and 366d"),
        (
            "preemption: {checkpoint_signal: SIGUSR3}",
            "f:3: preemption.checkpoint_signal: expected a signal such as SIGUSR1, or its number, got 'SIGUSR3' "
            '(did you mean "SIGUSR',
        ),
        ("preemption: {checkpoint_signal: 65}", "f:3: preemption.checkpoint_signal: 65 is not between 0 and 64"),
        ("preemption: {checkpoint_signal: 0}", "f:3: preemption.checkpoint_signal: expected a signal"),
        (
            "preemption: {checkpoint_signal: KILL}",
            "f:3: preemption.checkpoint_signal: 9 cannot be caught: take another one, such as SIGUSR1",
        ),
        (
            "preemption: {checkpoint_signal: 19}",
            "f:3: preemption.checkpoint_signal: 19 cannot be caught: take another one, such as SIGUSR1",
        ),
        ("preemption: {preemptable: true}", 'f:3: preemption.preemptable: unknown key (did you mean "preemptible"?)'),
        ("estimate: 2h\ntimeout: 1h", "f:3: estimate: is beyond the timeout of 1h: it would never end"),
        ("timeout: 0", "f:3: timeout: expected at least 1"),
        ("timeout: 90", "f:3: timeout: expected a duration with a unit"),
        (f"estimate: {MAX_DURATION_MS + 1}ms", "f:3: estimate: is not between 0 and 366d"),
        ("gang: {wait: 3000d}", "f:3: gang.wait: is not between 0 and 366d"),
        ("hold: maybe", "f:3: hold: expected true or false, got 'maybe'"),
        ("after: [etl]", "f:3: after: expected jobs and how they end, such as {etl-daily: success}"),
        ("after: {etl: sucess}", "f:3: after.etl: expected success, failure or any, got 'sucess' (did you mean"),
        ("after: {e t l: any}", "f:3: after.e t l: 'e t l' may hold only letters, digits, '.', '_' and '-'"),
        ("after: {a: any}", "f:3: after: a cycle: a waits for a; none of them could start"),
        ("array: {}", 'f:3: array: needs either "range", such as 0-999, or "matrix"'),
        ("array: {range: 0-9, matrix: {A: [1]}}", 'f:3: array: needs either "range"'),
        ("array: {range: 10}", "f:3: array.range: expected a range such as"),
        ("array: {range: 9-0}", "f:3: array.range: 9-0/1 must ascend between 0 and 999999999"),
        ("array: {range: 0-9:0}", "f:3: array.range: '0-9:0' is empty"),
        ("array: {range: 0-99999999}", "f:3: array: has 100000000 elements; 1 to 10000000 are allowed"),
        ("array: {range: 0-9, parallelism: 0}", "f:3: array.parallelism: expected at least 1"),
        ("array: {range: 0-9, max_failures: -1}", "f:3: array.max_failures: expected at least 0"),
        ("array: {matrix: {}}", "f:3: array.matrix: expected variables and their values"),
        ("array: {matrix: {a-b: [1]}}", "f:3: array.matrix.a-b: 'a-b' cannot be the name of an environment variable"),
        (
            "array: {matrix: {GOSCHED_X: [1]}}",
            "f:3: array.matrix.GOSCHED_X: names that begin with GOSCHED_ are set by gosched",
        ),
        ("array: {matrix: {A: 1}}", "f:3: array.matrix.A: expected a list of values, got 1"),
        ("array: {matrix: {A: []}}", "f:3: array: has 0 elements; 1 to 10000000 are allowed"),
        (
            "count: 300\narray: {range: 0-99, parallelism: 67}",
            "f:4: array.parallelism: 67 of 300 tasks each is too much: at most 66 may live at once",
        ),
        ('array: {matrix: {A: ["a\\nb"]}}', "f:3: array.matrix.A[0]: 'a\\nb' holds characters that cannot be printed"),
        ("array: {matrix: {A: [1, [2]]}}", "f:3: array.matrix.A[1]: expected text"),
        ("schedule: {}", 'f:3: schedule: needs "cron"'),
        ("schedule: {cron: 0 25 * * *}", "f:3: schedule.cron: expected minute, hour"),
        ("schedule: {cron: 0 2 * * *, timezone: Mars}", "f:3: schedule.timezone: unknown time zone 'Mars'"),
        ("schedule: {cron: 0 2 * * *, overlap: skip}", "f:3: schedule.overlap: expected allow, forbid or replace"),
        ("deadline: {in: 1h, on_miss: fail}", "f:3: deadline.on_miss: expected continue or refuse"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(text, message):
    with pytest.raises(ConfigError) as caught:
        job(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def documents(*jobs: tuple[str, ...]) -> str:
    """Each: a name, then those that it waits for."""
    parts = [f"name: {name}\nrun: x\nafter: {{{', '.join(f'{b}: success' for b in before)}}}" for name, *before in jobs]
    return "\n---\n".join(parts)


def test_a_job_of_a_file_comes_after_those_that_it_waits_for():
    text = documents(("report", "train"), ("other",), ("train", "etl", "elsewhere"), ("etl",))
    assert [spec.name for spec in parse_job_file(text, "f")] == ["other", "etl", "train", "report"]


def test_a_cycle_is_named_with_its_place():
    text = documents(("x",), ("a", "b"), ("b", "c"), ("c", "a"))
    with pytest.raises(ConfigError) as caught:
        parse_job_file(text, "f")
    message = str(caught.value)
    assert message.endswith("; none of them could start")
    assert all(step in message for step in ("a waits for b", "b waits for c", "c waits for a"))
    assert message.split(":")[1] in ("7", "11", "15")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.sets(st.integers(0, 11), max_size=3), min_size=1, max_size=12))
def test_the_order_keeps_every_dependency_or_there_is_a_cycle(graph):
    jobs = [(f"j{n}", *(f"j{b}" for b in sorted(before) if b < len(graph))) for n, before in enumerate(graph)]
    try:
        specs = parse_job_file(documents(*jobs), "f")
    except ConfigError as error:
        steps = str(error).partition("a cycle: ")[2].partition(";")[0].split(", ")
        waits = [tuple(step.split(" waits for ")) for step in steps]
        followers = {name: before for name, *before in jobs}
        assert all(b in followers[a] for a, b in waits)
        assert waits[-1][1] == waits[0][0]
        return
    places = {spec.name: place for place, spec in enumerate(specs)}
    assert len(places) == len(jobs)
    assert all(places[d.job] < places[spec.name] for spec in specs for d in spec.after)
