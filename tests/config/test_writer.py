"""A job that is written as a job file is read as the same job."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gosched.config import parse_job_file
from gosched.config.jobs import group_writer, writer
from gosched.config.jobs.writer import Unwritable, job_keys, job_text
from gosched.core.features import NEWEST_LEVEL
from gosched.core.rules.jobs import check_job
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from tests.config.specs import specs

TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=30)


def read(text: str) -> JobSpec:
    (found,) = parse_job_file(text, "f")
    return found


def check_round_trips(examples: int, seen: Counter[str], *phases: Phase) -> None:
    @settings(max_examples=examples, deadline=None, derandomize=True, database=None, phases=phases or tuple(Phase))
    @given(specs())
    def round_trip(job: JobSpec) -> None:
        if check_job(job, NEWEST_LEVEL) is not None:
            seen["refused"] += 1
            return
        assert read(job_text(job)) == job
        assert read(json.dumps(job_keys(job))) == job
        seen["same"] += 1

    round_trip()


def test_any_job_is_read_as_it_was_written() -> None:
    seen: Counter[str] = Counter()
    check_round_trips(100, seen)
    assert seen["same"] > 15, seen


def _wrong_unit(amount: int) -> str:
    return f"{amount}kB"


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        (group_writer, "memory", _wrong_unit),
        (group_writer, "_written_terms", lambda group: ()),
        (writer, "_retry", lambda spec: {}),
        (writer, "_array", lambda array: {}),
        (writer, "_preemption", lambda rules: {}),
    ],
)
def test_what_is_written_otherwise_is_noticed(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, wrong: Any
) -> None:
    monkeypatch.setattr(module, name, wrong)
    with pytest.raises(AssertionError):
        check_round_trips(400, Counter(), Phase.generate)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.lists(TEXTS, min_size=1, max_size=3), TEXTS)
def test_any_text_of_a_command_survives_json_and_yaml(words: list[str], value: str) -> None:
    group = TaskGroup(name="task", count=1, command=tuple(words), env=(("X", value),))
    job = replace(read("{name: a, run: x}"), groups=(group,))
    assert read(job_text(job)).groups == job.groups


EXAMPLES = [
    "{name: a, run: ./train.sh}",
    "{name: a, run: [/bin/sh, -c, '  ']}",
    "{name: a, run: [/bin/sh, -c, x, y]}",
    "{name: a, tasks: {task: {run: x}}}",
    "{name: a, tasks: {b: {run: x}}}",
    "{name: a, gang: {min: 50%}, tasks: {b: {run: x, count: 3}, c: {run: x, count: 8}}}",
    "{name: a, gang: {min: 3}, run: x, count: 4}",
    "{name: a, gang: {min: 30%}, spark: {app: /a.py, executors: {count: 7}, conf: {spark.x: y}}}",
    "{name: a, spark: {app: /a.jar, class: b, args: [1, 2]}}",
    "{name: a, run: x, image: debian, placement: {affinity: [{label: gosched.io/runtime.docker, op: exists}]}}",
    "{name: a, run: x, image: /srv/root, runtime: rootfs, umask: 022, rlimits: {nofile: [1, unlimited], core: 0}}",
    "{name: a, run: x, placement: {anti_affinity: [{}], tolerations: [{}], topology: {level: rack, mode: preferred}}}",
    "{name: a, run: x, resources: {cpu: 500m, memory: 1.5Ti, gpu: {count: 2, memory: 40Gi}, fpga: 2}}",
    "{name: a, run: x, resources: {cpu: 0, gpu: 0.25}, retry: {max: 0, when: []}, priority: high}",
    "{name: a, run: x, deadline: {at: '2026-12-01T06:00:00.250+01:00', on_miss: refuse}, preemption: {grace: 0}}",
    "{name: a, run: x, begin: {at: '2026-12-01T06:00:00.250+01:00'}}",
    "{name: a, run: x, begin: {in: 90m}, deadline: {in: 6h}}",
    "{name: a, run: x, preemption: {checkpoint_signal: 34}, schedule: {cron: '0 3 * * *', timezone: Europe/Berlin}}",
    "{name: a, run: x, array: {matrix: {LR: [0.1, '', null-ish], B: [1]}, max_failures: 0}, after: {b: any}}",
    "{name: a, run: x, array: {range: 1-9:2, parallelism: 2}, stop_grace: 0, hold: true, on_disconnect: stop}",
    "{name: a, run: x, limits: {swap: 0, hugepages: {2Mi: 4Mi}, io: {weight: 5}}, labels: {a: 'true', b: '1.5'}}",
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_what_a_file_says_is_written_so_that_it_means_the_same(text: str) -> None:
    job = read(text)
    assert read(job_text(job)) == job
    assert read(json.dumps(job_keys(job))) == job


def test_defaults_are_left_out() -> None:
    assert job_text(read("{name: a, run: echo hello}")) == "name: a\nrun: echo hello\n"
    large = "{name: a, queue: q, count: 8, resources: {cpu: 96, memory: 1.5Ti, gpu: h100:8}, run: x, timeout: 90m}"
    assert job_keys(read(large)) == {
        "name": "a",
        "queue": "q",
        "count": 8,
        "resources": {"cpu": 96, "memory": "1536Gi", "gpu": {"count": 8, "model": "h100"}},
        "run": "x",
        "timeout": "90m",
    }


def test_floors_that_no_percent_gives_are_refused_in_one_line() -> None:
    job = read("{name: a, tasks: {b: {run: x, count: 10}, c: {run: x, count: 10}}}")
    one, two = job.groups
    uneven = replace(job, groups=(replace(one, min_count=3), two), gang=GangPolicy(min_tasks=13))
    with pytest.raises(Unwritable, match=r"3 of 10 b, 10 of 10 c"):
        job_text(uneven)


def test_a_script_is_written_as_a_block():
    script = "name: a\nrun: |\n  set -e\n  echo it's done\n"
    job = read(script + 'env: {A: "1\\n", B: "x \\n\\ty"}\n')
    assert job_text(job).endswith(script.partition("\n")[2])
    assert read(job_text(job)) == job
