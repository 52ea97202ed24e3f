"""The JSON schema of a job file, for the OpenAPI document and editors: of the models, with what may stand in writing.

The models hold values as they are read (bytes, milliseconds); `_WRITTEN` has, by the function that reads a value, what
may be written. Invariant: a function that it lacks is an error, never a wrong schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from gosched.config.jobs.group_model import GroupFile
from gosched.config.jobs.job_model import PRIORITY_CLASSES, JobFile
from gosched.core.limits import MAX_PRIORITY
from gosched.core.rules.isolation import RLIMITS
from gosched.core.sharing import BUILT_IN

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string", "minLength": 1}
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_AMOUNT: Schema = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "number", "minimum": 0}]}
_MEMORY: Schema = {
    "anyOf": [{"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?([kMGTP]i?B?|KiB?|B)$"}, {"const": 0}],
    "examples": ["1.5Gi"],
}
_DURATION: Schema = {
    "anyOf": [{"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"}, {"const": 0}],
    "examples": ["1h30m"],
}
_LIMIT: Schema = {"type": ["string", "integer"]}


def _one_or_list(inner: Schema) -> Schema:
    return {"anyOf": [inner, inner["items"]]} if "items" in inner else inner


def _resources(inner: Schema) -> Schema:
    known = {key: inner["properties"][key] for key in BUILT_IN}
    return {**inner, "properties": known, "additionalProperties": {"type": ["string", "integer"]}}


#: By the name of the function that reads a value; a function is given the schema of what is read.
_WRITTEN: Mapping[str, Schema | Callable[[Schema], Schema]] = {
    "duration_ms": _DURATION,
    "memory_bytes": _MEMORY,
    "cpu_millis": {**_AMOUNT, "examples": [2, "500m"]},
    "gpu_millis": {**_AMOUNT, "examples": [2, 0.5]},
    "moment_ms": {"type": "string", "format": "date-time"},
    "string_map": {"type": "object", "additionalProperties": _SCALAR},
    "text": _SCALAR,
    "word": _TEXT,
    "_after": {"type": "object", "additionalProperties": {"enum": ["success", "failure", "any"]}},
    "_causes": _one_or_list,
    "_gpus": lambda inner: {"anyOf": [*_AMOUNT["anyOf"], inner], "examples": [1, "h100:8"]},
    "_hugepages": {"type": "object", "additionalProperties": _MEMORY},
    "_image": _TEXT,
    "_items": _one_or_list,
    "_listed": _one_or_list,
    "_matrix": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "array", "items": _SCALAR}},
    "_member_floor": {
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^(all|[1-9][0-9]?%|100%)$"}]
    },
    "_path": {"type": "string", "pattern": "^/"},
    "_priority": {
        "anyOf": [{"type": "integer", "minimum": 0, "maximum": MAX_PRIORITY}, {"enum": list(PRIORITY_CLASSES)}]
    },
    "_range": {"type": "string", "pattern": "^[0-9]{1,9}-[0-9]{1,9}(:[0-9]{1,9})?$", "examples": ["0-999"]},
    "_rlimits": {
        "type": "object",
        "propertyNames": {"enum": list(RLIMITS)},
        "additionalProperties": {"anyOf": [_LIMIT, {"type": "array", "items": _LIMIT, "minItems": 2, "maxItems": 2}]},
    },
    "_run": {"anyOf": [_TEXT, {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1}]},
    "_share": {"type": ["number", "string"]},
    "_signal": {"type": ["string", "integer"], "examples": ["SIGUSR1"]},
    "_umask": {"type": ["string", "integer"], "examples": ["022"]},
    "_user": _TEXT,
    "_words": _one_or_list,
    "ResourcesFile._own_names": _resources,
    "VolumeFile._from_text": lambda inner: {
        "anyOf": [{**inner, "additionalProperties": False}, {"type": "string", "pattern": "^/[^:]*:/"}],
        "additionalProperties": True,  # else pydantic forbids all: outside of `anyOf` no property is known
    },
}


def job_schema() -> Schema:
    """Return the schema of one job. Keys of a task group may stand at the top, for a job of one group."""
    job, group = (_schema(model) for model in (JobFile, GroupFile))
    flat = {key: value for key, value in group["properties"].items() if key not in job["properties"]}
    return {
        "title": "JobFile",
        "type": "object",
        "description": "A job as a job file says it: either with `run` and the other keys of one task group, or with"
        " `tasks`, or with `spark`.",
        "properties": {**job["properties"], **flat},
        "required": ["name"],
        "additionalProperties": False,
        "anyOf": [{"required": [key]} for key in ("run", "tasks", "spark")],
    }


def _schema(model: type[JobFile] | type[GroupFile]) -> Schema:
    made = model.model_json_schema(schema_generator=_AsWritten)
    schema: Schema = _inlined(made, made.get("$defs", {}))
    return schema


class _AsWritten(GenerateJsonSchema):
    """Schemas of what is written, where a function reads it."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        name = getattr(schema["function"]["function"], "__qualname__", "")
        if name not in _WRITTEN:
            raise KeyError(f"what may be written where {name} reads it is not in _WRITTEN")
        written = _WRITTEN[name]
        if not callable(written):
            return dict(written)
        inner = self.generate_inner(schema["schema"])
        if "$ref" in inner:  # of a model: the words of its fields are here
            inner = self.get_schema_from_definitions(inner["$ref"]) or inner
        return written(inner)


def _inlined(value: Any, models: Mapping[str, Schema]) -> Any:
    """Return a schema without references, without titles but those of models, and without defaults, which are values
    as they are read."""
    if isinstance(value, list):
        return [_inlined(item, models) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("$ref"), str):
        return _inlined(models[value["$ref"].rpartition("/")[2]], models)
    is_model = value.get("type") == "object" and "properties" in value
    left_out = {"$defs", "default", "ge", *(() if is_model else ("title",))}
    return {
        key: {name: _inlined(item, models) for name, item in inner.items()}
        if key == "properties"
        else _inlined(inner, models)
        for key, inner in value.items()
        if key not in left_out
    }
