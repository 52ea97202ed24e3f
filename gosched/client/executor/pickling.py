"""Calls and results as bytes: cloudpickle, which only the user's side needs installed.

A result is unpickled in the user's process. It comes from the user's own code on the cluster's nodes, and whoever
controls such a node could send anything: an executor trusts the nodes that it runs on.
"""

from __future__ import annotations

import importlib.util
import json
import pickle
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from gosched.client.arguments import given_as
from gosched.client.errors import GoSchedError, Misused
from gosched.client.executor.worker import MAX_FRAME


class RemoteTraceback(Exception):
    """The traceback of a call, as the worker wrote it: the cause of the exception that the future has."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class CallFailed(GoSchedError):
    """A call raised what could not be pickled there, or unpickled here; its text is the traceback."""


def cloudpickle() -> ModuleType:
    """Return the module. Raises Misused where it is not installed."""
    try:
        return import_module("cloudpickle")
    except ModuleNotFoundError as error:
        raise Misused("GoSchedExecutor needs cloudpickle: pip install 'gosched[executor]'") from error


def dumped(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Return a call as bytes. Raises Misused."""
    if not callable(function):
        raise Misused(f"expected a function, got {given_as(function)}")
    try:
        data: bytes = cloudpickle().dumps((function, args, kwargs))
    except Exception as error:  # whatever somebody's own __reduce__ raises
        raise Misused(f"the call of {given_as(function)} cannot be pickled: {error}") from error
    if len(data) > MAX_FRAME:
        raise Misused(f"the call takes {len(data)} bytes, at most {MAX_FRAME} go: pass the path of a file")
    return data


def value_of(data: bytes) -> Any:
    """Return a call's value. Raises CallFailed."""
    try:
        return pickle.loads(data)  # noqa: S301 - see the module's docstring
    except Exception as error:  # such as a module that is only there
        raise CallFailed(f"the result cannot be unpickled here: {type(error).__name__}: {error}") from error


def exception_of(data: bytes) -> BaseException:
    """Return what a call raised, with the worker's traceback as its cause."""
    pickled, text = pickle.loads(data)  # noqa: S301 - see the module's docstring
    error: BaseException | None = None
    if pickled is not None:
        try:
            error = pickle.loads(pickled)  # noqa: S301 - see the module's docstring
        except Exception:  # an exception whose arguments do not fit its constructor; its text says enough
            error = None
    if not isinstance(error, BaseException):
        return CallFailed(text)
    error.__cause__ = RemoteTraceback(text)
    return error


@cache
def sources() -> bytes:
    """Return the sources of cloudpickle, as the worker imports them."""
    package = Path(cloudpickle().__file__ or "").parent
    found = {
        "cloudpickle" if path.stem == "__init__" else f"cloudpickle.{path.stem}": path.read_text()
        for path in sorted(package.glob("*.py"))
    }
    return json.dumps(found).encode()


@cache
def worker_source() -> str:
    """Return the program of the tasks, without the comments that only readers of this repository need."""
    spec = importlib.util.find_spec("gosched.client.executor.worker")
    assert spec is not None, "the module is a part of this package"
    assert spec.origin, "it is a file"
    return Path(spec.origin).read_text()
