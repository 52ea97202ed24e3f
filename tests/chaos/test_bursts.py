"""Bursts of HTTP requests on a machine whose processors are busy hand the lead to nobody and end no task.

`GOSCHED_CHAOS_ROUNDS=N` for more bursts.
"""

from __future__ import annotations

import http.client
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from gosched.core.records.job import JobState
from tests.chaos.hosts import HostCluster
from tests.integration.support import PATIENCE_S, until

BURNERS = 12
REQUESTS = 200  # of a burst, at once
PATHS = ("/api/v1/jobs?page_size=200", "/jobs", "/", "/api/v1/status", "/api/v1/nodes")


@pytest.mark.timeout(300)
def test_bursts_of_requests_on_a_busy_machine_hand_the_lead_to_nobody(tmp_path: Path) -> None:
    rounds = int(os.environ.get("GOSCHED_CHAOS_ROUNDS", "3"))
    with HostCluster(tmp_path / "c", masters=3, agents=1) as cluster, cluster.client(timeout_s=60) as client:
        client.submit("name: stops\nrun: sleep 1000\non_disconnect: stop\nresources: {cpu: 100m}\n")
        for number in range(300):
            client.submit(f"name: held-{number}\nhold: true\nrun: 'true'\n")
        until(lambda: client.get_job("stops").job.state is JobState.RUNNING, "the task runs")
        leader, epoch = cluster.leader(), client.get_status().epoch
        took = []
        with burning(), ThreadPoolExecutor(REQUESTS) as pool:
            for _ in range(rounds):
                began = time.monotonic()
                asked = pool.map(lambda i: status_of(leader.http, PATHS[i % len(PATHS)]), range(REQUESTS))
                assert set(asked) <= {200, 429, 0}  # 429: that is many for one caller
                took.append(time.monotonic() - began)
        print(f"a burst took: median {statistics.median(took):.1f} s, worst {max(took):.1f} s of {rounds}")
        assert client.get_status().epoch == epoch
        job = client.get_job("stops").job
        assert (job.state, job.attempt) == (JobState.RUNNING, 1)
        client.cancel("stops")
        assert client.wait("stops", timeout=PATIENCE_S).state is JobState.CANCELLED


def status_of(address: str, path: str) -> int:
    """Return 0 where no answer came in time."""
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except TimeoutError:
        return 0
    finally:
        connection.close()


@contextmanager
def burning() -> Iterator[None]:
    """Processes that want all processors."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BURNERS)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()
