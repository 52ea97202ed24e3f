"""What an agent asks of applications, beside a UI that says what a test tells it to. The real one is in
tests/integration/test_spark.py."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gosched.agent.spark_progress import SparkProgresses, history_address, tasks_each
from gosched.agent.tasks.spool import Spool
from gosched.agent.tasks.task import Task
from gosched.api.spark import SparkProgress, StageProgress
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason
from gosched.core.spec.task_group import SPARK_DRIVER, Runtime
from gosched.wire.codec import to_message
from gosched.wire.v1 import node_pb2
from tests.integrations.yarn.scripted import Answer, Scripted, serving

APPS = [{"id": "app-1", "name": "words"}]
SETTINGS = {"sparkProperties": [["spark.master", "spark://127.0.0.1:29500"]]}
STAGE = {"status": "ACTIVE", "stageId": 2, "name": "count", "numTasks": 8, "numCompleteTasks": 3, "numActiveTasks": 2}


@pytest.fixture
def driver(tmp_path: Path) -> Task:
    (tmp_path / "work" / "spark").mkdir(parents=True)
    order = TaskOrder(
        allocation_id="j/driver/0.1",
        task_id="j/driver/0",
        job_id="j",
        runtime=Runtime.SPARK,
        command=(SPARK_DRIVER, "app.py"),
        env=(("GOSCHED_HOSTS", "127.0.0.1,n2"), ("GOSCHED_TASK_INDEX", "0"), ("MASTER_PORT", "29500")),
    )
    return Task(order=order, spool=Spool(tmp_path), started_at_ms=1)


def listens(task: Task, script: Scripted) -> None:
    (task.spool.path / "work" / "spark" / "ui-port").write_text(script.url.rpartition(":")[2])


def looking_at(*tasks: Task) -> SparkProgresses:
    table: Any = SimpleNamespace(running=lambda: [task for task in tasks if task.ending is None])
    return SparkProgresses(table)


def looks(known: SparkProgresses) -> dict[str, SparkProgress]:
    asyncio.run(known.look())
    return dict(known.now())


def test_an_application_is_asked_for_its_settings_once_and_for_its_stages_each_time(driver: Task) -> None:
    later = [{**STAGE, "numCompleteTasks": 8}, {**STAGE, "stageId": 3, "status": "PENDING"}]
    known = looking_at(driver)
    with serving(*map(Answer, (APPS, SETTINGS, [STAGE], APPS, later))) as script:
        listens(driver, script)
        (first,) = looks(known).values()
        (second,) = looks(known).values()
    assert first == SparkProgress(
        application="app-1",
        ui=script.url,
        history="",
        stages=(StageProgress(id=2, attempt=0, name="count", tasks=8, done=3, running=2, failed=0),),
        more_stages=0,
    )
    assert (second.stages[0].done, len(second.stages), second.more_stages) == (8, 1, 1)
    assert [path.rpartition("/")[2] for _, path, *_ in script.asked] == [
        *("applications?limit=1", "environment", "stages?status=active&status=pending"),
        *("applications?limit=1", "stages?status=active&status=pending"),
    ]
    assert looks(known) == {}  # it does not answer any more


def test_one_whose_executors_come_and_go_says_how_many_have_work(driver: Task) -> None:
    own = [["spark.dynamicAllocation.enabled", "true"], ["spark.executor.cores", "2"]]
    settings = {"sparkProperties": [*SETTINGS["sparkProperties"], *own]}
    later = [STAGE, {**STAGE, "stageId": 3, "numTasks": 2}, {**STAGE, "stageId": 4, "status": "PENDING"}]
    known = looking_at(driver)
    with serving(*map(Answer, (APPS, settings, [STAGE], APPS, later, APPS, []))) as script:
        listens(driver, script)
        said = [looks(known)["j/driver/0.1"].executors for _ in range(3)]
    assert said == [3, 3, 0]  # five tasks by two; a stage that waits, or counts more as done than it has, adds none


@pytest.mark.parametrize(
    ("settings", "each"),
    [
        ({}, 0),
        ({"spark.dynamicAllocation.enabled": "false", "spark.executor.cores": "4"}, 0),
        ({"spark.dynamicAllocation.enabled": "true", "spark.executor.cores": "4"}, 4),
        ({"spark.dynamicAllocation.enabled": "true", "spark.executor.cores": "4", "spark.task.cpus": "2"}, 2),
        ({"spark.dynamicAllocation.enabled": "true", "spark.executor.cores": "1", "spark.task.cpus": "2"}, 1),
        ({"spark.dynamicAllocation.enabled": "true", "spark.executor.cores": "x", "spark.task.cpus": "0"}, 1),
    ],
)
def test_an_executor_runs_as_many_tasks_as_it_has_cores_for(settings: dict[str, str], each: int) -> None:
    assert tasks_each(settings) == each


def test_another_context_of_the_driver_is_another_application(driver: Task) -> None:
    known = looking_at(driver)
    with serving(*map(Answer, (APPS, SETTINGS, [], [{"id": "app-2"}], SETTINGS, []))) as script:
        listens(driver, script)
        assert [looks(known)["j/driver/0.1"].application for _ in range(2)] == ["app-1", "app-2"]


def test_an_application_of_another_master_is_not_believed(driver: Task) -> None:
    with serving(Answer(APPS), Answer({"sparkProperties": [["spark.master", "spark://127.0.0.1:1"]]})) as script:
        listens(driver, script)
        assert looks(looking_at(driver)) == {}
        assert len(script.asked) == 2


def test_whatever_an_application_says_a_heartbeat_can_carry(driver: Task) -> None:
    strange = {**STAGE, "stageId": 1 << 70, "numTasks": 1 << 70, "name": "\x1b[31m\ud800" * 100}
    settings = [["spark.eventLog.enabled", "true"], ["spark.master.ui.historyServerUrl", "http://\ud800"]]
    said = {"sparkProperties": [*SETTINGS["sparkProperties"], *settings]}
    with serving(*map(Answer, ([{"id": "app\n1"}], said, [strange] * 400))) as script:
        listens(driver, script)
        (found,) = looks(looking_at(driver)).values()
    assert to_message(found, node_pb2.SparkProgress).ByteSize() < 2000
    assert (len(found.stages), found.more_stages, found.history) == (8, 392, "")


def test_one_whose_id_is_no_text_says_nothing(driver: Task) -> None:
    with serving(*map(Answer, ([{"id": "\ud800"}], SETTINGS, []))) as script:
        listens(driver, script)
        assert looks(looking_at(driver)) == {}


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "40 40", "99999999", "\u0663", "ui"])
def test_what_is_no_port_is_not_asked(driver: Task, port: str) -> None:
    (driver.spool.path / "work" / "spark" / "ui-port").write_text(port)
    assert looks(looking_at(driver)) == {}


def test_a_link_in_place_of_the_port_is_not_followed(driver: Task, tmp_path: Path) -> None:
    with serving(*map(Answer, (APPS, SETTINGS, []))) as script:
        listens(driver, script)
        own = tmp_path / "work" / "spark" / "ui-port"
        own.rename(tmp_path / "elsewhere")
        own.symlink_to(tmp_path / "elsewhere")
        assert looks(looking_at(driver)) == {}
        assert script.asked == []


def test_one_that_stands_still_is_not_asked(driver: Task) -> None:
    driver.frozen = True
    with serving(*map(Answer, (APPS, SETTINGS, []))) as script:
        listens(driver, script)
        assert looks(looking_at(driver)) == {}
        assert script.asked == []


def test_one_that_has_ended_is_forgotten(driver: Task) -> None:
    known = looking_at(driver)
    with serving(*map(Answer, (APPS, SETTINGS, []))) as script:
        listens(driver, script)
        assert list(looks(known)) == ["j/driver/0.1"]
        driver.ending = driver.failed(Reason.TASK_FAILED, "")
        assert looks(known) == {}


def test_an_address_on_the_history_server_needs_the_server_and_a_log_of_events() -> None:
    server = {"spark.master.ui.historyServerUrl": "https://history:18080/"}
    logs = {"spark.eventLog.enabled": "true"}
    assert history_address({**server, **logs}, "app-1") == "https://history:18080/history/app-1/"
    assert history_address(server, "app-1") == ""
    assert history_address(logs, "app-1") == ""
    assert history_address({**logs, "spark.master.ui.historyServerUrl": "javascript:x"}, "app-1") == ""
