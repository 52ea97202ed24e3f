"""The REST API of a real cluster of three masters on loopback: status, a page of 100 jobs out of 100,000, submissions,
batches of 10,000, on the leader and through a follower. (Listeners of events: `benchmarks/history.py`.)

Latencies are of one caller by itself, requests per second of 16 callers, each with a connection that stays open. The
jobs are held, so that nothing is planned meanwhile.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from functools import partial
from itertools import count

from benchmarks.report import Report
from gosched.cli.local_cluster import LocalCluster

CALLERS = 16
TIMEOUT_S = 120.0
SETTINGS = {"retention": {"max_jobs": 100_000}}

Request = Callable[[http.client.HTTPConnection], None]


class Caller:
    """Requests of one kind to one master."""

    def __init__(self, address: str, method: str, path: str, body: Callable[[], bytes] | None = None) -> None:
        self._address = address
        self._method = method
        self._path = path
        self._body = body

    @contextmanager
    def connection(self) -> Iterator[http.client.HTTPConnection]:
        made = http.client.HTTPConnection(self._address, timeout=TIMEOUT_S)
        try:
            yield made
        finally:
            made.close()

    def ask(self, connection: http.client.HTTPConnection) -> bytes:
        body = self._body() if self._body else None
        connection.request(self._method, self._path, body=body, headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = answer.read()
        if answer.status not in (200, 201):
            raise SystemExit(f"{self._method} {self._path}: {answer.status} {found[:500]!r}")
        return found

    def latencies_s(self, n: int) -> list[float]:
        took = []
        with self.connection() as connection:
            self.ask(connection)
            for _ in range(n):
                began = time.perf_counter()
                self.ask(connection)
                took.append(time.perf_counter() - began)
        return sorted(took)

    def rate(self, n: int) -> float:
        def work(_: int) -> None:
            with self.connection() as connection:
                for _ in range(n // CALLERS):
                    self.ask(connection)

        began = time.perf_counter()
        with futures.ThreadPoolExecutor(CALLERS) as pool:
            list(pool.map(work, range(CALLERS)))
        return n // CALLERS * CALLERS / (time.perf_counter() - began)


def measure(report: Report, name: str, caller: Caller, n: int) -> None:
    took = caller.latencies_s(n)
    report.add(f"http_{name}_p50", took[n // 2], "s", n)
    report.add(f"http_{name}_p99", took[n * 99 // 100], "s", n)
    report.add(f"http_{name}_rate", caller.rate(n), "requests/s", n)


def jobs(prefix: str, n: int) -> bytes:
    made = [
        {"name": f"{prefix}-{i}", "run": "true", "hold": True, "labels": {"team": f"t{i % 50}"}, "tenant": f"n{i % 10}"}
        for i in range(n)
    ]
    return json.dumps(made).encode()


def batches(report: Report, address: str, where: str, prefix: str, rounds: int, size: int) -> None:
    took = []
    for number in range(rounds):
        body = jobs(f"{prefix}{number}", size)
        caller = Caller(address, "POST", "/api/v1/jobs:batch", partial(bytes, body))
        began = time.perf_counter()
        with caller.connection() as connection:
            answer = json.loads(caller.ask(connection))
        took.append(time.perf_counter() - began)
        if answer["submitted"] != size:
            raise SystemExit(f"{answer['submitted']} of {size} jobs were submitted: {answer['outcomes'][:2]}")
    took.sort()
    report.add(f"http_batch_10000{where}_p50", took[len(took) // 2], "s", len(took))
    report.add(f"http_batch_10000{where}_max", took[-1], "s", len(took))
    report.add(f"http_batch_jobs{where}_rate", size * rounds / sum(took), "jobs/s", size * rounds)


def main() -> None:
    report = Report()
    n = 64 if report.smoke else 800
    size, rounds = (100, 2) if report.smoke else (10_000, 5)
    with LocalCluster(masters=3, agents=0, settings=SETTINGS) as cluster, cluster.client() as client:
        leader = client.get_status().leader
        follower = next(name for name in cluster.masters if name != leader)
        at = {"": cluster.masters[leader].http, "_follower": cluster.masters[follower].http}
        for where, address in at.items():
            batches(report, address, where, f"batch{where}", rounds, size)
        numbers = count()
        for where, address in at.items():

            def one(where: str = where) -> bytes:
                return json.dumps({"name": f"one{where}-{next(numbers)}", "run": "true", "hold": True}).encode()

            measure(report, f"status{where}", Caller(address, "GET", "/api/v1/status"), n)
            measure(report, f"list_100_of_100k{where}", Caller(address, "GET", "/api/v1/jobs?page_size=100"), n)
            some = "/api/v1/jobs?page_size=100&fields=id,name,state,queue"
            measure(report, f"list_100_fields{where}", Caller(address, "GET", some), n)
            measure(report, f"list_100_stale{where}", Caller(address, "GET", f"{some}&stale=true"), n)
            tenant = "/api/v1/jobs?page_size=100&tenant=n3&sort=name"
            measure(report, f"list_100_sorted_of_100k{where}", Caller(address, "GET", tenant), n // 8 or 1)
            measure(report, f"submit{where}", Caller(address, "POST", "/api/v1/jobs", one), n)


if __name__ == "__main__":
    main()
