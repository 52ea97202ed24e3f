"""What the other guest tests stand on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def test_the_guest_has_pure_cgroup_v2_with_every_controller(figure: Callable[[str], None]) -> None:
    controllers = set(Path("/sys/fs/cgroup/cgroup.controllers").read_text().split())
    assert {"cpuset", "cpu", "io", "memory", "hugetlb", "pids"} <= controllers
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if " cgroup " in line]
    assert os.getuid() == 0
    figure(f"kernel {os.uname().release}, {os.cpu_count()} CPUs, controllers {' '.join(sorted(controllers))}")
