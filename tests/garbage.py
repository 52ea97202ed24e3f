"""Finds what only the garbage collector can free: records that hold each other in a cycle of references.

The daemons let the collector run seldom, so whatever is left in a cycle stays for long, with all that it holds.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_cycles() -> Iterator[None]:
    """Fail if what happens inside leaves something of gosched's in a cycle."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        found = Counter([_name(thing) for thing in gc.garbage])
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.collect()
    ours = {name: count for name, count in found.items() if name.startswith("gosched.")}
    assert not ours, f"kept by cycles of references: {ours}"


def _name(thing: object) -> str:
    """A function goes by its own module, anything else by that of its class."""
    kind = thing if callable(thing) and hasattr(thing, "__qualname__") else type(thing)
    return f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', '')}"
