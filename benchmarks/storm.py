"""A day of a cluster that is asked for more than it has: 10,000 jobs wait on 2,000 nodes in three capacity queues, and
others come all day, of three priorities, gangs and single tasks, with GPUs and without, most with time limits.

What preemption and reclaim cost (evictions per start, work lost, jobs that evict each other in turn), what promises of
starts were worth, and how long a cycle takes with preemption and backfill on.
"""

from __future__ import annotations

import gc
import time

from benchmarks.report import Report
from benchmarks.workloads import CAPACITY_QUEUES, DAY_S, storm, storm_nodes
from gosched.replication.applier import GC_THRESHOLD
from gosched.scheduling import Policy
from gosched.sim.cluster.report import lost_pct, percentile, promise_errors_s
from gosched.sim.cluster.simulator import Simulator

PERIOD_MS = 30_000  # between two cycles


def main() -> None:
    report = Report()
    gc.set_threshold(*GC_THRESHOLD)
    waiting, arriving, cluster = (100, 50, 20) if report.smoke else (10_000, 12_000, 2000)
    span_ms = (3600 if report.smoke else DAY_S) * 1000
    simulator = Simulator(
        storm(waiting, arriving, 1),
        storm_nodes(cluster),
        Policy(topology=("zone", "rack")),
        queues=CAPACITY_QUEUES,
        period_ms=PERIOD_MS,
    )
    began = time.perf_counter()
    recorder = simulator.run(span_ms)
    seconds = time.perf_counter() - began
    records = list(recorder.jobs.values())
    starts = sum(len(record.attempts) for record in records)
    evictions = sum(recorder.evictions.values())
    report.add("storm_jobs_waiting", recorder.series.total("waiting") / span_ms, "jobs", len(records))
    report.add("storm_evictions_per_start", evictions / max(starts, 1), "", starts)
    for cause, count in sorted(recorder.evictions.items()):
        report.add(f"storm_evictions_{cause.lower()}", count, "evictions", starts)
    report.add("storm_lost_work", lost_pct(records), "%", starts)
    report.add("storm_eviction_cycles", recorder.eviction_cycles_found, "cycles", evictions)
    report.add("storm_refused_gangs", recorder.refused, "gangs", starts)
    times = sorted(recorder.cycles_s)
    for part in (50, 99, 100):
        report.add(f"storm_cycle_p{part}", 1000 * percentile(times, part), "ms", len(times))
    errors = sorted(promise_errors_s(records))
    if errors:
        report.add("storm_promise_error_p50", percentile(errors, 50), "s", len(errors))
        report.add("storm_promise_error_p95", percentile(errors, 95), "s", len(errors))
    gpus = recorder.series.total("gpu_millis") / (recorder.capacity.gpu_millis * span_ms)
    report.add("storm_gpus_in_use", 100 * gpus, "%", cluster)
    report.add("storm_wall", seconds, "s", len(times))


if __name__ == "__main__":
    main()
