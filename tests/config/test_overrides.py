from __future__ import annotations

import pytest

from gosched.config import ConfigError, parse_job_file
from gosched.config.jobs.overrides import Override, read_set
from gosched.core.spec.job_spec import JobSpec

FLAT = "name: a\nrun: x\ncount: 2\nlabels: {team: nlp}\nresources: {cpu: 2, gpu: 'h100:8'}\n"
ONE_GROUP = "name: a\ntasks:\n  worker:\n    count: 2\n    run: x\n"
TWO_GROUPS = ONE_GROUP + "  ps:\n    run: y\n    env: {A: 1}\n"
SPARK = "name: a\nspark:\n  app: /a.py\n  executors: {count: 2}\n"


def jobs(text: str, *overrides: str | Override) -> list[JobSpec]:
    return parse_job_file(text, "f.yaml", [read_set(o) if isinstance(o, str) else o for o in overrides])


def flag(name: str, *path: str, value: object, adds: bool = False) -> Override:
    return Override(path=path, value=value, origin=f"--{name}", adds=adds, of_group=True)


def test_a_value_is_typed_like_yaml() -> None:
    (job,) = jobs(FLAT, "count=4", "hold=true", "priority=high", "env.A=01", "run=echo x=1", "retry={max: 5}")
    (group,) = job.groups
    assert (group.count, job.hold, job.priority, group.env) == (4, True, 750, (("A", "01"),))
    assert group.command == ("/bin/sh", "-c", "echo x=1")
    assert job.retry.max_restarts == 5


def test_a_path_reaches_into_mappings_lists_and_groups() -> None:
    text = ONE_GROUP + "    runtime: docker\n    image: a\n    volumes: [{host: /a, to: /a}]\n"
    (job,) = jobs(text, "tasks.worker.count=8", "tasks.worker.volumes[0].mode=ro", "preemption.grace=5m")
    assert job.groups[0].count == 8
    assert job.groups[0].isolation.volumes[0].read_only
    assert job.preemption.grace_ms == 300_000


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        (FLAT, "labels.example.org/a.b=1", lambda job: dict(job.labels)["example.org/a.b"] == "1"),
        (SPARK, "spark.conf.spark.ui.port=4041", lambda job: "spark.ui.port=4041" in job.groups[0].command),
        (FLAT, "resources.fpga=2", lambda job: job.groups[0].resources.custom == (("fpga", 2),)),
        (FLAT, "placement.node_selector.zone=a", lambda job: job.groups[0].node_selector == (("zone", "a"),)),
    ],
)
def test_keys_that_users_choose_may_have_dots(text, words, found) -> None:
    assert found(jobs(text, words)[0])


@pytest.mark.parametrize("words", ["resources=", "resources=null", "resources.gpu="])
def test_no_value_leaves_the_key_out(words) -> None:
    assert jobs(FLAT, words)[0].groups[0].resources.gpu_millis == 0


def test_leaving_out_what_is_not_there_changes_nothing() -> None:
    assert jobs(FLAT, "deadline.at=", "array=") == jobs(FLAT)


@pytest.mark.parametrize(
    ("text", "words", "problem"),
    [
        (FLAT, "cuont=3", '--set cuont: unknown key (did you mean "count"?)'),
        (FLAT, "retry.mx=3", '--set retry.mx: unknown key (did you mean "max"?)'),
        (FLAT, "count=many", "--set count: expected a whole number, got 'many'"),
        (FLAT, "resources.gpu.count=3", "--set resources.gpu.count: resources.gpu is 'h100:8' here: set the whole of"),
        (FLAT, "tasks.task.count=3", "--set tasks.task.count: f.yaml has no tasks; its keys stand at the top: --set"),
        (ONE_GROUP, "tasks.wroker.count=3", 'f.yaml has no task group wroker (did you mean "worker"?)'),
        (ONE_GROUP, "count=3", "say of which: --set tasks.worker.count=..."),
        (ONE_GROUP, "tasks.worker.volumes[0].to=/x", "tasks.worker.volumes has 0 entries, counted from 0"),
        (FLAT, "labels[0]=x", "labels is {'team': 'nlp'} here: set the whole of labels"),
        (FLAT, "a[b]=3", "expected keys with dots between them"),
        (FLAT, "labels={a: *b}", "anchors and aliases"),
        (FLAT, "count=1\n---\n2", "several YAML documents"),
        (SPARK, "count=3", "--set count: cannot be combined with spark"),
        ("- a\n", "count=3", "expected a job"),
        ("name: a\nrun: x\n---\nname: b\nrun: y\n", "name=c", "--set name: names one job; there are 2 in f.yaml"),
    ],
)
def test_what_is_wrong_is_said_with_the_flag(text, words, problem) -> None:
    with pytest.raises(ConfigError) as error:
        jobs(text, words)
    assert problem in str(error.value)


def test_flags_are_of_each_job_of_the_file() -> None:
    found = jobs("name: a\nrun: x\n---\nname: b\nrun: y\n", flag("count", "count", value="3"))
    assert [job.groups[0].count for job in found] == [3, 3]


def test_a_flag_of_a_task_group_finds_the_only_group() -> None:
    assert jobs(ONE_GROUP, flag("cpu", "resources", "cpu", value="4"))[0].groups[0].resources.cpu_millis == 4000
    assert jobs(SPARK, flag("count", "count", value="5"))[0].groups[1].count == 5


def test_a_flag_that_does_not_say_of_which_group_is_refused() -> None:
    for text, key in ((TWO_GROUPS, "count"), (SPARK, "resources")):
        with pytest.raises(ConfigError, match=r"say of which: --set (tasks\.worker|spark\.executors)\."):
            jobs(text, flag(key, key, value={} if key == "resources" else "3"))


def test_the_environment_is_added_to_that_of_every_group() -> None:
    worker, ps = jobs(TWO_GROUPS, flag("env", "env", value={"B": "2"}, adds=True))[0].groups
    assert (worker.env, ps.env) == ((("B", "2"),), (("A", "1"), ("B", "2")))


def test_labels_of_either_form_are_added_to() -> None:
    labels = Override(path=("labels",), value={"run": "2"}, origin="--labels", adds=True)
    for text in (FLAT, "name: a\nrun: x\nlabels: team=nlp\n"):
        assert jobs(text, labels)[0].labels == (("run", "2"), ("team", "nlp"))


def test_an_error_beside_an_override_names_its_line() -> None:
    with pytest.raises(ConfigError, match=r"f\.yaml:3: retry\.max: expected a whole number"):
        jobs("name: a\nrun: x\nretry: {max: x}\n", "count=3")
