"""gosched: a highly available cluster scheduler.

The names below are the Python SDK; each is imported on first use, so that the daemons and the command line do not pay
for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gosched.lazy import lazy

if TYPE_CHECKING:
    from gosched.client.aio.client import AsyncGoSchedClient
    from gosched.client.aio.handle import AsyncJobHandle
    from gosched.client.client import GoSchedClient
    from gosched.client.errors import GoSchedError, JobFailed
    from gosched.client.executor.pool import GoSchedExecutor
    from gosched.client.handle import JobHandle
    from gosched.client.spec import Job, Tasks
    from gosched.client.targets import TlsFiles
    from gosched.client.waiting import as_completed, wait

__version__ = "0.1.0"
__all__ = [
    "AsyncGoSchedClient",
    "AsyncJobHandle",
    "GoSchedClient",
    "GoSchedError",
    "GoSchedExecutor",
    "Job",
    "JobFailed",
    "JobHandle",
    "Tasks",
    "TlsFiles",
    "__version__",
    "as_completed",
    "wait",
]

__getattr__ = lazy(
    __name__,
    {
        "gosched.client.aio.client": "AsyncGoSchedClient",
        "gosched.client.aio.handle": "AsyncJobHandle",
        "gosched.client.client": "GoSchedClient",
        "gosched.client.errors": "GoSchedError JobFailed",
        "gosched.client.executor.pool": "GoSchedExecutor",
        "gosched.client.handle": "JobHandle",
        "gosched.client.spec": "Job Tasks",
        "gosched.client.targets": "TlsFiles",
        "gosched.client.waiting": "as_completed wait",
    },
)
