"""The schema of each document follows from the types of its record, and says what is in it."""

from __future__ import annotations

import json
import pkgutil
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest

from gosched.api import json as json_package
from gosched.api.json import cluster, explanations, jobs, usage
from gosched.api.json.cluster import queue_json
from gosched.api.json.document import Document
from gosched.api.json.explanations import explanation_json
from gosched.api.json.jobs import job_json
from gosched.api.json.reservations import reservation_json
from gosched.api.json.status import status_json
from tests.api.test_json import RECORDED

_TYPES = {"string": str, "integer": int, "number": int | float, "boolean": bool, "null": type(None)}
_SCHEMAS = {
    "status": status_json,
    "job": jobs.job_json,
    "job of an array": jobs.job_json,
    "node": cluster.node_json,
    "queue": cluster.queue_json,
    "quota": cluster.quota_json,
    "explanation": explanations.explanation_json,
    "plan": explanations.plan_json,
    "job with tasks": jobs.job_with_tasks,
    "job that waits": jobs.job_with_tasks,
    "node usage": usage.node_usage_json,
    "task usage": usage.task_usage_json,
}


def problems(value: Any, schema: dict[str, Any], at: str = "$") -> list[str]:
    """Return what a value has that its schema does not say, and the other way round."""
    if "anyOf" in schema:
        found = [problems(value, one, at) for one in schema["anyOf"]]
        return [] if [] in found else found[0]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{at}: {value!r} is none of {schema['enum']}"]
    kind = schema["type"]
    if kind == "array":
        return [p for n, item in enumerate(value) for p in problems(item, schema["items"], f"{at}[{n}]")]
    if kind == "object":
        return _of_object(value, schema, at)
    kinds = [_TYPES[name] for name in ([kind] if isinstance(kind, str) else kind)]
    fits = any(isinstance(value, k) and not (k is not bool and isinstance(value, bool)) for k in kinds)
    return [] if fits else [f"{at}: {value!r} is no {kind}"]


def _of_object(value: Any, schema: dict[str, Any], at: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{at}: {value!r} is no object"]
    own, more = schema.get("properties", {}), schema.get("additionalProperties")
    found = [f"{at}: {name} is missing" for name in schema.get("required", []) if name not in value]
    for name, item in value.items():
        said = own.get(name, more)
        found += problems(item, said, f"{at}.{name}") if said else [f"{at}: {name} is not in the schema"]
    return found


@pytest.mark.parametrize("variant", ["empty", "whole numbers", "fractions"])
@pytest.mark.parametrize("name", _SCHEMAS)
def test_a_document_is_what_its_schema_says(name: str, variant: str) -> None:
    recorded = json.loads(RECORDED.read_text())[f"{name}, {variant}"]
    assert problems(recorded, _SCHEMAS[name].schema()) == []


def test_each_thing_that_is_reserved_is_what_the_schema_says() -> None:
    recorded = json.loads(RECORDED.read_text())["reservations, fractions"]
    assert {one["kind"] for one in recorded} == {"window", "start", "fence"}
    assert [problem for one in recorded for problem in problems(one, reservation_json.schema())] == []


def test_the_check_finds_what_a_schema_does_not_say() -> None:
    recorded = json.loads(RECORDED.read_text())["status, fractions"]
    assert problems({**recorded, "jobs": "many"}, status_json.schema()) == ["$.jobs: 'many' is no integer"]
    assert problems({**recorded, "more": 1}, status_json.schema()) == ["$: more is not in the schema"]
    del recorded["masters"][1]["role"]
    assert problems(recorded, status_json.schema()) == ["$.masters[1]: role is missing"]


def test_enums_are_said_by_name_and_moments_as_such() -> None:
    job = job_json.schema()["properties"]
    assert job["state"]["enum"][1:3] == ["PENDING", "RUNNING"]
    assert job["ended_at"] == {"type": ["string", "null"], "format": "date-time"}
    assert job["estimate_s"] == {"type": "number"}
    assert queue_json.schema()["properties"]["order"]["enum"] == ["", "fifo", "priority", "fair", "deadline"]
    assert "reason" in explanation_json.schema()["required"]


def test_a_member_whose_field_is_gone_or_has_no_shape_is_an_error() -> None:
    @dataclass(frozen=True)
    class Record:
        data: bytes

    with pytest.raises(TypeError, match="Record has no size"):
        Document(Record, "size").schema()
    with pytest.raises(TypeError, match="Record: data has no shape in JSON"):
        Document(Record).schema()


def test_every_document_can_be_worked_out() -> None:
    """A document is worked out when it is first used; here all of them are."""
    modules = [import_module(f"gosched.api.json.{found.name}") for found in pkgutil.iter_modules(json_package.__path__)]
    documents = {id(found): found for module in modules for found in vars(module).values() if type(found) is Document}
    assert len(documents) > 20
    assert all(document.schema()["properties"] for document in documents.values())
