"""What the command line says in place of a job file's keys: `--set KEY=VALUE`, and flags that stand for a key.

Invariant: an override changes the plain values of a document alone, with its flag as their origin, so that whatever is
wrong with it is found by the same parser as in a file, and said with the flag.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

from gosched.config.errors import ConfigError, shown, shown_key, suggestion
from gosched.config.jobs.draft import Override
from gosched.config.jobs.group_model import GroupFile
from gosched.config.jobs.spark_model import SparkFile
from gosched.config.tree import MAX_DEPTH, Document, Path, dotted, read_documents
from gosched.config.validation import string_map

_WORD = re.compile(r"([^\[\]]+)((?:\[[0-9]{1,4}\])*)")
_GROUP_KEYS = frozenset(GroupFile.model_fields)
_OF_EVERY_GROUP = frozenset({"env", "working_dir", "user"})  # the rest differs from group to group


def read_set(text: str) -> Override:
    """Read `retry.max=5`: a path of keys, and a value as YAML; without a value the key is left out. Raise
    ConfigError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set: expected KEY=VALUE such as count=4 or retry.max=5, got {shown(text)}")
    origin = f"--set {key.strip()}"
    documents = read_documents(value, origin)
    if len(documents) > 1:
        raise ConfigError(f"{origin}: expected one value, got several YAML documents")
    path = _path(key.strip())
    if len(path) > MAX_DEPTH:
        raise ConfigError(f"--set {shown_key(key.strip())}: nested more than {MAX_DEPTH} deep")
    return Override(path=path, value=documents[0].value if documents else None, origin=origin)


def overridden(document: Document, overrides: Sequence[Override]) -> Document:
    """Return the document of a job with the overrides in place. Raise ConfigError."""
    if not overrides or not isinstance(document.value, dict):  # what is no job is an error of the parser
        return document
    value, origins = deepcopy(document.value), dict(document.origins)
    for override in overrides:
        for path in _places(value, document.source, override):
            _put(value, origins, path, override)
    return replace(document, value=value, origins=origins)


def _path(text: str) -> Path:
    """Split a dotted path. Keys that users choose may have dots: what is left of the path is one key where the schema
    has such a mapping, as `labels.example.org/team` and `spark.conf.spark.sql.shuffle.partitions`."""
    path: list[str | int] = []
    words, schema = text.split("."), _schema()
    while words:
        known = _keys_of(schema)
        if not known.get("properties") and not _keys_of(known.get("additionalProperties", {})):
            return (*path, ".".join(words)) if known else (*path, *words)
        found = _WORD.fullmatch(words.pop(0))
        if not found:
            raise ConfigError(f"--set {text}: expected keys with dots between them, such as retry.max or volumes[0].to")
        path.append(found[1])
        schema = known.get("properties", {}).get(found[1]) or known.get("additionalProperties") or {}
        for index in re.findall("[0-9]+", found[2]):
            path.append(int(index))
            schema = _items_of(schema)
    return tuple(path)


@cache
def _schema() -> Mapping[str, Any]:
    from gosched.config.jobs.schema import job_schema  # slow to import, and only paths need it

    return job_schema()


def _keys_of(schema: Any) -> Mapping[str, Any]:
    """Return that alternative of a schema that is a mapping; empty: none is."""
    if not isinstance(schema, dict):
        return {}
    alternatives = [schema, *schema.get("anyOf", ())]
    return next((a for a in alternatives if a.get("properties") or isinstance(a.get("additionalProperties"), dict)), {})


def _items_of(schema: Mapping[str, Any]) -> Any:
    return next((a["items"] for a in (schema, *schema.get("anyOf", ())) if "items" in a), {})


def _places(job: dict[str, Any], source: str, override: Override) -> list[Path]:
    """Return where an override belongs: a job has its groups at the top, in `tasks`, or in `spark`."""
    path, tasks, key = override.path, job.get("tasks"), override.path[0]
    if key not in _GROUP_KEYS or not ("spark" in job or isinstance(tasks, dict)):
        _check_group(job, source, override)
        return [path]
    if "spark" in job:
        if override.of_group and key == "count":
            return [("spark", "executors", "count")]
        if override.of_group and key in SparkFile.model_fields:
            return [("spark", *path)]
        if key != "resources":  # what spark does not have is an error of the parser
            return [path]
        example = f"--set spark.executors.{dotted(path)}=..., or --set spark.driver.{dotted(path)}=..."
        raise ConfigError(f"{override.origin}: {source} has a driver and executors; say of which: {example}")
    if override.of_group and tasks and (len(tasks) == 1 or key in _OF_EVERY_GROUP):
        return [("tasks", group, *path) for group in tasks]
    groups = ", ".join(tasks or ())
    example = f"--set tasks.{next(iter(tasks or ()), 'GROUP')}.{dotted(path)}=..."
    raise ConfigError(f"{override.origin}: {source} has the task groups {groups}; say of which: {example}")


def _check_group(job: dict[str, Any], source: str, override: Override) -> None:
    """Refuse a key of a task group that the file does not have: it would be a new group, which was hardly meant."""
    tasks, path = job.get("tasks"), override.path
    if path[0] != "tasks" or len(path) < 3 or path[1] in (tasks or ()):
        return
    if not isinstance(tasks, dict):
        example = f"--set {dotted(path[2:])}=..."
        raise ConfigError(f"{override.origin}: {source} has no tasks; its keys stand at the top: {example}")
    near = suggestion(str(path[1]), tasks) or f"; it has {', '.join(tasks)}"
    raise ConfigError(f"{override.origin}: {source} has no task group {path[1]}{near}")


def _put(job: dict[str, Any], origins: dict[Path, str], path: Path, override: Override) -> None:
    branch = _branch(job, path, override)
    if branch is None:
        return
    last, value = path[-1], override.value
    total = _sum(branch.get(last), value) if override.adds and isinstance(branch, dict) else None
    if total is not None:
        branch[last] = total
        added = value if isinstance(value, dict) else range(len(total) - len(value), len(total))
        origins.update({(*path, inner): override.origin for inner in added})
        return
    for inner in [known for known in origins if known[: len(path)] == path]:
        del origins[inner]
    if value is None and isinstance(branch, dict):
        branch.pop(last, None)
        return
    branch[last] = value
    origins[path] = override.origin


def _branch(job: dict[str, Any], path: Path, override: Override) -> Any:
    """Return the mapping or list that holds the last part of the path, made where it is missing; None: it is missing,
    and there is nothing to put there."""
    branch: Any = job
    for place, part in enumerate(path):
        _check_part(branch, part, dotted(path[:place]), override.origin)
        if place == len(path) - 1:
            return branch
        if isinstance(branch, dict) and branch.get(part) is None:
            if override.value is None:
                return None
            branch[part] = [] if isinstance(path[place + 1], int) else {}
        branch = branch[part]
    return None


def _check_part(branch: Any, part: str | int, where: str, origin: str) -> None:
    if isinstance(branch, list) and not isinstance(part, int):
        raise ConfigError(f"{origin}: {where} is a list: say which entry, such as {where}[0]")
    if isinstance(branch, list) and int(part) >= len(branch):
        raise ConfigError(f"{origin}: {where} has {len(branch)} entries, counted from 0; set the whole of {where}")
    if not isinstance(branch, list if isinstance(part, int) else dict):
        raise ConfigError(f"{origin}: {where} is {shown(branch)} here: set the whole of {where}")


def _sum(there: Any, more: Any) -> Any:
    """Return the mapping or list with more in it; None where there is nothing to add to."""
    if isinstance(more, list):
        return None if there is None else [*(there if isinstance(there, list) else [there]), *more]
    if isinstance(there, str):  # labels: a=b,c=d
        try:
            there = dict(string_map(there))
        except ValueError:
            return None
    return {**there, **more} if isinstance(there, dict) else None
