"""Command lines of spark-submit as jobs, which the reader of job files takes."""

from __future__ import annotations

import json

import pytest

from gosched.config import parse_job_file
from gosched.config.errors import ConfigError
from gosched.config.jobs.spark_memory import heap_mib, memory_mib
from gosched.config.jobs.spark_model import LEAVES_AFTER_S
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.task_group import SPARK_WORKER
from gosched.integrations.spark.submit import Submission, endpoints_of, job_document

GI, MI = 1 << 30, 1 << 20
DYNAMIC = ("spark.dynamicAllocation.enabled=true", "spark.dynamicAllocation.maxExecutors=8")


def job_of(app: str = "a.py", *args: str, conf: tuple[str, ...] = (), flags: str = "", **options: str) -> JobSpec:
    given = Submission(
        app=app,
        args=args,
        suffix="1f",
        conf=conf,
        flags=frozenset(flags.split()),
        properties=options.pop("properties", ""),
        options={name.replace("_", "-"): value for name, value in options.items()},
    )
    return parse_job_file(json.dumps(job_document(given)), "spark-submit")[0]


def conf_of(spec: JobSpec) -> dict[str, str]:
    words = spec.groups[0].command
    return dict(words[i + 1].split("=", 1) for i, word in enumerate(words) if word == "--conf")


def test_without_options_it_is_two_executors_of_a_core_and_heaps_of_1_gib() -> None:
    spec = job_of("a.py", "--day", "1")
    driver, executor = spec.groups
    assert (spec.name, spec.queue) == ("a-1f", "default")
    assert driver.command[-3:] == ("a.py", "--day", "1")
    assert (driver.count, executor.count) == (1, 2)
    assert driver.resources == executor.resources
    assert driver.resources.cpu_millis == 1000
    assert heap_mib(driver.resources.memory_bytes) == 1024
    assert conf_of(spec)["spark.executor.memory"] == conf_of(spec)["spark.driver.memory"] == "1024m"


def test_options_have_the_places_of_a_job() -> None:
    spec = job_of(
        "etl.jar",
        **{"class": "org.example.Etl"},
        name="Daily ETL, 3",
        executor_memory="8g",
        executor_cores="4",
        num_executors="16",
        driver_memory="512m",
        driver_cores="2",
        queue="science",
        jars="a.jar,b.jar",
        driver_java_options="-Dx=1",
    )
    driver, executor = spec.groups
    assert (spec.name, spec.queue, executor.count) == ("daily-etl-3-1f", "science", 16)
    assert (driver.resources.cpu_millis, executor.resources.cpu_millis) == (2000, 4000)
    assert heap_mib(executor.resources.memory_bytes) >= 8192
    assert "--class" in driver.command
    conf = conf_of(spec)
    assert conf["spark.app.name"] == "Daily ETL, 3"
    assert conf["spark.jars"] == "a.jar,b.jar"
    assert conf["spark.driver.extraJavaOptions"] == "-Dx=1"
    assert "spark.executor.instances" not in conf


@pytest.mark.parametrize(("total", "each", "count"), [("64", "4", 16), ("10", "4", 2), ("1", "1", 1)])
def test_cores_of_all_executors_say_how_many_there_are(total: str, each: str, count: int) -> None:
    spec = job_of(total_executor_cores=total, executor_cores=each)
    assert spec.groups[1].count == count
    assert conf_of(spec)["spark.cores.max"] == total


def test_an_option_goes_before_a_setting_and_a_setting_before_the_file() -> None:
    spec = job_of(
        properties="# cluster\nspark.executor.instances 3\nspark.executor.cores=2\nspark.a : b\nother x\n",
        conf=("spark.executor.cores=3",),
        num_executors="5",
    )
    assert spec.groups[1].count == 5
    assert spec.groups[1].resources.cpu_millis == 3000
    assert conf_of(spec)["spark.a"] == "b"


def test_an_overhead_of_memory_is_the_tasks() -> None:
    plain, more = job_of(), job_of(conf=("spark.executor.memoryOverhead=4g",))
    assert more.groups[1].resources.memory_bytes == 5 * GI
    assert more.groups[0].resources == plain.groups[0].resources


@pytest.mark.parametrize("heap", [450, 1024, 3455, 3456, 3457, 8192, 100_000])
def test_the_memory_of_a_heap_is_the_least_that_holds_it(heap: int) -> None:
    memory = memory_mib(heap)
    assert heap_mib(memory * MI) >= heap
    assert heap_mib((memory - 1) * MI) < heap


def test_a_supervised_application_starts_again_when_it_fails() -> None:
    assert job_of(flags="supervise").retry != job_of().retry


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"executor_memory": "much"}, "--executor-memory: expected an amount such as 4g or 512m, got 'much'"),
        (
            {"executor_cores": "4", "total_executor_cores": "3"},
            r"--total-executor-cores: 3 cores hold no executor of 4 \(--executor-cores\)",
        ),
        ({"executor_cores": "0"}, "--executor-cores: expected a number above 0, got '0'"),
        ({"conf": ("x=1",)}, r"--conf: expected spark.KEY=VALUE, got 'x=1'"),
        ({"conf": ("spark.dynamicAllocation.enabled=true",)}, "give spark.dynamicAllocation.maxExecutors too"),
        ({"conf": DYNAMIC, "total_executor_cores": "4"}, "maxExecutors says how many executors the job may have"),
        (
            {"conf": (*DYNAMIC, "spark.dynamicAllocation.executorAllocationRatio=0.5")},
            "follows from executors and gang",
        ),
        ({"conf": (*DYNAMIC, "spark.dynamicAllocation.minExecutors=9")}, "8 is less than the 9 at first, or at least"),
        (
            {"conf": (*DYNAMIC, "spark.dynamicAllocation.maxExecutors=1000", "spark.dynamicAllocation.minExecutors=7")},
            "7 of 1000 is no whole percent: take 10 or 20",
        ),
        ({"conf": ("spark.yarn.queue=x",)}, "spark.yarn.queue: not supported: is of YARN"),
        ({"app": "a.jar"}, "a.jar is a jar: name its main class with --class"),
    ],
)
def test_what_has_no_place_in_a_job_is_refused_by_name(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        job_of(**given)  # type: ignore[arg-type]


def test_dynamic_allocation_that_is_off_is_no_problem() -> None:
    assert job_of(conf=("spark.dynamicAllocation.enabled=false",)).groups[1].count == 2


def test_without_a_minimum_it_is_the_smallest_that_a_percent_says() -> None:
    job = job_of(conf=("spark.dynamicAllocation.enabled=true", "spark.dynamicAllocation.maxExecutors=250"))
    assert (job.groups[1].floor, job.gang.initial_tasks) == (3, 4)


@pytest.mark.parametrize(("count", "percent"), [(25, 28), (250, 1), (8, 100), (3, 33)])
def test_spark_keeps_as_many_executors_as_start_together(count: int, percent: int) -> None:
    spark = {"app": "a.py", "executors": {"count": count}}
    gang = {"min": f"{percent}%", "initial": 1 + count}
    (job,) = parse_job_file(json.dumps({"name": "a", "gang": gang, "spark": spark}), "job")
    assert conf_of(job)["spark.dynamicAllocation.minExecutors"] == str(job.groups[1].floor)


@pytest.mark.parametrize(
    ("more", "least", "initial"),
    [
        ((), 1, 1),
        (("spark.dynamicAllocation.minExecutors=0",), 1, 1),
        (("spark.dynamicAllocation.minExecutors=3",), 3, 3),
        (("spark.dynamicAllocation.minExecutors=3", "spark.dynamicAllocation.initialExecutors=5"), 3, 5),
        (("spark.executor.instances=4",), 1, 4),
    ],
)
def test_dynamic_allocation_is_a_job_whose_executors_come_and_go(
    more: tuple[str, ...], least: int, initial: int
) -> None:
    job = job_of(conf=(*DYNAMIC, *more))
    driver, executor = job.groups
    assert (driver.floor, executor.floor, executor.count, job.gang.initial_tasks) == (1, least, 8, 1 + initial)
    assert executor.command == (SPARK_WORKER, str(LEAVES_AFTER_S))
    settings = conf_of(job)
    assert settings["spark.dynamicAllocation.minExecutors"] == str(least)
    assert settings["spark.dynamicAllocation.initialExecutors"] == str(initial)
    assert settings["spark.dynamicAllocation.maxExecutors"] == "8"
    assert settings["spark.dynamicAllocation.shuffleTracking.enabled"] == "true"


def test_a_master_is_a_cluster_of_gosched() -> None:
    assert endpoints_of("gosched://m1:9090,m2:9090") == "m1:9090,m2:9090"
    assert endpoints_of("gosched://") == ""
    with pytest.raises(ConfigError, match="got 'spark://m:7077'"):
        endpoints_of("spark://m:7077")
