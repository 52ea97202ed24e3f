"""Methods of clients out of the functions in `requests/`: with their names, arguments and docstrings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import WRAPPER_ASSIGNMENTS, update_wrapper
from inspect import Parameter, signature
from typing import Any, TypeVar

from gosched.client.arguments import call_checked

T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])

_SELF = Parameter("self", Parameter.POSITIONAL_ONLY)
_COPIED = tuple(name for name in WRAPPER_ASSIGNMENTS if name not in ("__module__", "__annotations__"))


def prepared(build: Callable[..., T], args: Sequence[object], kwargs: Mapping[str, object]) -> T:
    """Return the call, the pages or the stream for these arguments. Raises Misused."""
    return call_checked(build, *args, **kwargs)


def described(method: M, build: Callable[..., Any], returns: str) -> M:
    """Give a method the name, arguments and docstring of `build`. `returns`: its type around that in `Call[...]`."""
    update_wrapper(method, build, assigned=_COPIED)
    own = signature(build)
    result = returns.format(_plain(own.return_annotation).partition("[")[2].removesuffix("]"))
    parameters = [given.replace(annotation=_plain(given.annotation)) for given in own.parameters.values()]
    shown = own.replace(parameters=[_SELF, *parameters], return_annotation=result)
    method.__signature__ = shown  # type: ignore[attr-defined]
    return method


def _plain(annotation: object) -> str:
    """Return an annotation as people read it: a record is called by its name alone."""
    return str(annotation).replace("records.", "")
