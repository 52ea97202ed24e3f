"""A gang of 64 GPUs in a full cluster of 128, while small jobs with time limits never cease to come: when it starts,
and how busy the GPUs are until then. Once as 64 tasks anywhere, once as 8 whole nodes."""

from __future__ import annotations

import random

from benchmarks.report import Report
from benchmarks.workloads import Shape, job, nodes
from gosched.core.records.queue import QueueOrder
from gosched.scheduling import Policy
from gosched.sim.cluster.recorder import JobRecord, Recorder
from gosched.sim.cluster.simulator import Simulator
from gosched.sim.cluster.trace import TraceJob

NODES, GPUS = 16, 8
POLICY = Policy(order=QueueOrder.FIFO, reservations=1)
HOUR_S = 3600
MOST_LATE_MS = 1000


def main() -> None:
    report = Report()
    hours = 2 if report.smoke else 10
    _measure(report, "gang64", Shape(tasks=64, cpus=1, gpus=1), hours)
    if not report.smoke:
        _measure(report, "gang64_nodes", Shape(tasks=8, cpus=8, gpus=8), hours)


def _measure(report: Report, name: str, shape: Shape, hours: int) -> None:
    asked_s = hours * HOUR_S / 4
    small = _small(hours * HOUR_S)
    gang = job("gang", asked_s, HOUR_S, shape, timeout_s=HOUR_S)
    jobs = sorted([*small, gang], key=lambda j: j.at_ms)
    recorder = Simulator(jobs, nodes(NODES, cpus=128, gpus=GPUS), POLICY).run(hours * HOUR_S * 1000)
    found = next(record for record in recorder.jobs.values() if record.name == "gang")
    if found.start_ms is None or found.promised_ms is None:
        raise SystemExit(f"{name}: the gang did not start within {hours} h")
    gpus = {one.spec.name: one.spec.demand.gpu_millis // 1000 for one in jobs}
    report.add(f"{name}_wait", (found.start_ms - found.submit_ms) / 60_000, "min", 1)
    report.add(f"{name}_late", (found.start_ms - found.promised_ms) / 1000, "s", 1)
    waiting = _busy_percent(recorder, gpus, found.submit_ms, found.start_ms)
    report.add(f"{name}_gpus_in_use", waiting, "%", NODES * GPUS)
    before = _busy_percent(recorder, gpus, found.submit_ms // 2, found.submit_ms)
    report.add(f"{name}_gpus_in_use_before", before, "%", NODES * GPUS)
    if found.start_ms > found.promised_ms + MOST_LATE_MS:
        raise SystemExit(f"{name}: it started {(found.start_ms - found.promised_ms) / 1000:.0f} s after its time")


def _busy_percent(recorder: Recorder, gpus: dict[str, int], begin: int, end: int) -> float:
    held = sum(gpus[record.name] * _overlap(record, begin, end) for record in recorder.jobs.values())
    return 100 * held / (NODES * GPUS * (end - begin))


def _overlap(record: JobRecord, begin: int, end: int) -> int:
    spans = [(a.start_ms, a.end_ms if a.ended_by else end) for a in record.attempts]
    return sum(max(0, min(stop, end) - max(start, begin)) for start, stop in spans)


def _small(span_s: float) -> list[TraceJob]:
    """A fifth more than the cluster can take, of one to four GPUs, from 2 to 40 minutes; users ask for up to twice what
    they need. So many are there at the start that the cluster is full at once."""
    draws = random.Random(1)
    jobs: list[TraceJob] = []
    at_s, work = 0.0, 0.0
    while at_s < span_s:
        gpus = draws.choices((1, 2, 4), (5, 3, 2))[0]
        run_s = draws.uniform(120, 2400)
        slack = draws.uniform(1, 2)
        jobs.append(job(f"s{len(jobs)}", at_s, run_s, Shape(tasks=1, cpus=gpus, gpus=gpus), timeout_s=run_s * slack))
        work += gpus * run_s
        at_s = max(0.0, work / (1.2 * NODES * GPUS) - 1200)
    return jobs


if __name__ == "__main__":
    main()
