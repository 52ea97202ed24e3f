"""What names, ids, maps and amounts may look like. Each check returns the first thing that is wrong, or None.

`subject` says in words what is checked, and `path` where it is; both go into the finding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from gosched.core.amounts import amount_text, duration_text
from gosched.core.limits import (
    MAX_AMOUNT,
    MAX_CUSTOM_RESOURCES,
    MAX_DETAIL_LENGTH,
    MAX_DURATION_MS,
    MAX_GPUS,
    MAX_JOB_DEMAND,
    MAX_NAME_LENGTH,
    MAX_VALUES,
)
from gosched.core.primitives import StringMap
from gosched.core.resources import MILLI, AmountMap, Resources
from gosched.core.rules.finding import Finding
from gosched.core.sharing import BUILT_IN, MODEL_PREFIX

_MAX_TIME_MS = 253_402_300_800_000  # the year 10000
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def check_name(subject: str, name: str, *path: str | int) -> Finding | None:
    """Check a name that users choose and type: of a job, a task group, a queue, a tenant."""
    if len(name) <= MAX_NAME_LENGTH and _NAME.fullmatch(name):
        return None
    if not name:
        return Finding(path=path, subject=subject, problem="is empty", advice="give it a name")
    if len(name) > MAX_NAME_LENGTH:
        problem = f"has {len(name)} characters; at most {MAX_NAME_LENGTH} are allowed"
        return Finding(path=path, subject=subject, problem=problem)
    return Finding(path=path, subject=subject, problem=f"{name!a} may hold only letters, digits, '.', '_' and '-'")


def check_job_name(subject: str, name: str, *path: str | int) -> Finding | None:
    """Check what another job is called: its name, its id, or TENANT/NAME."""
    tenant, slash, own = name.rpartition("/")
    return check_name(subject, own, *path) or (check_name(f"{subject}: tenant", tenant, *path) if slash else None)


def check_key(subject: str, key: str, *path: str | int) -> Finding | None:
    """Check the key of a label or taint: a name that may hold '/'."""
    return check_name(subject, key.replace("/", "-"), *path)


def check_id(subject: str, text: str, *path: str | int) -> Finding | None:
    """Check an opaque text of bounded length that is safe to print and to log; it may be empty."""
    if len(text) > MAX_NAME_LENGTH:
        problem = f"has {len(text)} characters; at most {MAX_NAME_LENGTH} are allowed"
        return Finding(path=path, subject=subject, problem=problem)
    if not text.isprintable():
        return Finding(path=path, subject=subject, problem=f"{text!a} holds characters that cannot be printed")
    return None


def check_line(subject: str, text: str) -> Finding | None:
    """Check a line for people; it may be empty."""
    if len(text) > MAX_DETAIL_LENGTH or not text.isprintable():
        return Finding(subject=subject, problem=f"must be one line of at most {MAX_DETAIL_LENGTH} characters")
    return None


def check_moment(subject: str, moment_ms: int, *path: str | int) -> Finding | None:
    """Check a time of the clock; 0 where it may be open."""
    if not 0 <= moment_ms < _MAX_TIME_MS:
        return Finding(path=path, subject=subject, problem=f"{moment_ms} ms is not between the years 1970 and 10000")
    return None


def check_duration(subject: str, duration_ms: int, *path: str | int) -> Finding | None:
    if not 0 <= duration_ms <= MAX_DURATION_MS:
        problem = f"is not between 0 and {MAX_DURATION_MS} ms"
        in_units = f"is not between 0 and {duration_text(MAX_DURATION_MS)}"
        return Finding(path=path, subject=f"{subject} of {duration_ms} ms", problem=problem, in_units=in_units)
    return None


def check_map(subject: str, pairs: StringMap, *path: str | int) -> Finding | None:
    """Check labels or a selector: named keys, printable values, sorted, each key once."""
    for key, value in pairs:
        found = check_key(f"{subject} key", key, *path, key) or check_id(f"{subject} {key}", value, *path, key)
        if found:
            return found
    return check_order(f"{subject} keys", [key for key, _ in pairs], *path)


def check_order(subject: str, names: Sequence[str], *path: str | int) -> Finding | None:
    if any(before >= after for before, after in pairwise(names)):
        return Finding(path=path, subject=subject, problem="must be sorted and distinct")
    return None


def check_range(subject: str, number: int, least: int, most: int, *path: str | int) -> Finding | None:
    if not least <= number <= most:
        return Finding(path=path, subject=subject, problem=f"{number} is not between {least} and {most}")
    return None


def check_not_negative(subject: str, number: int, *path: str | int) -> Finding | None:
    if number < 0:
        return Finding(path=path, subject=subject, problem=f"{number} must not be negative")
    return None


def check_request(subject: str, r: Resources, *path: str | int) -> Finding | None:
    """Check what one task asks for."""
    if r.gpu_millis > MILLI and r.gpu_millis % MILLI:
        problem, advice = f"{r.gpu_millis} thousandths of a GPU", "ask for a part of one GPU, or for whole ones"
        in_units = amount_text("gpu", r.gpu_millis)
        return Finding(path=(*path, "gpu"), subject=f"{subject}:", problem=problem, in_units=in_units, advice=advice)
    return _check_resources(subject, r, *path)


def check_capacity(subject: str, r: Resources) -> Finding | None:
    """Check what one node has. The finding's path begins with the name of a resource."""
    if r.gpu_millis % MILLI:
        problem, advice = f"{r.gpu_millis} thousandths of a GPU", "a node has whole ones"
        return Finding(path=("gpu",), subject=f"{subject}:", problem=problem, advice=advice)
    return _check_resources(subject, r)


def check_vector(subject: str, amounts: AmountMap, *path: str | int) -> Finding | None:
    """Check a guarantee or a limit: amounts of known resources, sorted by name; 0 says none of it."""
    if len(amounts) > MAX_VALUES:
        problem = f"names {len(amounts)} resources; at most {MAX_VALUES} are allowed"
        return Finding(path=path, subject=subject, problem=problem)
    for name, amount in amounts:
        if name not in BUILT_IN:
            found = _check_resource(f"{subject}:", name, *path, name)
            if found:
                return found
        if not 0 <= amount <= MAX_JOB_DEMAND:
            problem = f"{amount} of {name} is not between 0 and {MAX_JOB_DEMAND}"
            most = amount_text(name, MAX_JOB_DEMAND, bare=True)
            in_units = f"{amount_text(name, amount)} is not between 0 and {most}"
            return Finding(path=(*path, name), subject=f"{subject}:", problem=problem, in_units=in_units)
    return check_order(f"{subject}: resources", [name for name, _ in amounts], *path)


def _check_resource(subject: str, name: str, *path: str | int) -> Finding | None:
    if not name.startswith(MODEL_PREFIX):
        return check_name(f"{subject} resource", name, *path)
    if name == MODEL_PREFIX:
        problem = f"{name} lacks a GPU model"
        return Finding(path=path, subject=subject, problem=problem, advice="write gpu:MODEL")
    return check_id(f"{subject} GPU model", name.removeprefix(MODEL_PREFIX), *path)


def _check_resources(subject: str, r: Resources, *path: str | int) -> Finding | None:
    if r.is_negative():
        return Finding(path=path, subject=subject, problem="must not be negative")
    if max(r.cpu_millis, r.memory_bytes, r.storage_bytes, r.gpu_millis) > MAX_AMOUNT:
        amounts = zip(BUILT_IN, (r.cpu_millis, r.memory_bytes, r.storage_bytes, r.gpu_millis), strict=True)
        too_large = next(name for name, amount in amounts if amount > MAX_AMOUNT)
        problem, in_units = f"beyond {MAX_AMOUNT}", f"beyond {amount_text(too_large, MAX_AMOUNT, bare=True)}"
        return Finding(path=(*path, too_large), subject=f"{subject} are", problem=problem, in_units=in_units)
    if r.gpu_millis > MAX_GPUS * MILLI:
        problem = f"{r.gpu_millis // MILLI} GPUs; at most {MAX_GPUS} are allowed"
        return Finding(path=(*path, "gpu"), subject=f"{subject}:", problem=problem)
    return _check_custom(f"{subject}:", r.custom, *path) if r.custom else None


def _check_custom(subject: str, custom: AmountMap, *path: str | int) -> Finding | None:
    if len(custom) > MAX_CUSTOM_RESOURCES:
        problem = f"{len(custom)} resources of the cluster's own; at most {MAX_CUSTOM_RESOURCES} are allowed"
        return Finding(path=path, subject=subject, problem=problem)
    for name, amount in custom:
        found = check_name(f"{subject} resource", name, *path, name)
        if found:
            return found
        if name in BUILT_IN:
            problem = f"{name} is built in, and no name for a resource of the cluster's own"
            return Finding(path=(*path, name), subject=subject, problem=problem)
        if not 0 < amount <= MAX_AMOUNT:
            problem = f"{amount} of {name} is not between 1 and {MAX_AMOUNT}"
            return Finding(path=(*path, name), subject=subject, problem=problem)
    return check_order(f"{subject} resources", [name for name, _ in custom], *path)
