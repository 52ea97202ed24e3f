"""Makes a task's root where that takes time, an archive to unpack or an image to copy, and then becomes its runtime.

    python -I -m gosched.agent.runtimes.rootfs_launcher BUNDLE

It is the supervisor's child, so that no other task of the node waits for it, and that it can be stopped.

Invariant: what it writes is not the task's memory: it works in its supervisor's cgroup, and comes to the task's before
it starts it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from gosched.agent.beneath import opened
from gosched.agent.runtimes.images import Images
from gosched.agent.runtimes.inside import open_archive, open_named
from gosched.agent.runtimes.interface import CannotRun
from gosched.agent.runtimes.lookup import Root, find_command
from gosched.agent.runtimes.root_layer import LOWER, copy, lay_over, link_lower
from gosched.agent.supervisor.control_group import cgroup_of
from gosched.agent.supervisor.launch import account_of
from gosched.agent.supervisor.records import RESULT, TASK, now_ms, write
from gosched.core.reasons import Reason

SPEC = "launcher.json"  # in the bundle


def main(bundle: Path) -> None:
    """Make the root and become the runtime; does not return. Raises CannotRun."""
    os.chdir(bundle.parent)
    spec = json.loads((bundle / SPEC).read_text())
    try:
        move_to(cgroup_of(os.getppid()))
        make_root(spec, bundle)
        move_to(spec["cgroup"])
    except OSError as error:
        raise CannotRun(
            Reason.CANNOT_STORE, f"this node cannot make the task's root: {error}", blames_node=True
        ) from error
    write(TASK, {"pid": os.getpid(), "started_at_ms": now_ms()})
    os.chdir(bundle)
    os.execvp(spec["then"][0], spec["then"])


def make_root(spec: dict[str, Any], bundle: Path) -> None:
    account = account_of(spec["account"])
    if spec["archive"]:
        image = open_named("image", spec["image"], spec["allowed"], account)
        archive = open_archive(image, spec["image"], account)
        link_lower(Images(Path(spec["cache"])).unpacked(archive, bundle), bundle)
    with contextlib.ExitStack() as held:
        # The image was unpacked by the agent, or its user's rights were asked for when it was bound, as the volumes'.
        image = held.enter_context(opened(bundle / LOWER, os.O_PATH | os.O_DIRECTORY, links=True))
        roots = [Root(to="/", fd=image, account=None if spec["archive"] else account)]
        for at, to in spec["roots"]:
            roots.append(Root(to=to, fd=held.enter_context(opened(at)), account=account))
        find_command(spec["command"], spec["cwd"], spec["path"], roots)
        if spec["layered"]:
            lay_over(image, bundle)
        else:
            copy(bundle)


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
