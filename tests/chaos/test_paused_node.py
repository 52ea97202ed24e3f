"""A node stands still as a whole, longer than its lease, and goes on: its `on_disconnect: stop` tasks were replaced
meanwhile, and do no more work. Needs root, `ip` and `nsenter`."""

from __future__ import annotations

import signal
import statistics
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from gosched.cli.local_program import Program
from tests.chaos.hosts import HostCluster
from tests.integration.support import until

RUNS = 2
PAUSE_S = 20.0
MUCH_S = 1.0  # what a loaded machine may take to kill; a grace would be 2 s


@pytest.mark.timeout(300)
def test_a_task_that_wakes_after_its_replacement_began_is_killed_at_once(tmp_path: Path) -> None:
    stamps = f"while :; do date +%s.%N >> {tmp_path}/$GOSCHED_JOB_NAME.$GOSCHED_ATTEMPT; sleep 0.01; done"
    overlaps = []
    with HostCluster(tmp_path / "c", masters=1, agents=2) as cluster, cluster.client() as client:
        for run in range(RUNS):
            name = f"lonely-{run}"
            client.submit(
                f"name: {name}\non_disconnect: stop\nstop_grace: 30s\nretry: {{max: 3, backoff: 0s}}\n"
                f"run: \"trap '' TERM; {stamps}\"\n"
            )
            first, second = tmp_path / f"{name}.1", tmp_path / f"{name}.2"
            until(first.exists, "it runs")
            (held,) = [a for a in cluster.agents.values() if any(True for _ in _supervisors(cluster, a))]
            processes = [psutil.Process(held.pid), *psutil.Process(held.pid).children(recursive=True)]
            for supervisor in _supervisors(cluster, held):
                processes += [supervisor, *supervisor.children(recursive=True)]
            _send(processes, signal.SIGSTOP)
            paused_at = time.monotonic()
            until(second.exists, "its replacement runs")
            time.sleep(max(0.0, paused_at + PAUSE_S - time.monotonic()))
            before = _last(first)
            woken_at = time.time()
            _send(list(reversed(processes)), signal.SIGCONT)  # the task first: the worst of orders
            until(lambda: not list(_supervisors(cluster, held)), "it has ended")  # noqa: B023
            overlaps.append(max(0.0, _last(first) - woken_at) if _last(first) > before else 0.0)
            client.cancel(name)
            client.wait(name, timeout=60)
            until(lambda: client.get_status().nodes_ready == 2, "the node is back")
    median_s, worst_s = statistics.median(overlaps), max(overlaps)
    print(f"overlap after a pause of {PAUSE_S:g} s, {RUNS} runs: median {median_s:.3f} s, worst {worst_s:.3f} s")
    assert worst_s < MUCH_S


def _supervisors(cluster: HostCluster, agent: Program) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if not any("supervisor.nursery" in word for word in process.cmdline()):
                continue  # a stranger's directory may not even be readable
            if Path(process.cwd()).is_relative_to(cluster.data_dir / agent.id / "tasks"):
                found.append(process)
    return found


def _send(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _last(stamps: Path) -> float:
    return float(stamps.read_text().splitlines()[-1])
