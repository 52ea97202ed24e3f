"""Keeps CPUs that a task owns clear of the others: tasks that own none share what is left.

Invariant: only cgroups' cpuset controller can do so; without it nothing is done here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import structlog

from gosched.agent.cgroups.files import CgroupError
from gosched.agent.cgroups.tree import CgroupTree, write_values
from gosched.agent.logic.cgroup_values import shared_cpus
from gosched.agent.tasks.task import Task
from gosched.core.cpulist import format_cpulist, parse_cpulist
from gosched.core.orders import TaskOrder


class SharedCpus:
    """The CPUs of tasks that own none.

    `numa`: number of each NUMA node of this host -> mask of its CPUs. `current`: their CPUs now; empty: all.
    """

    def __init__(self, tree: CgroupTree, numa: Mapping[int, int]) -> None:
        self._is_kept = "cpuset" in tree.controllers
        usable = sum(1 << cpu for cpu in os.sched_getaffinity(0))
        self._all = format_cpulist(usable)
        self._there = sum(numa.values()) or usable
        self.current = ""

    def owned(self, order: TaskOrder) -> str:
        """Return the CPUs that are the task's alone; none on a node whose hardware is pretended."""
        return order.cpus if not parse_cpulist(order.cpus) & ~self._there else ""

    def follow(self, tasks: Iterable[Task]) -> None:
        """Give the tasks that own none what is left. Call it before and after each start, and after each end. `tasks`:
        those that have not ended, the new ones included. Where the kernel refuses, a task stays where it was until the
        next call."""
        if not self._is_kept:
            return
        tasks = list(tasks)
        owned = {task.order.allocation_id: self.owned(task.order) for task in tasks if task.order.cpus}
        self.current = shared_cpus(self._all, owned.values())
        for task in tasks:
            if not owned.get(task.order.allocation_id) and task.shared_cpus != self.current:
                self._move(task)

    def _move(self, task: Task) -> None:
        """Move one task. It has no cgroup where it has just ended, or is about to start."""
        if task.cgroup is None or not task.cgroup.exists():
            return
        try:
            # All by name: Linux 6.1, for one, refuses to clear the list of a cgroup with processes in it (ENOSPC).
            write_values(task.cgroup, {"cpuset.cpus": self.current or self._all})
            task.shared_cpus = self.current
        except CgroupError as error:
            log = structlog.get_logger()
            log.warning(
                "cannot keep a task off CPUs that another owns", allocation=task.order.allocation_id, why=str(error)
            )
