"""Masters and agents whose stderr is a pipe that nobody reads go on as if it were read."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

import pytest

from gosched.cli.local_cluster import LocalCluster
from gosched.cli.local_program import Program

from .support import PATIENCE_S, until

_PIPE_BYTES = 4096
_JOBS = 100  # each of several log lines


def unread(stack: contextlib.ExitStack, program: Program) -> None:
    """Its log becomes a pipe of the least size, which is never read."""
    os.mkfifo(program.log)
    reader = os.open(program.log, os.O_RDONLY | os.O_NONBLOCK)
    stack.callback(os.close, reader)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


@pytest.mark.timeout(300)
def test_a_cluster_goes_on_though_nobody_reads_what_it_logs(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        cluster = LocalCluster(tmp_path / "c", masters=3, agents=1, settings={"log_level": "debug"})
        for program in cluster.programs:
            unread(stack, program)
        stack.enter_context(cluster)
        client = stack.enter_context(cluster.client())
        leader = cluster.leader()
        jobs = [client.submit(f"name: job-{i}\nresources: {{cpu: 10m}}\nrun: 'true'\n").job_id for i in range(_JOBS)]
        for job in jobs:
            assert client.wait(job, timeout=PATIENCE_S).state.name == "SUCCEEDED"
        assert cluster.leader() is leader
        until(lambda: sum(m.healthy for m in client.get_status().masters) == 3, "all masters are healthy")
