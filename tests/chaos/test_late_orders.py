"""A node is cut off at the moment when an order is pushed to it, and is given up; the kernel keeps the order, and
delivers it after the heal. What it starts then was replaced long ago. Needs root, `ip` and `nsenter`.

For longer cuts: `python -m tests.chaos.test_late_orders 12 20 30`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import pytest

from gosched.core.records.job import JobState
from tests.chaos.hosts import HostCluster
from tests.integration.support import until

LEASE = {"node_timeout": "2s", "first_lease": "3s", "heartbeat": "500ms"}
LATEST_S = 60.0  # the kernel sends again after 0.2, 0.6, 1.4, ... 25, 51 s


@pytest.mark.timeout(300)
def test_an_attempt_that_was_given_up_never_starts_though_its_order_comes_late(tmp_path: Path) -> None:
    late, recovered_s = cut_at_a_push(tmp_path, cut_s=5.0, lease=LEASE)
    print(f"the order came {late:.1f} s after the heal, the job had ended {recovered_s:.1f} s after the cut")


def cut_at_a_push(directory: Path, *, cut_s: float, lease: dict[str, str]) -> tuple[float, float]:
    """Return how long after the heal the old order came, and how long after the cut the job's second attempt had
    ended."""
    ledger = directory / "attempts"
    with (
        HostCluster(directory / "c", masters=1, agents=1, settings={"lease": lease}) as cluster,
        cluster.client() as client,
    ):
        (first,) = cluster.agents.values()
        (master,) = cluster.masters
        cluster.hosts.keep_way(master, first.id)
        client.submit("name: warm\nrun: 'true'\n")  # so that there is a connection for orders
        client.wait("warm", timeout=60)
        cluster.hosts.cut_off(first.id)
        cut_at = time.monotonic()
        client.submit(
            "name: once\non_disconnect: stop\nretry: {max: 3, backoff: 0s}\n"
            f"run: echo $GOSCHED_ATTEMPT >> {ledger}; sleep 0.3\n"
        )
        until(lambda: client.get_job("once").job.state is JobState.RUNNING, "the order is on its way")
        cluster.add_agent()
        client.wait("once", timeout=60)
        recovered_s = time.monotonic() - cut_at
        assert ledger.read_text() == "2\n"
        time.sleep(max(0.0, cut_at + cut_s - time.monotonic()))
        cluster.hosts.join(first.id)
        healed_at = time.monotonic()
        until(lambda: client.get_status().nodes_ready == 2, "the node is back")
        old_order = ("an order does not count", "task ordered", "came too late")
        began = first.log.read_text().count(old_order[1])  # the one before the cut
        until(
            lambda: sum(first.log.read_text().count(line) for line in old_order) > began, "the old order came", LATEST_S
        )
        late = time.monotonic() - healed_at
        assert ledger.read_text() == "2\n"
        client.submit("name: new\ncount: 2\nplacement: {spread: [{level: node, max_skew: 1}]}\nrun: 'true'\n")
        client.wait("new", timeout=60)  # both nodes take new work
        assert ledger.read_text() == "2\n"
        return late, recovered_s


def main(cuts_s: list[float]) -> None:
    usual = {"node_timeout": "10s", "first_lease": "15s"}
    found = []
    for cut_s in cuts_s:
        with tempfile.TemporaryDirectory() as directory:
            found.append(cut_at_a_push(Path(directory), cut_s=cut_s, lease=usual))
            print(f"cut for {cut_s:g} s: the order came {found[-1][0]:.1f} s late, recovered in {found[-1][1]:.1f} s")
    for name, values in (("came after", [late for late, _ in found]), ("recovered in", [s for _, s in found])):
        print(f"{name}: median {statistics.median(values):.1f} s, worst {max(values):.1f} s")


if __name__ == "__main__":
    main([float(word) for word in sys.argv[1:]])
