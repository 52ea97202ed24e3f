"""JSON of Spark's monitoring API as records.

Invariant: a field that is missing or null has the default of its kind, one that nobody asks for is not looked at, and
one of another type is an error that names it.
"""

from __future__ import annotations

import json
from typing import Any

from gosched.config.errors import shown
from gosched.integrations.spark.errors import SparkBadAnswer
from gosched.integrations.spark.records import SparkApplication, SparkExecutor, SparkStage

_MAX_COUNT = 1 << 62


def parse(body: bytes, at: str) -> Any:
    """Return the JSON of an answer. Raises SparkBadAnswer."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        start = body[:60].decode(errors="replace")
        raise SparkBadAnswer(
            f"{at}: the answer is no JSON but {shown(start)}: is this the UI of an application, and has it begun?"
        ) from error


def read_applications(answer: Any, at: str) -> tuple[SparkApplication, ...]:
    return tuple([_application(one) for one in _objects(answer, at)])


def read_application(answer: Any, at: str) -> SparkApplication:
    return _application(Object(answer, at))


def read_stages(answer: Any, at: str) -> tuple[SparkStage, ...]:
    return tuple([_stage(one) for one in _objects(answer, at)])


def read_executors(answer: Any, at: str) -> tuple[SparkExecutor, ...]:
    return tuple([_executor(one) for one in _objects(answer, at)])


def read_settings(answer: Any, at: str) -> dict[str, str]:
    """Return the settings of an application. Spark has blackened those that look like secrets."""
    pairs = Object(answer, at).list("sparkProperties")
    if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise SparkBadAnswer(f"{at}.sparkProperties: expected pairs of a key and a value")
    return {key: "" if value is None else str(value) for key, value in pairs}


class Object:
    """An object of an answer. `at`: where it stands, for errors."""

    def __init__(self, values: Any, at: str) -> None:
        if not isinstance(values, dict):
            raise SparkBadAnswer(f"{at}: expected an object, got {shown(values)}")
        self._values = values
        self.at = at

    def text(self, key: str) -> str:
        value = self._values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def needed(self, key: str) -> str:
        """Return a text that an answer without is no answer."""
        found = self.text(key)
        if not found:
            raise SparkBadAnswer(f"{self.at} has no {key}: is this a server of Spark?")
        return found

    def count(self, key: str) -> int:
        """Return a whole number; 0 for a negative one: Spark's way to say that there is none."""
        value = self._values.get(key)
        if value is None:
            return 0
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(key, "a whole number")
        return max(0, min(value, _MAX_COUNT))

    def flag(self, key: str) -> bool:
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return bool(value)

    def list(self, key: str) -> list[Any]:
        value = self._values.get(key)
        if value is not None and not isinstance(value, list):
            raise self._wrong(key, "a list")
        return value or []

    def _wrong(self, key: str, kind: str) -> SparkBadAnswer:
        return SparkBadAnswer(f"{self.at}.{key}: expected {kind}, got {shown(self._values[key])}")


def _objects(answer: Any, at: str) -> list[Object]:
    if not isinstance(answer, list):
        raise SparkBadAnswer(f"{at}: expected a list, got {shown(answer)}")
    return [Object(one, f"{at}[{place}]") for place, one in enumerate(answer)]


def _application(app: Object) -> SparkApplication:
    attempts = app.list("attempts")  # the newest first; none while a history server reads the first one's log
    newest = Object(attempts[0] if attempts else {}, f"{app.at}.attempts[0]")
    return SparkApplication(
        id=app.needed("id"),
        name=app.text("name"),
        user=newest.text("sparkUser"),
        version=newest.text("appSparkVersion"),
        started_ms=newest.count("startTimeEpoch"),
        ended_ms=newest.count("endTimeEpoch"),  # -1 of one that runs
        completed=newest.flag("completed"),
    )


def _stage(stage: Object) -> SparkStage:
    return SparkStage(
        id=stage.count("stageId"),
        attempt=stage.count("attemptId"),
        status=stage.needed("status"),
        name=stage.text("name"),
        tasks=stage.count("numTasks"),
        done=stage.count("numCompleteTasks"),
        running=stage.count("numActiveTasks"),
        failed=stage.count("numFailedTasks"),
    )


def _executor(executor: Object) -> SparkExecutor:
    return SparkExecutor(
        id=executor.needed("id"),
        address=executor.text("hostPort"),
        active=executor.flag("isActive"),
        cores=executor.count("totalCores"),
        running_tasks=executor.count("activeTasks"),
        done_tasks=executor.count("completedTasks"),
        failed_tasks=executor.count("failedTasks"),
        memory_used_bytes=executor.count("memoryUsed"),
        memory_bytes=executor.count("maxMemory"),
    )
