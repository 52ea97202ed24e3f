"""What names, ids, maps and amounts may look like. Each check returns one line for people, or an empty string."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

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
from gosched.core.sharing import BUILT_IN, MODEL_PREFIX

_MAX_TIME_MS = 253_402_300_800_000  # the year 10000
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def name_problem(what: str, name: str) -> str:
    """A name that people choose and type: job, group, queue, tenant."""
    if len(name) <= MAX_NAME_LENGTH and _NAME.fullmatch(name):
        return ""
    if not name:
        return f"{what} is empty: give it a name"
    if len(name) > MAX_NAME_LENGTH:
        return f"{what} has {len(name)} characters; at most {MAX_NAME_LENGTH} are allowed"
    return f"{what} {name!a} may hold only letters, digits, '.', '_' and '-'"


def key_problem(what: str, key: str) -> str:
    """The key of a label or taint: a name that may hold '/'."""
    return name_problem(what, key.replace("/", "-"))


def id_problem(what: str, text: str) -> str:
    """An opaque text of bounded length that is safe to print and to log; it may be empty."""
    if len(text) > MAX_NAME_LENGTH:
        return f"{what} has {len(text)} characters; at most {MAX_NAME_LENGTH} are allowed"
    if not text.isprintable():
        return f"{what} {text!a} holds characters that cannot be printed"
    return ""


def line_problem(what: str, text: str) -> str:
    """A line for people; it may be empty."""
    if len(text) > MAX_DETAIL_LENGTH or not text.isprintable():
        return f"{what} must be one line of at most {MAX_DETAIL_LENGTH} characters"
    return ""


def moment_problem(what: str, moment_ms: int) -> str:
    """A time of the clock; 0 where it may be open."""
    if not 0 <= moment_ms < _MAX_TIME_MS:
        return f"{what} {moment_ms} ms is not between the years 1970 and 10000"
    return ""


def duration_problem(what: str, duration_ms: int) -> str:
    if not 0 <= duration_ms <= MAX_DURATION_MS:
        return f"{what} of {duration_ms} ms is not between 0 and {MAX_DURATION_MS} ms"
    return ""


def map_problem(what: str, pairs: StringMap) -> str:
    """Labels and selectors: named keys, printable values, sorted, each key once."""
    for key, value in pairs:
        problem = key_problem(f"{what} key", key) or id_problem(f"{what} {key}", value)
        if problem:
            return problem
    return order_problem(f"{what} keys", [key for key, _ in pairs])


def order_problem(what: str, names: Sequence[str]) -> str:
    if any(before >= after for before, after in pairwise(names)):
        return f"{what} must be sorted and distinct"
    return ""


def request_problem(what: str, r: Resources) -> str:
    """What one task asks for."""
    if r.gpu_millis > MILLI and r.gpu_millis % MILLI:
        return f"{what}: {r.gpu_millis} thousandths of a GPU: ask for a part of one GPU, or for whole ones"
    return _amounts_problem(what, r)


def capacity_problem(what: str, r: Resources) -> str:
    """What one node has."""
    if r.gpu_millis % MILLI:
        return f"{what}: {r.gpu_millis} thousandths of a GPU: a node has whole ones"
    return _amounts_problem(what, r)


def vector_problem(what: str, amounts: AmountMap) -> str:
    """A guarantee or a limit: amounts of known resources, sorted by name; 0 says none of it."""
    if len(amounts) > MAX_VALUES:
        return f"{what} names {len(amounts)} resources; at most {MAX_VALUES} are allowed"
    for name, amount in amounts:
        if name not in BUILT_IN:
            problem = _resource_problem(what, name)
            if problem:
                return problem
        if not 0 <= amount <= MAX_JOB_DEMAND:
            return f"{what}: {amount} of {name} is not between 0 and {MAX_JOB_DEMAND}"
    return order_problem(f"{what}: resources", [name for name, _ in amounts])


def _resource_problem(what: str, name: str) -> str:
    if not name.startswith(MODEL_PREFIX):
        return name_problem(f"{what}: resource", name)
    if name == MODEL_PREFIX:
        return f"{what}: {name} lacks a GPU model: write gpu:MODEL"
    return id_problem(f"{what}: GPU model", name.removeprefix(MODEL_PREFIX))


def _amounts_problem(what: str, r: Resources) -> str:
    if r.is_negative():
        return f"{what} must not be negative"
    if max(r.cpu_millis, r.memory_bytes, r.storage_bytes, r.gpu_millis) > MAX_AMOUNT:
        return f"{what} are beyond {MAX_AMOUNT}"
    if r.gpu_millis > MAX_GPUS * MILLI:
        return f"{what}: {r.gpu_millis // MILLI} GPUs; at most {MAX_GPUS} are allowed"
    return _custom_problem(what, r.custom) if r.custom else ""


def _custom_problem(what: str, custom: AmountMap) -> str:
    if len(custom) > MAX_CUSTOM_RESOURCES:
        return f"{what}: {len(custom)} resources of the cluster's own; at most {MAX_CUSTOM_RESOURCES} are allowed"
    for name, amount in custom:
        problem = name_problem(f"{what}: resource", name)
        if problem:
            return problem
        if name in BUILT_IN:
            return f"{what}: {name} is built in, and no name for a resource of the cluster's own"
        if not 0 < amount <= MAX_AMOUNT:
            return f"{what}: {amount} of {name} is not between 1 and {MAX_AMOUNT}"
    return order_problem(f"{what}: resources", [name for name, _ in custom])
