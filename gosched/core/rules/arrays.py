"""Checks the array of a job: its range or matrix, and how many of its elements may live at once."""

from __future__ import annotations

import re

from gosched.core.limits import MAX_ARRAY, MAX_AXES, MAX_NAME_LENGTH, MAX_PARALLEL, MAX_TASKS_PER_JOB, MAX_VALUES
from gosched.core.rules.environment import check_not_reserved
from gosched.core.rules.finding import Finding
from gosched.core.rules.values import check_id, check_not_negative
from gosched.core.spec.array import Array, Axis
from gosched.core.spec.job_spec import JobSpec

_MAX_INDEX = 999_999_999
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_array(spec: JobSpec, *, is_strict: bool) -> Finding | None:
    """Return the first thing that is wrong with the array of a job, or None; also of a job that is no array."""
    array = spec.array
    if not array.step and not array.matrix:
        return None
    if array.step and array.matrix:
        problem, advice = "the array has a range and a matrix", "give one of them"
        return Finding(path=("array",), problem=problem, advice=advice)
    if array.step < 0 or not 0 <= array.first <= array.last <= _MAX_INDEX:
        problem = f"{array.first}-{array.last}/{array.step} must ascend between 0 and {_MAX_INDEX}"
        return Finding(path=("array", "range"), subject="array.range", problem=problem)
    if not 0 < array.size <= MAX_ARRAY:
        problem = f"has {array.size} elements; 1 to {MAX_ARRAY} are allowed"
        return Finding(path=("array",), subject="the array", problem=problem)
    return _check_parallelism(spec) or _check_matrix(array.matrix, is_strict=is_strict)


def array_bytes(array: Array) -> int:
    """Return the size of the array's texts."""
    return sum([len(value.encode()) for axis in array.matrix for value in axis.values])


def _check_parallelism(spec: JobSpec) -> Finding | None:
    array, tasks = spec.array, sum(group.count for group in spec.groups)
    found = check_not_negative("array.parallelism", array.parallelism, "array", "parallelism")
    if found:
        return found
    if array.parallelism > MAX_PARALLEL or (array.parallelism > 1 and array.parallelism * tasks > MAX_TASKS_PER_JOB):
        most = min(MAX_PARALLEL, max(1, MAX_TASKS_PER_JOB // tasks))
        problem = f"{array.parallelism} of {tasks} tasks each is too much"
        return Finding(
            path=("array", "parallelism"),
            subject="array.parallelism",
            problem=problem,
            advice=f"at most {most} may live at once",
        )
    if array.max_failures < -1:
        problem = f"{array.max_failures} must be 0 or more, or -1 for any number"
        return Finding(path=("array", "max_failures"), subject="array.max_failures", problem=problem)
    return None


def _check_matrix(matrix: tuple[Axis, ...], *, is_strict: bool) -> Finding | None:
    path = ("array", "matrix")
    if len(matrix) > MAX_AXES:
        problem = f"has {len(matrix)} axes; at most {MAX_AXES} are allowed"
        return Finding(path=path, subject="array.matrix", problem=problem)
    if len(dict.fromkeys(axis.name for axis in matrix)) != len(matrix):
        return Finding(path=path, subject="array.matrix", problem="names an axis twice")
    for axis in matrix:
        found = _check_axis(axis, is_strict=is_strict)
        if found:
            return found
    return None


def _check_axis(axis: Axis, *, is_strict: bool) -> Finding | None:
    path = ("array", "matrix", axis.name)
    if len(axis.name) > MAX_NAME_LENGTH or not _VARIABLE.fullmatch(axis.name):
        problem = f"{axis.name[:MAX_NAME_LENGTH]!a} cannot be the name of an environment variable"
        return Finding(path=path, subject="array.matrix:", problem=problem)
    if is_strict and (found := check_not_reserved("array.matrix:", axis.name, *path)):
        return found
    if len(axis.values) > MAX_VALUES:
        problem = f"{len(axis.values)} values; at most {MAX_VALUES} are allowed"
        return Finding(path=path, subject=f"array.matrix {axis.name}:", problem=problem)
    for place, value in enumerate(axis.values):
        found = check_id(f"array.matrix {axis.name}: value", value, *path, place)
        if found:
            return found
    return None
