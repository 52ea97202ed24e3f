"""Checks the arguments of public methods by their annotations, before anything is sent.

Invariant: an argument of a wrong type is a Misused that names the method and the argument, what was expected and what
was given.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, IntEnum
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from gosched.client.errors import Misused

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=IntEnum)

_SHOWN = 60  # characters of a wrong value
_NAMED = {str: "text", int: "a whole number", float: "a number", bool: "True or False", type(None): "None"}


def call_checked(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what the function returns for these arguments, once they have the types that it names. Raises Misused,
    and TypeError where an argument is missing or not known, as any function."""
    check(function, args, kwargs)
    try:
        return function(*args, **kwargs)
    except (TypeError, ValueError) as error:  # such as a number that does not fit into its field
        raise Misused(f"{_name(function)}(): {error}") from error


def checked(method: Callable[P, T]) -> Callable[P, T]:
    """Check the arguments of a method or function at each call."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        check(method, args, kwargs)
        return method(*args, **kwargs)

    return call


def check(function: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Raise Misused for the first argument that is not of its type."""
    for name, value in _bound(function, args, kwargs).items():
        hint = _hints(function).get(name, Any)
        if not fits(value, hint):
            raise Misused(f"{_name(function)}(): {name}: expected {expected(hint)}, got {given_as(value)}")


def member(kind: type[E], value: E | str) -> E:
    """Return a member of an enum, which may be given by its name in any case. Raises Misused."""
    if isinstance(value, kind):
        return value
    known = [m.name for m in kind if m.name != "UNSPECIFIED"]
    name = value.strip().upper() if isinstance(value, str) else ""
    if name in known:
        return kind[name]
    from difflib import get_close_matches  # slow, and for mistakes alone

    near = get_close_matches(name, known, n=1)
    meant = f": did you mean {near[0]}?" if near else ""
    raise Misused(f"expected one of {', '.join(known)}, got {given_as(value)}{meant}")


def fits(value: object, hint: Any) -> bool:
    """Tell whether a value is of the type that an annotation names."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, arg) for arg in args)
    if origin is Literal:
        return value in args
    if hint is None:
        return value is None
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin is None:
        return isinstance(value, hint)
    if not isinstance(value, origin) or (isinstance(value, str | bytes) and origin is not str):
        return False
    if issubclass(origin, Mapping):
        return isinstance(value, Mapping) and _all_fit(value, args[0]) and _all_fit(value.values(), args[1])
    if origin is tuple and (len(args) != 2 or args[1] is not ...):
        return isinstance(value, tuple) and len(value) == len(args) and all(map(fits, value, args))
    if issubclass(origin, Sequence):
        return isinstance(value, Sequence) and _all_fit(value, args[0])
    return True


def expected(hint: Any) -> str:
    """Return how people call what an annotation names."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(expected(arg) for arg in args))
    if origin is Literal:
        return " or ".join(map(str, args))
    if origin is not None and issubclass(origin, Mapping):
        return f"a mapping of {expected(args[0])} to {expected(args[1])}"
    if origin is tuple and (len(args) != 2 or args[1] is not ...):
        return f"a tuple of {' and '.join(expected(arg) for arg in args)}"
    if origin is not None and issubclass(origin, Sequence):
        return f"a list of {expected(args[0])}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"a {hint.__name__}"
    return _NAMED.get(hint) or ("anything" if hint in (Any, object) else f"a {getattr(hint, '__name__', hint)}")


def given_as(value: object) -> str:
    """Return a wrong value, on one line and not too long, with its type."""
    if value is None:
        return "None"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # whatever somebody's own __repr__ raises: it must not hide the problem
        text = "a value"
    short = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
    return f"{short} ({type(value).__name__})"


def _all_fit(values: Iterable[object], hint: Any) -> bool:
    return all(fits(value, hint) for value in values)


def _bound(function: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments by name. Raises TypeError, which names the function as Python's own does."""
    try:
        return _signature(function).bind(*args, **kwargs).arguments
    except TypeError as error:
        raise TypeError(f"{_name(function)}() {error}") from None


def _name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", "")
    owner, _, own = name.rpartition(".")
    return owner if own == "__init__" else own


@cache
def _signature(function: Callable[..., Any]) -> Signature:
    return signature(function)


@cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of the parameters that name one, but for those that take any number of arguments."""
    names = [
        name
        for name, parameter in _signature(function).parameters.items()
        if parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    ]
    known, scope = function.__annotations__, function.__globals__
    return {name: eval(known[name], scope) for name in names if name in known}  # noqa: S307 - our own annotations
