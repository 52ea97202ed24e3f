"""Makes a task's root where that takes time, an archive to unpack or an image to copy, and then becomes its runtime.

    python -I -m gosched.agent.runtimes.rootfs_launcher BUNDLE

The supervisor's child, so that no other task of the node waits for it, and that it can be stopped. The one rule: what
it writes is not the task's memory: it works in its supervisor's cgroup, and comes to the task's before it starts it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from gosched.agent.runtimes.images import Images
from gosched.agent.runtimes.inside import Bind, find_command
from gosched.agent.runtimes.interface import CannotRun
from gosched.agent.runtimes.root_layer import copy, lay_over
from gosched.agent.supervisor.control_group import cgroup_of
from gosched.agent.supervisor.records import RESULT, TASK, now_ms, write

SPEC = "launcher.json"  # in the bundle


def main(bundle: Path) -> None:
    """Does not return. Raises CannotRun."""
    os.chdir(bundle.parent)
    spec = json.loads((bundle / SPEC).read_text())
    try:
        move_to(cgroup_of(os.getppid()))
        make_root(spec, bundle)
        move_to(spec["cgroup"])
    except OSError as error:
        raise CannotRun("CANNOT_STORE", f"this node cannot make the task's root: {error}", blames_node=True) from error
    write(TASK, {"pid": os.getpid(), "started_at_ms": now_ms()})
    os.chdir(bundle)
    os.execvp(spec["then"][0], spec["then"])


def make_root(spec: dict[str, Any], bundle: Path) -> None:
    image = Path(spec["image"])
    if image.is_file():
        image = Images(Path(spec["cache"])).unpacked(image, bundle)
    binds = [Bind(**bind) for bind in spec["binds"]]
    find_command(spec["command"], spec["cwd"], spec["path"], binds, image)
    if spec["layered"]:
        lay_over(image, bundle)
    else:
        copy(image, bundle)


def move_to(cgroup: str) -> None:
    if cgroup:
        Path(cgroup, "cgroup.procs").write_text("0")


def fail(error: CannotRun) -> int:
    write(RESULT, {"reason": error.reason, "detail": error.detail, "blames_node": error.blames_node})
    print(error.detail, file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except CannotRun as failure:
        sys.exit(fail(failure))
