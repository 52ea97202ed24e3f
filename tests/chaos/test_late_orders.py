"""A node is cut off just after an order was pushed to it, and is given up; the network keeps the order, and delivers it
after the heal, when the node is registered anew. What it starts then was replaced long ago. Needs root, `ip`, `nsenter`
and TAP devices.

For recovery times: `python -m tests.chaos.test_late_orders ROUNDS`.
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

LEASE = {"node_timeout": "1s", "first_lease": "2s", "heartbeat": "250ms"}
HEAL_S = 2.5  # after the push: the node was given up, and the second attempt has ended
LATE_S = 4.7  # after the push; its call ends after 5 s, and takes its order with it
ROUNDS = 3  # on a busy machine the node may not be back when the order comes
REFUSED = ("an order does not count", "came too late")


@pytest.mark.timeout(180)
def test_an_attempt_that_was_given_up_never_starts_though_its_order_comes_late(tmp_path: Path) -> None:
    seen = []
    while not any("this is registration" in why for why in seen):
        assert len(seen) < ROUNDS, f"the order never came to a node that was registered anew: {seen}"
        why, recovered_s = late_order(tmp_path / str(len(seen)))
        print(f"the order was refused: {why}; the job had ended {recovered_s:.1f} s after the cut")
        seen.append(why)


def late_order(directory: Path) -> tuple[str, float]:
    """Return why the old order was refused, and how long after the cut the job's second attempt had ended."""
    directory.mkdir(exist_ok=True)
    ledger = directory / "attempts"
    with (
        HostCluster(directory / "c", masters=1, agents=2, settings={"lease": LEASE}, long_wires=True) as cluster,
        cluster.client() as client,
    ):
        first, second = cluster.agents.values()
        client.submit("name: warm\nrun: 'true'\ncount: 2\nplacement: {spread: [{level: node, max_skew: 1}]}\n")
        client.wait("warm", timeout=60)  # so that there are connections for orders
        client.cordon(second.id)
        cluster.hosts.delay(first.id, int(LATE_S * 1000), port=int(first.grpc.rpartition(":")[2]))
        client.submit(
            "name: once\non_disconnect: stop\nretry: {max: 3, backoff: 0s}\n"
            f"run: echo $GOSCHED_ATTEMPT >> {ledger}; sleep 0.3\n"
        )
        until(lambda: client.get_job("once").job.state is JobState.RUNNING, "the order is on its way")
        pushed_at, old = time.monotonic(), client.get_job("once").tasks[0].allocation_id
        time.sleep(0.3)  # until the order is on the wire: the cut would keep it back
        cluster.hosts.cut_off(first.id)
        client.uncordon(second.id)
        client.wait("once", timeout=60)
        recovered_s = time.monotonic() - pushed_at
        assert ledger.read_text() == "2\n"
        time.sleep(max(0.0, pushed_at + HEAL_S - time.monotonic()))
        cluster.hosts.join(first.id)
        until(lambda: refusals(first.log.read_text(), old), "the old order came")
        assert ledger.read_text() == "2\n"
        cluster.hosts.delay(first.id, 0)
        client.submit("name: new\ncount: 2\nplacement: {spread: [{level: node, max_skew: 1}]}\nrun: 'true'\n")
        client.wait("new", timeout=60)  # both nodes take new work
        assert ledger.read_text() == "2\n"
        return refusals(first.log.read_text(), old)[0], recovered_s


def refusals(log: str, allocation: str) -> list[str]:
    return [line for line in log.splitlines() if any(why in line for why in REFUSED) and allocation in line]


def main(rounds: int) -> None:
    recovered_s = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as directory:
            why, took_s = late_order(Path(directory))
            recovered_s.append(took_s)
            print(f"recovered in {took_s:.1f} s; the order: {why}")
    print(f"recovered in: median {statistics.median(recovered_s):.1f} s, worst {max(recovered_s):.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]))
