"""What crowds cost a leader: how long lists and pages keep its event loop at a stretch, with 5,000 nodes and 10,000
jobs; what becomes of nodes whose heartbeats bring it to 80 % of a core, while pages and lists are read; and how often
the lead is handed on where bursts of requests meet a busy machine.

    python -m benchmarks.overload [stretches|load|burst] [AGENTS] [--smoke]

AGENTS: how many there are under `load`, in place of as many as bring the leader to 80 %.

A stretch is one callback of the loop. The leader's are noted by a `sitecustomize` that this benchmark puts on its path;
they are given in the leader's own processor time, since other programs may interrupt it.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.report import Report
from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient
from tests.integration.simulated import large_cluster

PARTS = ("stretches", "load", "burst")
PATHS = {
    "rest_nodes": "/api/v1/nodes",
    "rest_node": "/api/v1/nodes/node-00001",
    "rest_jobs": "/api/v1/jobs?page_size=1000",
    "page_overview": "/",
    "page_nodes": "/nodes",
    "page_jobs": "/jobs",
    "page_schedule": "/schedule",
    "page_queues": "/queues",
    "metrics": "/metrics",
}
COMMANDS = {
    "node_list": ("node", "list"),
    "node_list_json": ("node", "list", "-o", "json"),
    "job_list": ("job", "list", "-a"),
    "top_nodes": ("top", "nodes"),
}
PROBE = """
import asyncio, os, threading, time
from pathlib import Path

def _watch(run, folder):
    main, file = threading.main_thread().ident, None
    def noted(handle):
        nonlocal file
        if threading.get_ident() != main:
            return run(handle)
        began, cpu = time.monotonic(), time.thread_time()
        what = getattr(handle._callback, "__self__", None)
        run(handle)
        took = time.thread_time() - cpu
        if took > 0.004:
            file = file or open(Path(folder, str(os.getpid())), "a", buffering=1)
            coroutine = what.get_coro() if isinstance(what, asyncio.Task) else handle._callback
            file.write(f"{took:.4f} {time.monotonic() - began:.4f} {getattr(coroutine, '__qualname__', coroutine)}\\n")
    return noted

if folder := os.environ.get("STRETCHES"):
    asyncio.events.Handle._run = _watch(asyncio.events.Handle._run, folder)
"""
LEASE = {"lease": {"heartbeat": "5s", "node_timeout": "10s", "first_lease": "15s"}}
BURNERS = 60
BURST = 200  # requests at once
BURST_PATHS = ("/api/v1/jobs?page_size=200", "/jobs", "/", "/api/v1/status", "/api/v1/nodes")


@contextmanager
def noted_stretches() -> Iterator[Callable[[int], list[tuple[float, float, str]]]]:
    """Yield what returns the stretches of a process since it was asked last: processor time, time, what it was."""
    with tempfile.TemporaryDirectory() as name:
        folder, seen = Path(name), dict[int, int]()
        (folder / "sitecustomize.py").write_text(PROBE)
        before = os.environ.get("PYTHONPATH", "")
        os.environ.update(PYTHONPATH=f"{folder}{os.pathsep}{before}", STRETCHES=name)

        def since(pid: int) -> list[tuple[float, float, str]]:
            file = folder / str(pid)
            lines = file.read_text().splitlines() if file.exists() else []
            new, seen[pid] = lines[seen.get(pid, 0) :], len(lines)
            return [(float(cpu), float(took), what) for cpu, took, what in (line.split(" ", 2) for line in new)]

        try:
            yield since
        finally:
            os.environ["PYTHONPATH"] = before
            del os.environ["STRETCHES"]


def get(address: str, path: str, timeout_s: float = 120.0) -> int:
    connection = http.client.HTTPConnection(address, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def goschedctl(cluster: LocalCluster, *words: str) -> int:
    command = [sys.executable, "-m", "gosched.cli.main", "--endpoints", cluster.endpoints, *words]
    return subprocess.run(command, stdout=subprocess.DEVNULL, timeout=300, check=False).returncode


def stretches(report: Report) -> None:
    """Read each list and page, twice; the longest stretch of the leader's loop meanwhile."""
    nodes, jobs = (200, 400) if report.smoke else (5_000, 10_000)
    with noted_stretches() as since, large_cluster(nodes=nodes, jobs=jobs) as cluster:
        leader = cluster.leader()
        _settle(cluster)
        reads: dict[str, Callable[[], object]] = {
            name: lambda path=path: get(leader.http, path)  # type: ignore[misc]
            for name, path in PATHS.items()
        }
        reads |= {name: lambda words=words: goschedctl(cluster, *words) for name, words in COMMANDS.items()}  # type: ignore[misc]
        for name, read in reads.items():
            read()  # what is made once, at the first call, is not what is measured
            time.sleep(1.2)
            since(leader.pid)
            began = time.perf_counter()
            for _ in range(2):
                read()
                time.sleep(1.2)  # pages share what was made a moment ago
            took = (time.perf_counter() - began) / 2 - 1.2
            longest = max(since(leader.pid), default=(0.0, 0.0, "none"))
            report.add(f"overload_stretch_{name}", 1000 * longest[0], "ms", 2)
            report.add(f"overload_time_{name}", 1000 * took, "ms", 2)
            print(f"    {longest[2]}")


def _settle(cluster: LocalCluster) -> None:
    """Wait until the leader is idle: a cycle over thousands of jobs is not what is measured."""
    front = psutil.Process(cluster.leader().pid)
    ends = time.monotonic() + 60
    while front.cpu_percent(1.0) > 20 and time.monotonic() < ends:
        pass


def load(report: Report, agents_wanted: int = 0) -> None:
    """As many agents as bring the leader to 80 %; then two reads of /nodes, a `node list` and a `job list`, twice."""
    wanted, seconds = (40, 5.0) if report.smoke else (agents_wanted, 60.0)
    with LocalCluster(masters=3, agents=0, settings=LEASE) as cluster, cluster.client(timeout_s=120) as client:
        leader = cluster.leader()
        front = psutil.Process(leader.pid)
        with _agents(cluster, wanted or 200) as agents:
            count = wanted or 200
            while not wanted and (share := _steady(front)) < 78.0 and count < 6_000:
                count = min(max(count + 100, int(count * min(80.0 / max(share, 1.0), 2.0))), 6_000)
                agents.grow(count)
            share = _steady(front)
            before = agents.registered()
            agents.late_s()
            _fill(client, 20 if report.smoke else 2_000)
            epoch = client.get_status().epoch
            with ThreadPoolExecutor(8) as pool:
                for _ in range(2):
                    asked = [pool.submit(get, leader.http, "/api/v1/nodes") for _ in range(2)]
                    asked += [pool.submit(goschedctl, cluster, kind, "list") for kind in ("node", "job")]
                    asked += [pool.submit(get, leader.http, path) for path in ("/", "/nodes", "/jobs")]
                    ends = time.monotonic() + seconds / 2
                    for one in asked:
                        one.result()
                    time.sleep(max(0.0, ends - time.monotonic()))
            status = client.get_status()
            report.add("overload_agents_late_max", agents.late_s(), "s", count)
            report.add("overload_agents", count, "nodes", 1)
            report.add("overload_leader_cpu", share, "% of a core", 1)
            report.add("overload_deaths", agents.registered() - before, "registrations", count)
            report.add("overload_not_ready", status.nodes - status.nodes_ready, "nodes", count)
            report.add("overload_epochs", status.epoch - epoch, "epochs", 1)


def _steady(front: psutil.Process) -> float:
    """Return the share of a core once it has come to rest."""
    time.sleep(8.0)
    return front.cpu_percent(6.0)


def _fill(client: GoSchedClient, jobs: int) -> None:
    """Submit jobs that are held."""
    for first in range(0, jobs, 500):
        text = "---\n".join(f"name: j-{i}\nhold: true\nrun: 'true'\n" for i in range(first, min(first + 500, jobs)))
        client.submit(text) if jobs == 1 else _submit_all(client, text)


def _submit_all(client: GoSchedClient, text: str) -> None:
    from gosched.config import parse_job_file

    client.submit_all(list(parse_job_file(text, "jobs")))


class Agents:
    """A process of simulated agents (`benchmarks/beating.py`)."""

    def __init__(self, endpoints: str) -> None:
        command = [sys.executable, "-m", "benchmarks.beating", endpoints]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def grow(self, count: int) -> None:
        """Return once so many agents are registered and beat."""
        self._ask(f"grow {count}")

    def registered(self) -> int:
        """Return how many registrations there were in all."""
        return int(self._ask("registered"))

    def late_s(self) -> float:
        """Return the longest that their own process was late since it was asked last."""
        return float(self._ask("late"))

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("the simulated agents have ended")
        return answer.strip()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def _agents(cluster: LocalCluster, count: int) -> Iterator[Agents]:
    agents = Agents(cluster.endpoints)
    try:
        agents.grow(count)
        yield agents
    finally:
        agents.close()


def burst(report: Report) -> None:
    """Bursts of requests to the leader of a busy machine: how often another one leads, and what becomes of a task that
    is to stop without its masters."""
    burners, bursts = (2, 1) if report.smoke else (BURNERS, 12)
    shape = AgentShape(resources={"cpu": 4, "memory": "8Gi"})
    with LocalCluster(masters=3, agents=[shape], settings=LEASE) as cluster, cluster.client(timeout_s=60) as client:
        job = client.submit("name: stops\nrun: sleep 1000\non_disconnect: stop\nresources: {cpu: 100m}\n").job_id
        _fill(client, 20 if report.smoke else 1_000)
        ends = time.monotonic() + 60
        while client.get_job(job).job.state.name != "RUNNING" and time.monotonic() < ends:
            time.sleep(0.2)
        epoch = client.get_status().epoch
        with _burning(burners), ThreadPoolExecutor(BURST) as pool:
            for _ in range(bursts):
                address = cluster.leader().http
                began = time.monotonic()
                taken = list(
                    pool.map(lambda i, to=address: _tried(to, BURST_PATHS[i % len(BURST_PATHS)]), range(BURST))
                )
                print(f"    {taken.count(200)} of {BURST} answered in {time.monotonic() - began:.1f} s")
                time.sleep(max(0.0, began + 8.0 - time.monotonic()))
            status, found = client.get_status(), client.get_job(job).job
        report.add("overload_burst_epochs", status.epoch - epoch, "epochs", bursts)
        report.add("overload_burst_attempts", found.attempt, "attempts", 1)


def _tried(address: str, path: str) -> int:
    try:
        return get(address, path, 30.0)
    except OSError:
        return 0


@contextmanager
def _burning(count: int) -> Iterator[None]:
    programs: Sequence[subprocess.Popen[bytes]] = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)
    ]
    stop = threading.Event()
    try:
        yield
    finally:
        stop.set()
        for program in programs:
            program.kill()
            program.wait()


def main() -> None:
    chosen = [part for part in sys.argv[1:] if part in PARTS]
    agents = next((int(word) for word in sys.argv[1:] if word.isdigit()), 0)
    report = Report([word for word in sys.argv[1:] if word not in PARTS and not word.isdigit()])
    for part in chosen or PARTS:
        if part == "load":
            load(report, agents)
        else:
            {"stretches": stretches, "burst": burst}[part](report)


if __name__ == "__main__":
    main()
