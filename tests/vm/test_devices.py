"""The filter of devices, asked by the kernel itself. Device nodes need no driver to be refused: where one is allowed,
the kernel says that there is no such device, and not that it is not permitted."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gosched.agent.cgroups import devices
from gosched.agent.cgroups.files import CgroupError
from gosched.agent.cgroups.tree import CgroupTree
from tests.vm.conftest import PATIENCE_S, Start, values

ALLOWED, REFUSED = "No such device or address", "Operation not permitted"
MAJOR, OTHER_MAJOR, FREE_MAJOR = 195, 510, 511

Use = Callable[..., list[str]]


@pytest.fixture
def use(tmp_path: Path, start_in: Start) -> Use:
    """What `dd` in a cgroup hears when it opens each device."""
    dd = "dd if={0} of=/dev/null count=1 2>&1 | sed -n 's/.*: //p'"

    def used(cgroup: Path, *numbers: tuple[int, int]) -> list[str]:
        lines = []
        for major, minor in numbers:
            node = tmp_path / f"{major}-{minor}"
            if not node.exists():
                os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(major, minor))
            lines.append(dd.format(node))
        return start_in(cgroup, "; ".join(lines)).communicate(timeout=PATIENCE_S)[0].decode().splitlines()

    return used


def test_a_cgroup_is_kept_off_devices_that_are_not_its_own_and_off_no_other(
    tree: CgroupTree, use: Use, start_in: Start
) -> None:
    path = tree.create("filtered", values(tree))
    assert path is not None
    devices.confine(path, {MAJOR, OTHER_MAJOR}, [(MAJOR, 1), (MAJOR, 255), (OTHER_MAJOR, 0)])
    refused = [(MAJOR, 0), (MAJOR, 2), (OTHER_MAJOR, 1)]
    allowed = [(MAJOR, 1), (MAJOR, 255), (OTHER_MAJOR, 0), (FREE_MAJOR, 0)]
    assert use(path, *refused) == [REFUSED] * len(refused)
    assert use(path, *allowed) == [ALLOWED] * len(allowed)
    told = start_in(path, "head -c 3 /dev/zero | wc -c; head -c 3 /dev/vda | wc -c; echo > /dev/null && echo over")
    # A disk, too: nothing else is judged.
    assert told.communicate(timeout=PATIENCE_S)[0].split() == [b"3", b"3", b"over"]


def test_a_cgroup_below_is_kept_off_too_and_may_not_make_the_device_anew(
    tree: CgroupTree, use: Use, start_in: Start, tmp_path: Path
) -> None:
    path = tree.create("outer", values(tree))
    assert path is not None
    devices.confine(path, {MAJOR}, ())
    inner = path / "inner"
    inner.mkdir()
    devices.confine(inner, {MAJOR}, [(MAJOR, 0)])  # as a container's runtime does: it cannot take back what is above
    assert use(inner, (MAJOR, 0)) == [REFUSED]
    told = start_in(inner, f"mknod {tmp_path}/made c {MAJOR} 0").communicate(timeout=PATIENCE_S)[0].decode()
    assert REFUSED in told


def test_the_kernel_takes_the_filter_and_says_where_it_cannot_be(tree: CgroupTree) -> None:
    assert devices.problem() == ""
    with pytest.raises(CgroupError, match=r"cannot filter the devices of .*gone: No such file or directory"):
        devices.confine(tree.path("gone"), {MAJOR}, ())
