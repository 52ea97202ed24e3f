"""gosched: a highly available cluster scheduler.

`from gosched import GoSchedClient` is the Python SDK; it is imported on first use, so that the daemons and
the command line do not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gosched.client import GoSchedClient

__version__ = "0.1.0"
__all__ = ["GoSchedClient", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "GoSchedClient":
        from gosched.client import GoSchedClient

        return GoSchedClient
    raise AttributeError(f"module 'gosched' has no attribute {name!r}")
