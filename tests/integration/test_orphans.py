"""A cgroup of a task that the agent does not know: the masters are heard before anything is killed.

Needs root and cgroup v2 (on a hybrid host without controllers, too).
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.agent.conftest import wait_for
from tests.integration.hostile import Node


def test_a_cgroup_with_processes_that_nobody_knows_is_left_alone_until_a_master_has_spoken(open_path: Path) -> None:
    node = Node(open_path, "node").start()
    try:
        (tree,) = node.tree()
        stranger = tree / "tasks" / "stranger%2F0.1"
        stranger.mkdir()
        with subprocess.Popen(["sleep", "600"]) as process:
            try:
                (stranger / "cgroup.procs").write_text(str(process.pid))
                node.agent.end(signal.SIGKILL)
                node.master.vanish()
                node.agent.lines.clear()
                node.agent.launch()
                wait_for(lambda: any("a master does not answer" in line for line in node.agent.lines))
                assert process.poll() is None
                assert stranger.exists()
                node.master.serve()
                assert process.wait(30) == -signal.SIGKILL
            finally:
                process.kill()
        wait_for(lambda: not stranger.exists())
        wait_for(lambda: any("a cgroup of no known task is removed" in line for line in node.agent.lines))
    finally:
        node.close()
