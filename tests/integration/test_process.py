"""The example of a plain command on a whole cluster: another user, with limits of its own. Needs root."""

from __future__ import annotations

import os
from pathlib import Path

from gosched.cli.local_cluster import LocalCluster
from tests.integration.support import goschedctl

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_example_runs_as_its_user_within_its_limits() -> None:
    assert os.geteuid() == 0, "this test needs root: only root can run tasks as another user"
    with LocalCluster(masters=1, agents=1) as cluster:
        done = goschedctl(cluster.endpoints, "submit", "--wait", str(EXAMPLES / "process.yaml"))
        assert done.returncode == 0, done.stderr
        said = goschedctl(cluster.endpoints, "logs", "process").stdout
    assert "I am nobody in " in said
    assert "with 1024 to 4096 open files and umask 0027" in said
    assert said.endswith("step 3 of 3\n")
