"""The spark of a job file: text -> two task groups, and text -> one line."""

from __future__ import annotations

import pytest

from gosched.config import ConfigError, parse_job_file
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.task_group import SPARK_WORKER, Framework, Runtime

ETL = """
name: etl
spark:
  app: /apps/etl.jar
  class: org.example.Etl
  args: [--day, 5]
  driver: {cpu: 2, memory: 4Gi}
  executors: {count: 4, resources: {cpu: 8, memory: 32Gi}}
  conf: {spark.executor.cores: 4, spark.sql.shuffle.partitions: 64}
  env: {A: b}
  user: etl
"""


def conf_of(spec: JobSpec) -> dict[str, str]:
    words = spec.groups[0].command
    pairs = (words[at + 1] for at, word in enumerate(words) if word == "--conf")
    return dict(pair.split("=", 1) for pair in pairs)


def test_an_application_is_a_driver_and_its_executors():
    (spec,) = parse_job_file(ETL, "f")
    driver, executor = spec.groups
    assert [(g.name, g.count, g.runtime) for g in spec.groups] == [
        ("driver", 1, Runtime.SPARK),
        ("executor", 4, Runtime.SPARK),
    ]
    assert driver.command[:3] == ("spark-driver", "--class", "org.example.Etl")
    assert driver.command[-3:] == ("/apps/etl.jar", "--day", "5")
    assert executor.command == (SPARK_WORKER,)
    assert (driver.resources.cpu_millis, executor.resources.cpu_millis) == (2000, 8000)
    assert executor.resources.memory_bytes == 32 << 30
    assert (spec.gang.min_tasks, spec.gang.ends_with) == (5, "driver")
    for group in spec.groups:
        assert (group.isolation.user, group.env) == ("etl", (("A", "b"),))
        assert group.framework is Framework.MPI
        assert [term.label for term in group.affinity] == ["gosched.io/runtime.spark"]


def test_the_heap_stays_within_the_tasks_memory_and_own_conf_goes_first():
    (spec,) = parse_job_file(ETL, "f")
    conf = conf_of(spec)
    assert conf["spark.executor.memory"] == f"{32768 - 3276 - 256}m"
    assert conf["spark.executor.cores"] == "4"
    assert conf["spark.cores.max"] == "32"
    assert conf["spark.sql.shuffle.partitions"] == "64"


def test_an_application_that_may_start_with_fewer_waits_for_no_more():
    (spec,) = parse_job_file(ETL + "gang: {min: 50%}", "f")
    assert [group.floor for group in spec.groups] == [1, 2]
    assert conf_of(spec)["spark.scheduler.minRegisteredResourcesRatio"] == "0.5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spark: {args: [1]}", 'f:2: spark: needs "app"'),
        ("spark: {app: a.jar}", "f:2: spark.app: is a jar: name its main class too, with class"),
        ("spark: {app: --class}", "f:2: spark.app: expected a path or an address"),
        (
            "spark: {app: a.py}\nrun: x",
            "f:3: run: cannot be combined with spark, which makes all tasks of the job: leave one",
        ),
        (
            "spark: {app: a.py}\nenv: {A: b}",
            "f:3: env: cannot be combined with spark, which makes all tasks of the job: move",
        ),
        ("spark: {app: a.py}\ntasks: {}", "f:3: tasks: cannot be combined with spark"),
        ("spark: {ap: a.py}", 'f:2: spark.ap: unknown key (did you mean "app"?)'),
        ("spark: {app: a.py, image: x}", "f:2: spark.image: unknown key"),
        ("spark: {app: a.py, driver: {memory: 1Gi}}", "f:2: spark.driver.memory: is too little for Spark's JVMs"),
        (
            "spark: {app: a.py, executors: {resources: {cpu: 2}}, conf: {spark.executor.cores: 4}}",
            "f:2: spark.conf.spark.executor.cores: expected 1 to 2, the executors' cpu, got 4",
        ),
        (
            "spark: {app: a.py, conf: {spark.executor.memory: 4g}}",
            "f:2: spark.conf.spark.executor.memory: expected an amount such as 4g, at most 2048m",
        ),
        ("spark: {app: a.py, conf: {spark.master: x}}", "f:2: spark.conf.spark.master: is set by gosched"),
        (
            "spark: {app: a.py, conf: {spark.authenticate: 'false'}}",
            "f:2: spark.conf.spark.authenticate: is set by gosched",
        ),
        ("spark: {app: a.py, conf: {master: x}}", "f:2: spark.conf.master: expected the name of a setting"),
        ("spark: {app: a.py}\ngang: {min: 1}", "f:3: gang.min: 1 does not say which task group"),
        (
            "spark: {app: a.py}\ngang: {ends_with: drvier}",
            "f:3: gang.ends_with: is 'drvier'; the groups are driver, executor",
        ),
    ],
)
def test_mistake_is_one_line_with_its_place(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_job_file(f"name: a\n{text}", "f")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
