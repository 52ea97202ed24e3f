"""The reference of REST, from the OpenAPI document that a master serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI

from gosched.master.http.app import ROUTERS
from gosched.master.http.openapi import openapi_document
from tools.docs.markdown import code, page, table

Schema = Mapping[str, Any]
_REF = "#/components/schemas/"
_INTRO = """\
Each master serves REST at `server.http_addr`, and this document as `/openapi.json`. How to call it, with examples:
[REST](../guides/rest.md) and [jobs over REST](../guides/rest-jobs.md). Errors are problems (RFC 9457): see
[codes](codes.md#why-a-call-is-refused)."""
_JOB_FILE = "JobFile"


def rest() -> str:
    """Return the page."""
    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    document: Schema = openapi_document(app)
    parts = [_INTRO]
    by_tag: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            by_tag.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    for tag, operations in by_tag.items():
        parts.append(f"## {tag.capitalize()}")
        for method, path, operation in operations:
            parts += _operation(method, path, operation)
    parts += ["## Records", "Amounts of memory are bytes, moments are RFC 3339 with an offset."]
    for name, schema in sorted(document["components"]["schemas"].items()):
        if _is_shown(name):
            parts += [f"### {name}", *_record(schema)]
    return page("REST", *parts)


def _is_shown(name: str) -> bool:
    """Return whether a schema has a section: what stands in a job file has a page of its own."""
    return (not name.endswith("File") and name not in ("Gpus", "SparkResources")) or name in ("QueueFile",)


def _operation(method: str, path: str, operation: Schema) -> Iterator[str]:
    yield f"### {method} {path}"
    answers = [
        f"{status}: {_type(schema)}"
        for status, response in operation["responses"].items()
        if status != "default"
        for schema in [next(iter(response.get("content", {}).values()), {}).get("schema", {})]
    ]
    body = next(iter(operation.get("requestBody", {}).get("content", {}).values()), {}).get("schema")
    said = [f"{operation['summary']}.", f"Body: {_type(body)}." if body else "", f"Answers {', '.join(answers)}."]
    yield " ".join(part for part in said if part)
    rows = [_parameter(one) for one in operation.get("parameters", [])]
    if rows:
        yield table(("parameter", "in", "type", "meaning"), rows)


def _parameter(one: Schema) -> tuple[str, ...]:
    schema = one["schema"]
    default = schema.get("default")
    shown = f", {code(str(default).lower() if isinstance(default, bool) else str(default))} by default"
    kind = _type(schema) + (shown if default not in (None, "", []) else "")
    return code(one["name"]), one["in"], kind, one.get("description", "")


def _record(schema: Schema) -> Iterator[str]:
    if "description" in schema:
        yield schema["description"]
    required = schema.get("required", [])
    rows = [
        (code(name), _type(inner), "" if name in required else "no", inner.get("description", ""))
        for name, inner in schema.get("properties", {}).items()
    ]
    yield table(("field", "type", "always there", "meaning"), rows)


def _type(schema: Schema | None) -> str:
    """Return the words of a schema, with links to records."""
    if not schema:
        return "anything"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        if name == _JOB_FILE:
            return "[a job file](job-file.md)"
        return f"[{name}](#{name.lower()})" if _is_shown(name) else code(name)
    if "enum" in schema:
        return " \\| ".join(code(str(value)) for value in schema["enum"])
    if "const" in schema:
        return code(str(schema["const"]))
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {_type(schema.get('items'))}"
    if kind == "object" and "properties" in schema:
        return "{" + ", ".join(code(name) for name in schema["properties"]) + "}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    return f"{kind}, {schema['format']}" if "format" in schema else str(kind)
