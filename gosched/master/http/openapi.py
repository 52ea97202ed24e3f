"""The OpenAPI document: FastAPI's, with each named schema once among the components, and problems as the errors."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gosched import __version__
from gosched.api.json.values import Json
from gosched.config.jobs.schema import job_schema
from gosched.master.http.problems import problem_schema

_REF = "#/components/schemas/"


def openapi_document(app: FastAPI) -> Json:
    """Return the document of all routes that are in the schema."""
    document = get_openapi(
        title="gosched",
        version=__version__,
        openapi_version="3.1.0",
        summary="Jobs, nodes, queues, quotas, reservations and the cluster itself, as JSON.",
        routes=app.routes,
    )
    components: Json = {}
    _hoisted(job_schema(), components)  # JobFile, to which routes refer
    for path in document.get("paths", {}).values():
        for operation in path.values():
            responses = operation["responses"]
            responses.pop("422", None)  # bad input is 400, a problem as all others
            problem = {"application/problem+json": {"schema": problem_schema}}
            responses["default"] = {"description": "What went wrong", "content": problem}
    document["paths"] = _hoisted(document.get("paths", {}), components)
    document["components"] = {"schemas": components}
    return document


def _hoisted(value: Any, components: Json) -> Any:
    """Return the value with a reference in place of each schema that has a title, which goes into `components`.
    Raises ValueError for two schemas of one title."""
    if isinstance(value, list):
        return [_hoisted(item, components) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {key: _hoisted(item, components) for key, item in value.items()}
    name = value.get("title")
    if not isinstance(name, str) or "type" not in value or not _is_object(value):
        return inner
    if components.setdefault(name, inner) != inner:
        raise ValueError(f"two schemas are called {name}")
    return {"$ref": _REF + name}


def _is_object(schema: Json) -> bool:
    return schema["type"] == "object" and "properties" in schema
