"""What names, ids, maps and amounts may look like. Each check returns one line for people, or an empty string."""

from __future__ import annotations

import re
from itertools import pairwise

from gosched.core.job import StringMap
from gosched.core.limits import MAX_AMOUNT, MAX_NAME_LENGTH
from gosched.core.resources import GPU, Resources

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


def id_problem(what: str, text: str) -> str:
    """An opaque text of bounded length that is safe to print and to log; it may be empty."""
    if len(text) > MAX_NAME_LENGTH:
        return f"{what} has {len(text)} characters; at most {MAX_NAME_LENGTH} are allowed"
    if not text.isprintable():
        return f"{what} {text!a} holds characters that cannot be printed"
    return ""


def map_problem(what: str, pairs: StringMap) -> str:
    """Labels and selectors: named keys, printable values, sorted, each key once."""
    for key, value in pairs:
        problem = name_problem(f"{what} key", key.replace("/", "-")) or id_problem(f"{what} {key}", value)
        if problem:
            return problem
    return order_problem(what, pairs)


def order_problem(what: str, pairs: StringMap) -> str:
    if any(before[0] >= after[0] for before, after in pairwise(pairs)):
        return f"{what} keys must be sorted and distinct"
    return ""


def amount_problem(what: str, r: Resources) -> str:
    if r.is_negative():
        return f"{what} must not be negative"
    if max(r.cpu_millis, r.memory_bytes, r.storage_bytes, r.gpu_millis) > MAX_AMOUNT:
        return f"{what} are beyond {MAX_AMOUNT}"
    if r.gpu_millis % GPU:
        return f"{what}: parts of a GPU are not supported by this version yet; ask for whole ones"
    return ""
