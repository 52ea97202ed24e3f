from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gosched.config import ConfigError, job_from_flags, parse_job_file
from gosched.core.features import NEWEST_LEVEL
from gosched.core.limits import MAX_SPEC_BYTES
from gosched.core.rules.jobs import check_job
from gosched.core.spec.job_spec import OnDisconnect
from gosched.core.spec.placement_rules import Strategy
from gosched.core.spec.policies import MemberFailure, RetryCause
from gosched.core.spec.task_group import Framework

FULL = """
name: llm-70b
queue: research.llm
tenant: nlp
priority: high
labels: {team: nlp, size: 70}
gang: {min: all, on_member_failure: fail_job, ends_with: worker}
tasks:
  worker:
    count: 8
    resources: {cpu: 96, memory: 1.5Ti, gpu: h100:8, storage: 100Gi}
    placement: {strategy: spread, node_selector: {zone: us-east-1a}}
    distributed: {framework: torch, launcher: torchrun}
    env: {NCCL_DEBUG: INFO, N: 010, F: 1.50, B: true, Y: yes}
    working_dir: /data
    run: [torchrun, train.py]
  ps:
    run: ./ps.sh --all
retry: {max: 5, backoff: 30s, when: [node_lost, preempted, failed]}
on_disconnect: stop
stop_grace: 1m
"""


def test_every_supported_key_reaches_the_spec():
    (spec,) = parse_job_file(FULL, "f")
    assert (spec.name, spec.queue, spec.tenant, spec.priority) == ("llm-70b", "research.llm", "nlp", 750)
    assert spec.labels == (("size", "70"), ("team", "nlp"))
    assert (spec.gang.min_tasks, spec.gang.on_member_failure) == (9, MemberFailure.FAIL_JOB)
    assert spec.gang.ends_with == "worker"
    assert spec.retry.max_restarts == 5
    assert spec.retry.backoff_ms == 30_000
    assert spec.retry.when == (RetryCause.NODE_LOST, RetryCause.PREEMPTED, RetryCause.FAILED)
    assert (spec.on_disconnect, spec.stop_grace_ms) == (OnDisconnect.STOP, 60_000)
    worker, ps = spec.groups
    assert (worker.name, worker.count, worker.command) == ("worker", 8, ("torchrun", "train.py"))
    assert (worker.resources.cpu_millis, worker.resources.memory_bytes) == (96_000, 1649267441664)
    assert (worker.resources.gpu_millis, worker.gpu_model) == (8000, "h100")
    assert worker.resources.storage_bytes == 100 * 2**30
    assert (worker.strategy, worker.framework) == (Strategy.SPREAD, Framework.TORCH)
    assert worker.node_selector == (("zone", "us-east-1a"),)
    assert worker.env == (("B", "true"), ("F", "1.50"), ("N", "010"), ("NCCL_DEBUG", "INFO"), ("Y", "yes"))
    assert worker.working_dir == "/data"
    assert (ps.name, ps.count, ps.command) == ("ps", 1, ("/bin/sh", "-c", "./ps.sh --all"))
    assert check_job(spec, NEWEST_LEVEL) is None


def test_flat_job_is_one_group_with_the_defaults_of_the_contract():
    (spec,) = parse_job_file("name: a\nrun: echo hi\ncount: 3", "f")
    (group,) = spec.groups
    assert (group.count, group.resources.cpu_millis, group.resources.memory_bytes) == (3, 1000, 0)
    assert (spec.queue, spec.tenant, spec.retry.max_restarts) == ("default", "default", 3)
    assert spec.retry.when == (RetryCause.NODE_LOST, RetryCause.PREEMPTED)
    assert spec.on_disconnect is OnDisconnect.KEEP
    assert spec.gang.min_tasks == 3
    assert check_job(spec, NEWEST_LEVEL) is None


def test_what_masters_accept_may_be_written():
    more = "env: {spring.url: x, a-b: 1}\nworking_dir: data\nretry: {max: 5000, backoff: 1h}"
    (spec,) = parse_job_file(f"name: -a.\nqueue: q.{'q' * 100}\nrun: x\n{more}", "f")
    assert (spec.name, len(spec.queue), spec.groups[0].working_dir) == ("-a.", 102, "data")
    assert (spec.groups[0].env, spec.retry.max_restarts) == ((("a-b", "1"), ("spring.url", "x")), 5000)


def test_several_documents_are_several_jobs():
    assert [s.name for s in parse_job_file("name: a\nrun: x\n---\nname: b\nrun: y\n---\n", "f")] == ["a", "b"]


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_every_example_is_accepted(path):
    assert not any(check_job(spec, NEWEST_LEVEL) for spec in parse_job_file(path.read_bytes(), path.name))


def test_example_is_a_valid_gang_of_eight():
    (spec,) = parse_job_file((Path(__file__).parents[2] / "examples" / "gang.yaml").read_bytes(), "gang.yaml")
    assert spec.task_count == 8
    assert check_job(spec, NEWEST_LEVEL) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f: no job in it: write at least name and run"),
        ("name: a", 'f:1: needs "run"'),
        ("run: x", 'f:1: needs "name"'),
        ("name: a\nrn: x", 'f:2: rn: unknown key (did you mean "run"?)'),
        ("name: a\nrun: x\ncuont: 3", 'f:3: cuont: unknown key (did you mean "count"?)'),
        ("name: a\nrun: x\ncount: 0", "f:3: count: is 0; it must be at least 1"),
        ("name: a\nrun: x\ncount: -1", "f:3: count: is -1; it must be at least 1"),
        ("name: a\nrun: x\ncount: 99999", "f:3: count: a job has at most 20000 tasks; this one has 99999"),
        ("name: a\nrun: x\nresources: {memory: 5}", "f:3: resources.memory: needs a unit such as 5Mi or 5Gi"),
        ("name: a\nrun: x\nresources: {cpu: -1}", "f:3: resources.cpu: cannot be negative"),
        (
            "name: a\nrun: x\nresources: {cpu: 9007199254740992}",
            "f:3: resources.cpu: 9007199254740992 is more than can be",
        ),
        ("name: a\nrun: x\nresources:", "f:3: resources: expected keys and values, got nothing"),
        ("name: a\nrun: x\non_disconnect: run", "f:3: on_disconnect: expected keep or stop, got 'run'"),
        ("name: a\nrun: x\ngang: {ends_with: x}", "f:3: gang.ends_with: is 'x'; the groups are task"),
        (
            "name: a\nrun: x\ndistributed: {launcher: torchrun}",
            "f:3: distributed.launcher: torchrun starts torch: add framework: torch",
        ),
        ("name: a\nrun: x\ncount: 3\ngang: {min: 0%}", "f:4: gang.min: expected all, a number of tasks or a percent"),
        ("name: a\nrun: x\ncount: 3\ngang: {min: 0}", "f:4: gang.min: expected all, a number of tasks or a percent"),
        ("name: a\nrun: x\ncount: 3\ngang: {min: 101%}", "f:4: gang.min: expected all, a number of tasks or a percent"),
        (
            "name: a\ngang: {min: 2}\ntasks: {w: {run: x, count: 2}, v: {run: x}}",
            "f:2: gang.min: 2 does not say which task group it is of: use all, or a percent of each group",
        ),
        ("name: a\ngang: {min: 4}\ntasks: {w: {run: x, count: 2}, v: {run: x}}", "f:2: gang.min: 4 is more than the 3"),
        ("name: a\nrun: x\ncount: 3\ngang: {min: 4}", "f:4: gang.min: 4 is more than the 3 tasks"),
        ("name: a\nrun: x\npriority: hihg", "f:3: priority: expected low, normal, high or a number from 0 to 1000"),
        ("name: a\nrun: x\npriority: 1001", "f:3: priority: 1001 is not between 0 and 1000"),
        ("name: a\nrun: x\nretry: {when: [lost]}", "f:3: retry.when[0]: expected node_lost, preempted or failed"),
        ("name: a\nrun: x\nenv: {A: }", "f:3: env: A: expected text, got nothing"),
        (
            "name: a\nrun: x\nenv: {GOSCHED_X: 1}",
            "f:3: env.GOSCHED_X: names that begin with GOSCHED_ are set by gosched",
        ),
        ("name: a\nrun: x\nenv: {a=b: 1}", "f:3: env.a=b: 'a=b' cannot be the name of an environment variable"),
        ("name: a\nrun: []", "f:2: run: expected a line for the shell"),
        ("name: a\nrun: ' '", "f:2: run: expected a line for the shell"),
        ("name: 5\nrun: x", "f:1: name: expected a name, got 5; quote it"),
        ("name: a b\nrun: x", "f:1: name: 'a b' may hold only letters, digits, '.', '_' and '-'"),
        ("name: é\nrun: x", "f:1: name: '\\xe9' may hold only letters, digits, '.', '_' and '-'"),
        ('name: "a\\u0007b"\nrun: x', "f:1: name: 'a\\x07b' may hold only letters, digits, '.', '_' and '-'"),
        ("name: \x07", "f:1: not valid YAML: control character"),
        ("name: a\nrun: x\ntasks: {}", "f:2: run: cannot be combined with tasks"),
        ("name: a\ntasks: {}", "f:2: tasks: a job has 1 to 64 task groups; this one has 0"),
        ("name: a\ntasks: {w: {run: x, cont: 1}}", 'f:2: tasks.w.cont: unknown key (did you mean "count"?)'),
        (
            "name: a\ntasks: {w: {run: x, count: 20000}, v: {run: x}}",
            "f:2: tasks: a job has at most 20000 tasks; this one has 20001",
        ),
        ("name: a\nname: b", "f:2: name: is given twice"),
        ("- 1", "f:1: expected a job"),
        ("a: " + "[" * 100, "f:1: nested more than 20 deep"),
        ("name: [a", "f:2: not valid YAML"),
    ],
)
def test_mistake_is_one_line_with_its_place(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_job_file(text, "f")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_not_utf8_names_the_line():
    with pytest.raises(ConfigError, match=r"^f:2: not UTF-8 "):
        parse_job_file(b"name: a\nrun: \xff", "f")


def test_ten_megabytes_are_refused_before_they_are_parsed():
    with pytest.raises(ConfigError, match=r"^f: 10485760 bytes; at most"):
        parse_job_file(b"x" * 10 * 1024 * 1024, "f")


def test_a_spec_beyond_the_limit_says_where_data_belongs():
    with pytest.raises(
        ConfigError, match=r"^f:1: the job's texts take 256\.\d+Ki; at most 256Ki are allowed: keep data in files$"
    ):
        parse_job_file(f"name: a\nrun: {'x' * MAX_SPEC_BYTES}", "f")


def test_alias_bomb_is_refused():
    bomb = "a: &a [1,1]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)},*{chr(97 + i)}]\n" for i in range(20)
    )
    with pytest.raises(ConfigError, match=r"^f:1: anchors and aliases"):
        parse_job_file(bomb, "f")


def test_flag_is_named_instead_of_a_line():
    with pytest.raises(ConfigError, match=r"^--count: is 0; it must be at least 1$"):
        job_from_flags({"name": "a", "run": ["x"], "count": "0"}, {("count",): "--count"})


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.one_of(st.binary(max_size=200), st.text(alphabet="nametaskrun:[]{}&*!|>-'\"\n #,1.0", max_size=80)))
def test_any_bytes_are_jobs_or_one_line(text):
    try:
        specs = parse_job_file(text, "f")
    except ConfigError as error:
        message, problems = str(error), []
    else:
        message, problems = "f: none", [check_job(spec, NEWEST_LEVEL) for spec in specs]
    assert message.startswith("f:")
    assert "\n" not in message
    assert not any(problems)


def test_two_jobs_of_one_name_are_an_error_that_names_both_documents():
    with pytest.raises(ConfigError) as error:
        parse_job_file("name: a\nrun: x\n---\nrun: y\nname: b\n---\nrun: x\nname: a\n", "f.yaml")
    assert str(error.value) == ("f.yaml:8: name: job 3 of the file has the name of job 1, a at f.yaml:1: rename one")
