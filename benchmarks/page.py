"""The web page of a cluster of 5,000 nodes and 20,000 jobs: how soon each part is there, by the server's own time and
in Chromium, and how many bytes it takes; what 50 open pages cost their master, and what it costs when none is open.

Chromium and its driver have to be installed (`make test-tools`); without them only the server's times are taken, and
that is said.
"""

from __future__ import annotations

import gzip
import shutil
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from benchmarks.report import Report
from gosched.cli.local_cluster import LocalCluster
from tests.integration.simulated import large_cluster

PATHS = {
    "overview": "/",
    "jobs": "/jobs",
    "jobs_filtered": "/jobs?label=team%3Dteam-3&name=llm",
    "job": "/jobs/llm-00000",
    "queues": "/queues",
    "nodes": "/nodes",
    "schedule": "/schedule",
}
VIEWERS = 50
OPEN_S = 60.0  # for one more of them to be open
FRAGMENT = {"HX-Request": "true"}  # what an open page asks for again


def server_times(report: Report, http: str) -> None:
    """From the request to the last byte, without a browser; each time another query, so that no answer is shared."""
    times = 3 if report.smoke else 20
    for name, path in PATHS.items():
        took, size, packed = [], 0, 0
        for i in range(times):
            began = time.perf_counter()
            body = _get(f"http://{http}{path}{'&' if '?' in path else '?'}x={i}")
            took.append(1000 * (time.perf_counter() - began))
            size, packed = len(body), len(gzip.compress(body))
        report.add(f"page_{name}_server_p50", statistics.median(took), "ms", times)
        report.add(f"page_{name}_bytes", size, "B", 1)
        report.add(f"page_{name}_bytes_packed", packed, "B", 1)


def browser_times(report: Report, http: str) -> None:
    """From the start of the navigation to the end of `load`, scripts and styles from the browser's cache."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("Chromium is not installed: no times in a browser are taken (make test-tools)")
        return
    from tests.integration.browser import chromium  # selenium is a tool of development

    times = 2 if report.smoke else 10
    with chromium() as browser:
        browser.open(f"http://{http}/")
        for name, path in PATHS.items():
            took = [browser.open(f"http://{http}{path}")["loaded_ms"] for _ in range(times)]
            report.add(f"page_{name}_loaded_p50", statistics.median(took), "ms", times)
            report.add(f"page_{name}_loaded_max", max(took), "ms", times)


def costs(report: Report, cluster: LocalCluster) -> None:
    """CPU of the leader's front: with no page open, and with many that refresh as often as they may while jobs come."""
    leader = cluster.leader()
    front = psutil.Process(leader.pid)
    seconds = 3.0 if report.smoke else 20.0
    report.add("page_idle_cpu", _cpu_share(front, seconds), "% of a core", 1)
    with _submissions(cluster):
        report.add("page_0_viewers_cpu", _cpu_share(front, seconds), "% of a core", 1)
        count = 4 if report.smoke else VIEWERS
        with _viewers(leader.http, count):
            report.add(f"page_{count}_viewers_cpu", _cpu_share(front, seconds), "% of a core", count)


def _cpu_share(process: psutil.Process, seconds: float) -> float:
    def used() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    before, began = used(), time.monotonic()
    time.sleep(seconds)
    return 100 * (used() - before) / (time.monotonic() - began)


@contextmanager
def _submissions(cluster: LocalCluster) -> Iterator[None]:
    """Submit two jobs a second, so that there is something to show."""
    over = threading.Event()

    def work() -> None:
        with cluster.client() as client:
            for i in range(10**6):
                if over.wait(0.5):
                    return
                client.submit(f"name: more-{i}\nqueue: batch\nresources: {{cpu: 1, memory: 1Mi}}\nrun: 'true'\n")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)


@contextmanager
def _viewers(http: str, count: int) -> Iterator[None]:
    """Open the stream of changes as often as so many pages do, and ask for the page again at each change, at most every
    other second, as `live.js` does. They look at different parts. It begins once each has its stream and its page."""
    over = threading.Event()
    open_pages = threading.Semaphore(0)
    paths = [*PATHS.values()]

    def work(i: int) -> None:
        with urllib.request.urlopen(f"http://{http}/ui/changes", timeout=60) as stream:
            asked = 0.0
            for line in stream:
                if over.is_set():
                    return
                if line.startswith(b"data:") and time.monotonic() - asked > 2.0:
                    is_first, asked = not asked, time.monotonic()
                    _get(f"http://{http}{paths[i % len(paths)]}", FRAGMENT)
                    if is_first:
                        open_pages.release()

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    try:
        for i in range(count):
            if not open_pages.acquire(timeout=OPEN_S):
                raise RuntimeError(f"{i} of {count} pages are open, and no other one within {OPEN_S:.0f} s")
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(10)


def _get(url: str, headers: dict[str, str] | None = None) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=60) as answer:
        return bytes(answer.read())


def main() -> None:
    report = Report()
    nodes, jobs = (40, 200) if report.smoke else (5_000, 20_000)
    with large_cluster(nodes=nodes, jobs=jobs) as cluster:
        http = cluster.leader().http
        server_times(report, http)
        browser_times(report, http)
        costs(report, cluster)


if __name__ == "__main__":
    main()
