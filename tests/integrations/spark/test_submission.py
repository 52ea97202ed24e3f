"""The client of a standalone master, beside masters that misbehave. The real one is in tests/integration."""

from __future__ import annotations

import json

import pytest

from gosched.integrations.spark.errors import (
    SparkBadAnswer,
    SparkError,
    SparkMisused,
    SparkNotFound,
    SparkRefused,
    SparkTimedOut,
    SparkUnreachable,
)
from gosched.integrations.spark.records import SparkDriver, SparkSubmission
from gosched.integrations.spark.submission import SparkMaster
from tests.integrations.yarn.scripted import Answer, serving

APP = SparkSubmission(app="file:/a.jar", main_class="org.A", args=("1",), conf={"spark.x": "y"}, env={"A": "b"})
RUNS = {"success": True, "driverState": "RUNNING", "workerHostPort": "n1:1", "unknown": []}


def test_a_submission_is_what_spark_takes() -> None:
    with serving(Answer({"success": True, "submissionId": "driver-1", "message": None})) as script:
        assert SparkMaster(script.url).submit(APP) == "driver-1"
    ((method, path, body, headers),) = script.asked
    assert (method, path, headers["Content-Type"]) == (
        "POST",
        "/v1/submissions/create",
        "application/json;charset=UTF-8",
    )
    request = json.loads(body)
    assert request.pop("clientSparkVersion")
    assert request == {
        "action": "CreateSubmissionRequest",
        "appResource": "file:/a.jar",
        "mainClass": "org.A",
        "appArgs": ["1"],
        "environmentVariables": {"A": "b"},
        "sparkProperties": {
            "spark.app.name": "org.A",
            "spark.jars": "file:/a.jar",
            "spark.x": "y",
            "spark.submit.deployMode": "cluster",
        },
    }


@pytest.mark.parametrize(
    ("answer", "kind", "problem"),
    [
        (Answer({"success": False, "message": "Current state is not alive: STANDBY."}), SparkRefused, "STANDBY"),
        (Answer({"success": False}), SparkRefused, "refused without a word"),
        (Answer({"success": True}), SparkBadAnswer, "has no submissionId"),
        (Answer({"success": "yes", "submissionId": "d"}), SparkBadAnswer, "success: expected true or false"),
        (Answer([]), SparkBadAnswer, "expected an object"),
        (Answer({"message": "Bad:\n\tat java"}, status=400), SparkBadAnswer, "answers 400: 'Bad:'$"),
        (Answer({"message": [1]}, status=500), SparkBadAnswer, "answers 500"),
        (Answer(b'{"message', status=500), SparkBadAnswer, "answers 500$"),
        (Answer({}, status=503), SparkUnreachable, "may have been submitted: look at the master's page first"),
        (Answer({}, lacks=5), SparkUnreachable, "may have been submitted"),
    ],
)
def test_a_submission_without_a_good_answer_is_an_error(answer: Answer, kind: type[SparkError], problem: str) -> None:
    with serving(answer) as script, pytest.raises(kind, match=problem):
        SparkMaster(script.url).submit(APP)
    assert len(script.asked) == 1, "sent once, whatever happens"


def test_a_kill_is_repeated_until_the_driver_has_ended() -> None:
    killed = {**RUNS, "driverState": "KILLED", "message": "by  a user"}
    with serving(*map(Answer, (RUNS, {"success": False}, RUNS, {"success": True}, killed))) as script:
        found = SparkMaster(script.url).kill("driver-1")
    assert found == SparkDriver(id="driver-1", state="KILLED", worker="n1:1", message="by a user")
    assert [path.split("/")[3] for _, path, *_ in script.asked] == ["status", "kill", "status", "kill", "status"]


def test_a_kill_that_takes_too_long_is_an_error() -> None:
    with serving(Answer(RUNS)) as script, pytest.raises(SparkTimedOut, match="driver-1 is RUNNING 0 s after"):
        SparkMaster(script.url).kill("driver-1", timeout_s=0)


def test_a_driver_that_is_not_known_is_an_error() -> None:
    with serving(Answer({"success": False, "submissionId": "driver-1"})) as script:
        with pytest.raises(SparkNotFound, match="never submitted, or is forgotten"):
            SparkMaster(script.url).driver("driver-1")
        with pytest.raises(SparkMisused, match="no id of a driver"):
            SparkMaster(script.url).driver("..")
