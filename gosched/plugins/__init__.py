"""The interface for plugins of the planner, and those that come with gosched.

Invariant: what is named here is version 1 of the interface, and stays. `docs/guides/plugins.md` is the guide.
"""

from gosched.core.resources import Resources
from gosched.scheduling.plugins.interface import (
    API_VERSION,
    MAX_SCORE,
    REQUEST_FIELDS,
    Nodes,
    Plugin,
    Request,
    Waiting,
    with_defaults,
)
from gosched.scheduling.snapshot.labels import BoolArray, IntArray

__all__ = [
    "API_VERSION",
    "MAX_SCORE",
    "REQUEST_FIELDS",
    "BoolArray",
    "IntArray",
    "Nodes",
    "Plugin",
    "Request",
    "Resources",
    "Waiting",
    "with_defaults",
]
