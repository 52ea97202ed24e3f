"""Jobs in Python: the same keys, values and mistakes as in a job file."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gosched import Job, Tasks
from gosched.client import Misused
from gosched.client.spec import spec_of, specs_of
from gosched.config.jobs.group_model import GroupFile
from gosched.config.jobs.job_model import JobFile

YAML = """
name: x
run: [python3, t.py]
resources: {cpu: 2, memory: 4Gi}
count: 4
env: {A: "1"}
timeout: 90s
"""
JOB = Job(
    name="x",
    run=["python3", "t.py"],
    resources={"cpu": 2, "memory": "4Gi"},
    count=4,
    env={"A": "1"},
    timeout=timedelta(seconds=90),
)


def keys(model: type) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def test_a_job_has_the_keys_of_a_job_file():
    assert {field.name for field in fields(Tasks)} == keys(GroupFile)
    assert {field.name for field in fields(Job)} == keys(GroupFile) | keys(JobFile)


def test_a_job_is_the_same_in_every_form(tmp_path: Path):
    file = tmp_path / "x.yaml"
    file.write_text(YAML)
    as_dict = {
        "name": "x", "run": ["python3", "t.py"], "resources": {"cpu": 2.0, "memory": "4Gi"}, "count": 4,
        "env": {"A": "1"}, "timeout": "1m30s",
    }  # fmt: skip
    specs = [spec_of(form) for form in (YAML, JOB, as_dict, file, str(file))]
    assert len(set(map(repr, specs))) == 1
    assert spec_of(specs[0]) is specs[0]
    assert specs[0].groups[0].resources.memory_bytes == 4 << 30


def test_groups_and_moments():
    job = Job(
        name="ps",
        tasks={"server": Tasks(run="serve"), "worker": {"run": "work", "count": 3}},
        begin={"in": "30m"},
        deadline={"at": datetime(2030, 1, 2, tzinfo=UTC)},
        array={"range": "0-9"},
    )
    spec = spec_of(job)
    assert [(group.name, group.count) for group in spec.groups] == [("server", 1), ("worker", 3)]
    assert (spec.deadline_at_ms, spec.begin_in_ms) == (1_893_542_400_000, 1_800_000)
    assert spec.array.size == 10


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (Job(name="x"), "job 'x': needs \"run\""),
        (Job(name="x", run="y", resources={"cpu": 2, "memry": "1Gi"}), "did you mean"),
        (Job(name="x", run="y", resources={"memory": 4}), "resources.memory: needs a unit such as 4Mi or 4Gi"),
        (Job(name="x", run="y", count="many"), "job 'x': count: "),
        (Job(name="x", run="y", tasks={"a": Tasks(run="z")}), "cannot be combined with tasks"),
        (Job(name=None, run="y"), "name"),  # type: ignore[arg-type]
        ({"name": "x", "run": {1, 2}}, "not of {1, 2} (set)"),
        ({"name": "x", 5: "y"}, "the keys of a job are text, got 5 (int)"),
        ("- a\n- b", "expected a job"),
        ("", "no job in it"),
        ("x.yml", "No such file"),
    ],
)
def test_a_mistake_is_said_as_in_a_file(job, says):
    with pytest.raises(Misused) as caught:
        spec_of(job)
    assert says in str(caught.value)


def test_a_job_that_holds_itself_is_refused():
    endless: dict[str, object] = {"name": "x"}
    endless["env"] = endless
    with pytest.raises(Misused, match="levels deep"):
        spec_of(endless)


def test_several_jobs_are_for_submit_all():
    two = "name: b\nrun: x\nafter: {a: success}\n---\nname: a\nrun: x"
    with pytest.raises(Misused, match=r"2 jobs in it: give them to submit_all\(\)"):
        spec_of(two)
    assert [spec.name for spec in specs_of(two)] == ["a", "b"]
    assert [spec.name for spec in specs_of([JOB, two])] == ["x", "a", "b"]


def test_a_job_shows_what_it_was_given():
    assert repr(Job(name="x", run="y", count=2)) == "Job(name='x', run='y', count=2)"
    assert repr(Tasks(run=["y"])) == "Tasks(run=['y'])"
