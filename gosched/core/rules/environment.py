"""Checks the environment variables of a task group."""

from __future__ import annotations

from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.primitives import StringMap
from gosched.core.rules.finding import Finding
from gosched.core.rules.values import check_order

RESERVED_PREFIX = "GOSCHED_"


def check_env(env: StringMap, *, is_strict: bool) -> Finding | None:
    for key, value in env:
        if not key or "=" in key or not key.isprintable() or len(key) > MAX_NAME_LENGTH:
            problem = f"{key[:MAX_NAME_LENGTH]!a} cannot be the name of an environment variable"
            return Finding(path=("env", key), problem=problem)
        if "\0" in value:
            return Finding(path=("env", key), subject=f"the value of {key}", problem="holds a NUL character")
        if is_strict and (found := check_not_reserved("", key, "env", key)):
            return found
    return check_order("env keys", [key for key, _ in env], "env")


def check_not_reserved(subject: str, key: str, *path: str | int) -> Finding | None:
    """Check that users leave to gosched the variables that it sets itself."""
    if not key.startswith(RESERVED_PREFIX):
        return None
    problem = f"names that begin with {RESERVED_PREFIX} are set by gosched"
    return Finding(path=path, subject=f"{subject} {key}:".lstrip(), problem=problem)
