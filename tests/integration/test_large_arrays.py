"""An array of 100,000 beside other people's work: nobody notices it, and no master loses the lead."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gosched.cli.local_cluster import LocalCluster
from gosched.client import GoSchedClient
from gosched.core.limits import DEFAULT_PARALLEL, KEPT_ELEMENTS
from gosched.core.records.job import JobState

from .support import PATIENCE_S, ledger_job, until

SIZE = 100_000
KEPT = 50


@pytest.mark.timeout(900)  # it takes two minutes where nothing else runs
def test_an_array_of_100000_leaves_the_leader_and_the_jobs_of_others_alone(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    # Masters that share two processors with other tests wait for them at times: an election is not the array's doing
    # before it has kept them for longer than that.
    settings = {"retention": {"max_jobs": 4 * KEPT}, "raft": {"max_round_trip": "800ms"}}
    with LocalCluster(masters=3, agents=2, settings=settings) as cluster, cluster.client() as client:
        mine = [client.submit(ledger_job(f"mine-{n}", ledger, more="tenant: mine")).job_id for n in range(KEPT)]
        for job in mine:
            assert client.wait(job, timeout=PATIENCE_S).state is JobState.SUCCEEDED
        epoch = client.get_status().epoch

        array = f"tenant: other\narray: {{range: 0-{SIZE - 1}}}"
        large = client.submit(ledger_job("large", tmp_path / "other", cpu="200m", more=array)).job_id
        until(
            lambda: client.get_job(large).job.children.live >= DEFAULT_PARALLEL,
            f"{DEFAULT_PARALLEL} elements live at once, though the array names no number",
        )
        until(lambda: client.get_job(large).job.children.succeeded > 100, "some have ended")
        slowest = _slowest_submit(client, ledger)
        client.cancel(large)
        slowest = max(slowest, _slowest_submit(client, ledger, tag="meanwhile"))
        done = client.wait(large, timeout=2 * PATIENCE_S).job
        assert (done.state, done.children.live) == (JobState.CANCELLED, 0)
        count = done.children
        assert count.made == count.succeeded + count.failed + count.cancelled < SIZE

        until(lambda: len(_elements(client, large)) <= 4 * KEPT, "its elements are folded into its counts")
        assert len(_elements(client, large)) <= KEPT_ELEMENTS
        there = {job.id for job in client.list_jobs()}
        assert set(mine) <= there, "the jobs of others are still listed"
        assert client.get_job(large).job.children == count
        assert client.get_status().epoch == epoch, "no other master had to take over"
        assert slowest < 5.0


def _slowest_submit(client: GoSchedClient, ledger: Path, tag: str = "beside") -> float:
    """Seconds that others wait for an answer."""
    slowest = 0.0
    for n in range(10):
        began = time.monotonic()
        client.submit(ledger_job(f"{tag}-{n}", ledger, cpu="1000", more="tenant: mine"))
        slowest = max(slowest, time.monotonic() - began)
    return slowest


def _elements(client: GoSchedClient, large: str) -> list[str]:
    return [job.id for job in client.list_jobs() if job.parent == large]
