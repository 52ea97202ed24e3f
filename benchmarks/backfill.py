"""Bounded slowdown (10 s) and wait on 10,000 jobs of the Lublin model: without reservations, with one for the first
blocked job (EASY), and in fair order; with one for every blocked job (conservative).

An independent program got 590 (rounded; mean wait 97,156 s) for EASY in order of arrival: what rounds to more fails.
Without the log a small drawn one takes its place, whose figures compare with nothing but themselves.
"""

from __future__ import annotations

import gc
import random
import statistics
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.report import Report
from benchmarks.workloads import Shape, job, lublin, nodes
from gosched.core.commands.nodes import RegisterNode
from gosched.core.records.queue import QueueOrder
from gosched.replication.applier import GC_THRESHOLD
from gosched.scheduling import Policy
from gosched.scheduling.policy import ALL
from gosched.sim.cluster.report import bounded_slowdown, percentile, waits_s
from gosched.sim.cluster.simulator import Simulator
from gosched.sim.cluster.trace import TraceJob

MOST = 590
FIFO = Policy(order=QueueOrder.FIFO, max_victims=0)


def main() -> None:
    report = Report()
    gc.set_threshold(*GC_THRESHOLD)
    trace = None if report.smoke else lublin()
    jobs = trace.jobs if trace else tuple(_drawn(80))
    cluster = trace.nodes if trace else tuple(nodes(1, cpus=256))
    prefix = "swf" if trace else "swf_sample"
    _measure(report, f"{prefix}_no_reservation", jobs, cluster, replace(FIFO, reservations=0))
    slowdown = _measure(report, f"{prefix}_easy", jobs, cluster, replace(FIFO, reservations=1))
    if trace and round(slowdown) > MOST:
        raise SystemExit(f"swf_easy_bsld is {slowdown:.2f}; at most {MOST} is allowed")
    fair = replace(FIFO, order=QueueOrder.FAIR, reservations=1)
    _measure(report, f"{prefix}_fair", _with_users(jobs), cluster, fair)
    _measure(report, f"{prefix}_conservative", jobs, cluster, replace(FIFO, reservations=ALL))


def _measure(
    report: Report, name: str, jobs: Sequence[TraceJob], cluster: Sequence[RegisterNode], policy: Policy
) -> float:
    recorder = Simulator(jobs, cluster, policy).run()
    records = list(recorder.jobs.values())
    slowdowns = [found for record in records if (found := bounded_slowdown(record)) is not None]
    if len(slowdowns) != len(jobs) or recorder.refused:
        raise SystemExit(f"{name}: {len(slowdowns)} of {len(jobs)} jobs ended, {recorder.refused} gangs were refused")
    report.add(f"{name}_bsld", statistics.mean(slowdowns), "", len(slowdowns))
    report.add(f"{name}_mean_wait", statistics.mean(waits_s(records)), "s", len(slowdowns))
    report.add(f"{name}_cycle_p99", 1000 * percentile(sorted(recorder.cycles_s), 99), "ms", len(recorder.cycles_s))
    return statistics.mean(slowdowns)


def _with_users(jobs: Sequence[TraceJob]) -> list[TraceJob]:
    """The log names no users: 16 of them are drawn, some with more jobs than others."""
    draws = random.Random(1)
    weights = [1 / (rank + 1) for rank in range(16)]
    found = []
    for one in jobs:
        user = draws.choices(range(16), weights)[0]
        found.append(replace(one, spec=replace(one.spec, tenant=f"u{user}")))
    return found


def _drawn(count: int) -> list[TraceJob]:
    draws = random.Random(1)
    at_s, jobs = 0.0, []
    for i in range(count):
        at_s += draws.expovariate(1 / 600)
        run_s = min(draws.lognormvariate(6.5, 1.8), 100_000)
        jobs.append(job(f"j{i}", at_s, run_s, Shape(tasks=1, cpus=min(draws.randint(1, 128), 256)), timeout_s=run_s))
    return jobs


if __name__ == "__main__":
    main()
