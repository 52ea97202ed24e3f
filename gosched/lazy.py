"""Names of a package that are imported when they are first used, so that a program pays for what it uses alone.

Invariant: imports the standard library alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package. `names`: the full name of a module, and its names with spaces between."""
    modules = {name: module for module, listed in names.items() for name in listed.split()}

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return find
