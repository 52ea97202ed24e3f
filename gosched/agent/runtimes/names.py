"""Names by which a task's container is found again: imported by everything that is about containers."""

from __future__ import annotations

import re
from hashlib import blake2b

# The second one is the directory of its agent's tasks: two agents may share a daemon, and even the id of a node.
ALLOCATION_LABEL, AGENT_LABEL = "gosched.allocation", "gosched.agent"


def hostname(task_id: str) -> str:
    """Return the task's id as a host name: letters, digits and dashes, at most 63."""
    return re.sub(r"[^A-Za-z0-9]+", "-", task_id)[-63:].strip("-").lower() or "task"


def container_name(allocation_id: str) -> str:
    """Return a readable name that is the allocation's alone."""
    return f"gosched-{hostname(allocation_id)}-{blake2b(allocation_id.encode(), digest_size=4).hexdigest()}"
