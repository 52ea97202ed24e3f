"""Keeps memory for the tasks that ask for it: the cgroups above them keep what their tasks keep together. Without that
a task's own `memory.low` would mean nothing.

Invariant: what the cgroups above keep follows from the tasks that have not ended, and so falls when one ends.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from gosched.agent.cgroups.files import CgroupError
from gosched.agent.cgroups.tree import CgroupTree
from gosched.agent.logic.cgroup_values import memory_low
from gosched.agent.tasks.task import Task


class KeptMemory:
    """The memory that is kept for tasks. `problem`: why the newest sum is not kept; empty: it is."""

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree
        self.problem = ""

    def follow(self, tasks: Iterable[Task]) -> None:
        """Keep the sum of what the tasks ask for. Call it before each start, and after each end. `tasks`: those that
        have not ended, the new ones included."""
        orders = [task.order for task in tasks]
        try:
            self._tree.keep_memory(sum(memory_low(order.resources.memory_bytes, order.isolation) for order in orders))
            self.problem = ""
        except CgroupError as error:
            self.problem = str(error)
            structlog.get_logger().warning("the memory that tasks want kept is not kept", why=str(error))
