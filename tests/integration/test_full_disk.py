"""The disk of an agent is suddenly full: jobs that it could not start are placed again at no cost. Needs root."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from tests.integration.support import PATIENCE_S, ledger_job, starts, until

JOBS = 5


def test_jobs_that_a_full_disk_kept_from_starting_run_elsewhere_though_they_want_no_retries(tmp_path: Path) -> None:
    home = tmp_path / "c"
    mount = home / "agent-1"
    mount.mkdir(parents=True)
    tmp_path.chmod(0o711)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(mount)], check=True, timeout=20)
    try:
        # It does not look for what is free: it learns from what fails, as if that came between two looks.
        small = AgentShape(settings={"disk_free_pct": 0, "heartbeat": "500ms"})
        with LocalCluster(home, masters=1, agents=[small]) as cluster, cluster.client() as client:
            filler = mount / "filler"
            with filler.open("wb", buffering=0) as file:
                try:
                    while file.write(bytes(4096)):
                        pass
                except OSError:
                    pass
            ledger = tmp_path / "ledger"
            for number in range(JOBS):
                client.submit(ledger_job(f"job-{number}", ledger, more="retry: {max: 0, backoff: 0s}"))
            until(lambda: any(job.attempt > 1 for job in client.list_jobs()), "one has been given back")
            until(lambda: client.list_nodes()[0].node.state is NodeState.CORDONED, "the node closes itself")
            assert "No space left on device" in client.list_nodes()[0].node.reason
            assert not starts(ledger)
            cluster.add_agent()
            for number in range(JOBS):
                done = client.wait(f"job-{number}", timeout=PATIENCE_S)
                assert (done.state, done.job.restarts) == (JobState.SUCCEEDED, 0)
            assert len(starts(ledger)) == JOBS
            filler.unlink()
            until(lambda: all(n.node.state is NodeState.READY for n in client.list_nodes()), "the node opens itself")
    finally:
        subprocess.run(["umount", "--lazy", str(mount)], check=True, timeout=20)
