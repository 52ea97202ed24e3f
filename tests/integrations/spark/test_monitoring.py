"""The client of Spark's monitoring API, beside servers that misbehave. The real one is in tests/integration."""

from __future__ import annotations

from typing import Any

import pytest

from gosched.integrations.spark.errors import (
    SparkBadAnswer,
    SparkDenied,
    SparkError,
    SparkMisused,
    SparkNotFound,
    SparkUnreachable,
)
from gosched.integrations.spark.monitoring import SparkClient
from gosched.integrations.spark.records import SparkApplication, SparkExecutor, SparkStage
from tests.integrations.yarn.scripted import Answer, serving
from tests.ports import HeldPort

RUNS = {  # what Spark 4.3.0 said, shortened
    "id": "app-1",
    "name": "words",
    "attempts": [
        {
            "startTime": "2026-11-25T19:45:09.242GMT",
            "duration": 16188,
            "sparkUser": "root",
            "completed": False,
            "appSparkVersion": "4.3.0",
            "startTimeEpoch": 1795635909242,
            "endTimeEpoch": -1,
        }
    ],
}
STAGE = {"status": "ACTIVE", "stageId": 2, "attemptId": 1, "numTasks": 8, "numCompleteTasks": 3, "numActiveTasks": 2}


def test_answers_are_records() -> None:
    executor = {"id": "0", "hostPort": "n1:4321", "isActive": True, "totalCores": 2, "maxMemory": 455501414}
    settings = {"sparkProperties": [["spark.master", "spark://n1:7077"], ["spark.x", None]], "runtime": {}}
    with serving(*map(Answer, ([RUNS], RUNS, [STAGE], [executor], settings))) as script:
        client = SparkClient(script.url)
        (app,) = client.applications(limit=5)
        assert app == client.application("app-1")
        (stage,) = client.stages("app-1", statuses=("active", "pending"))
        (found,) = client.executors("app-1")
        assert client.settings("a/b") == {"spark.master": "spark://n1:7077", "spark.x": ""}
    assert app == SparkApplication(
        id="app-1", name="words", user="root", version="4.3.0", started_ms=1795635909242, ended_ms=0, completed=False
    )
    assert stage == SparkStage(id=2, attempt=1, status="ACTIVE", name="", tasks=8, done=3, running=2, failed=0)
    assert found == SparkExecutor(
        id="0",
        address="n1:4321",
        active=True,
        cores=2,
        running_tasks=0,
        done_tasks=0,
        failed_tasks=0,
        memory_used_bytes=0,
        memory_bytes=455501414,
    )
    assert [path for _, path, *_ in script.asked] == [
        "/api/v1/applications?limit=5",
        "/api/v1/applications/app-1",
        "/api/v1/applications/app-1/stages?status=active&status=pending",
        "/api/v1/applications/app-1/executors",
        "/api/v1/applications/a%2Fb/environment",
    ]


@pytest.mark.parametrize("attempts", [None, [], [{}], [{"sparkUser": None, "unknown": [1]}]])
def test_what_is_missing_or_null_has_its_default(attempts: Any) -> None:
    with serving(Answer([{"id": "app-1", "attempts": attempts, "unknown": {}}])) as script:
        (app,) = SparkClient(script.url).applications()
    assert (app.id, app.name, app.user, app.started_ms, app.completed) == ("app-1", "", "", 0, False)


@pytest.mark.parametrize(
    ("answer", "kind", "problem"),
    [
        (Answer(b"Spark is starting up. Please wait."), SparkBadAnswer, "no JSON but 'Spark is starting up"),
        (Answer(b"[" * 100_000), SparkBadAnswer, "no JSON"),
        (Answer({}), SparkBadAnswer, "expected a list"),
        (Answer([[]]), SparkBadAnswer, r"stages\[0\]: expected an object"),
        (Answer([{**STAGE, "numTasks": "8"}]), SparkBadAnswer, r"\[0\]\.numTasks: expected a whole number, got '8'"),
        (Answer([{**STAGE, "status": None}]), SparkBadAnswer, "has no status: is this a server of Spark"),
        (Answer([STAGE] * 9000), SparkBadAnswer, "larger than 512 KiB: ask for less, by statuses"),
        (Answer(b"no such app: app-1", status=404), SparkNotFound, "'no such app: app-1'.*before 1.4"),
        (Answer(b"<html>Forbidden</html>", status=403), SparkDenied, "answers 403: it wants to know who asks"),
        (Answer(b"", status=503), SparkUnreachable, "answers 503: ask again"),
        (Answer(b"", status=302, headers={"Location": "https://x/"}), SparkBadAnswer, "names 'https://x/'"),
        (Answer(b"broken", status=500), SparkBadAnswer, "answers 500: 'broken'"),
        (Answer([STAGE], lacks=9), SparkUnreachable, "does not run, or is slow"),
        (Answer(hangs=True), SparkUnreachable, "no whole answer within 0.3 s"),
    ],
)
def test_bad_answers_are_errors_that_say_what_to_do(answer: Answer, kind: type[SparkError], problem: str) -> None:
    timeout_s = 0.3 if answer.hangs else 10
    with serving(answer) as script, pytest.raises(kind, match=problem):
        SparkClient(script.url, timeout_s=timeout_s, max_bytes=512 << 10).stages("app-1")


def test_a_server_that_is_down_is_named() -> None:
    port = HeldPort()
    with pytest.raises(SparkUnreachable, match=f"http://{port.address}/api/v1/applications: ."):
        SparkClient(port.address).applications()


@pytest.mark.parametrize("url", ["", "ftp://h", "http://", "http://h:x", "http://u:p@h", "http://h/?a=1", "[::1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SparkMisused, match="expected http://HOST:PORT"):
        SparkClient(url)


@pytest.mark.parametrize("id", ["", ".", ".."])
def test_what_is_no_id_is_refused(id: str) -> None:
    with pytest.raises(SparkMisused, match="no id of an application"):
        SparkClient("h:1").stages(id)
