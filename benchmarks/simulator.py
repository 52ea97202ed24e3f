"""How many tasks a minute the simulator brings from submission to end, planning included: on the real traces, and on a
drawn one where these are not."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Sequence

from benchmarks.report import Report
from benchmarks.workloads import SHARED, Shape, job, nodes
from gosched.core.commands.nodes import RegisterNode
from gosched.replication.applier import GC_THRESHOLD
from gosched.scheduling import Policy
from gosched.sim.cluster.simulator import Simulator
from gosched.sim.cluster.trace import TraceJob
from gosched.sim.cluster.traces import read_nodes, read_text, read_trace

AIM = 100_000  # tasks a minute


def main() -> None:
    report = Report()
    gc.set_threshold(*GC_THRESHOLD)
    count = 200 if report.smoke else 20_000
    _measure(report, "simulator_drawn", _drawn(count), nodes(100, cpus=64))
    if not SHARED.is_dir():
        return
    limit = 100 if report.smoke else None
    swim = read_trace(SHARED / "swim" / "FB-2009_samples_24_times_1hr_0.tsv").jobs[:limit]
    _measure(report, "simulator_swim", swim, nodes(600, cpus=16))
    openb = SHARED / "openb"
    pods = read_trace(openb / "openb_pod_list_default.csv").jobs[:limit]
    path = openb / "openb_node_list_gpu_node.csv"
    _measure(report, "simulator_openb", pods, read_nodes(read_text(path), str(path)))


def _measure(report: Report, name: str, jobs: Sequence[TraceJob], cluster: Sequence[RegisterNode]) -> None:
    began = time.perf_counter()
    recorder = Simulator(jobs, cluster, Policy()).run()
    seconds = time.perf_counter() - began
    tasks = sum(record.tasks for record in recorder.jobs.values())
    report.add(name, tasks * 60 / seconds, "tasks/min", tasks)
    planned = sum(recorder.cycles_s)
    report.add(f"{name}_planner_share", 100 * planned / seconds, "%", len(recorder.cycles_s))


def _drawn(count: int) -> list[TraceJob]:
    """Gangs of up to 32 tasks, a little less than the cluster can take."""
    draws = random.Random(1)
    at_s, jobs = 0.0, []
    for i in range(count):
        at_s += draws.expovariate(1 / 2)
        shape = Shape(tasks=draws.choice((1, 4, 8, 32)), cpus=draws.choice((1, 2, 4)))
        run_s = draws.uniform(60, 600)
        jobs.append(job(f"j{i}", at_s, run_s, shape, timeout_s=2 * run_s))
    return jobs


if __name__ == "__main__":
    main()
