"""Times from a fault to the next acknowledged submission, and what a master says of its term."""

from __future__ import annotations

import itertools
import re
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress

from gosched.cli.local_cluster import LocalCluster
from gosched.cli.local_program import Program
from gosched.client import GoSchedClient, GoSchedError

_names = itertools.count()


def submit(client: GoSchedClient) -> None:
    client.submit(f"name: probe-{next(_names)}\nrun: 'true'\n")


def time_to_commit(cluster: LocalCluster, fault: Callable[[], object], *, limit_s: float = 60.0) -> float:
    """Seconds from the fault until a submission is acknowledged again. Raises AssertionError beyond the limit."""
    with cluster.client(timeout_s=10.0) as client:
        submit(client)
        fault()
        began = time.monotonic()
        while True:
            with suppress(GoSchedError):
                submit(client)
                took_s = time.monotonic() - began
                print(f"the next commit came {took_s:.2f} s after the fault")
                return took_s
            assert time.monotonic() - began < limit_s, f"nothing was committed in {limit_s:.0f} s"


def raft_term(master: Program) -> int:
    """As its metrics say. The master must be reachable from here."""
    with urllib.request.urlopen(f"http://{master.http}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.search(r"^gosched_raft_term(?:{[^}]*})? ([0-9.e+]+)$", text, re.MULTILINE)
    assert found is not None
    return int(float(found[1]))
