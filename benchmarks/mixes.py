"""How well the planner does on drawn mixes of jobs, as tables: one for each mix, with a line for each policy.

    python -m benchmarks.mixes [--seeds 1,2,3]

Seeds 1 to 3, the default, are those that the planner may be tuned on; a claim needs others.

Each mix is drawn from several seeds and simulated with the default policy; with `preemptible: false` for every job; and
with other numbers of reserved starts. Figures are means over seeds:

- useful: work of jobs that ended well, of all that the cluster could have done until the last job ended;
- lost: work that evictions undid, of all work; both in GPU-seconds, or CPU-seconds where there are no GPUs;
- evictions: at reserved starts, and all others;
- slowdown: bounded, as in the simulator's report;
- share error: the largest difference of a queue's dominant share from its fair share (benchmarks/max_min.py), as long
  as jobs arrive, averaged over time. Gangs cannot be divided, so it is never 0;
- wide gangs: waits of those that need more than a quarter of the cluster, 99th percentile and longest.

`--smoke` compares small mixes with the figures in mixes_smoke.json and fails where one is worse by more than its noise.
The noise is what the figures differ by when every job arrives up to five minutes earlier or later: a new version of the
planner shakes a run as much. `--keep` writes the file, after a change that is meant to alter the figures.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.drawn_mixes import (
    CPUS,
    EIGHT_NESTED,
    FOUR_FAIR,
    GPUS,
    THREE_CAPACITY,
    TWO_FAIR,
    Bounds,
    Hardware,
    Mix,
    Sharing,
    draw,
    share_tree,
)
from benchmarks.max_min import dominant_share, max_min_shares
from benchmarks.report import Report
from gosched.config.settings import Overtake
from gosched.core.resources import Resources
from gosched.replication.applier import GC_THRESHOLD
from gosched.scheduling import Policy
from gosched.scheduling.policy import ALL
from gosched.sim.cluster.recorder import JobRecord, Recorder
from gosched.sim.cluster.report import bounded_slowdown, percentile, waits_s
from gosched.sim.cluster.simulator import Simulator
from gosched.sim.cluster.trace import TraceJob

SEEDS = (1, 2, 3)
LOADS_PCT = (70, 85, 100, 110, 130)
MOMENTS = 100  # at which shares are compared with fair ones
DEFAULT, NOT_PREEMPTIBLE = "default", "not preemptible"
USUAL = Policy(max_wait_ms=Overtake().max_wait_ms)
POLICIES = {
    DEFAULT: USUAL,
    NOT_PREEMPTIBLE: USUAL,
    "no reservations": replace(USUAL, reservations=0),
    "1 reservation": replace(USUAL, reservations=1),
    "16 reservations": replace(USUAL, reservations=16),
    "all reservations": replace(USUAL, reservations=ALL),
}
KEPT = Path(__file__).parent / "mixes_smoke.json"
SMOKE_RUNS = 6  # of each mix, each with other arrivals
SHIFT_MS = 300_000  # of an arrival, at most
COMPARED = ("lost_pct", "wait_s", "slowdown", "share_error_pct")
LEAST_NOISE = {"lost_pct": 0.5, "wait_s": 30.0, "slowdown": 0.1, "share_error_pct": 0.5}


def _mix(hardware: Hardware, load_pct: int, bounds: Bounds, sharing: Sharing, saves_pct: int = 0) -> Mix:
    return Mix(hardware=hardware, load_pct=load_pct, bounds=bounds, saves_pct=saves_pct, sharing=sharing)


OF_LOADS = (
    *[_mix(GPUS, load_pct, Bounds.POOR, FOUR_FAIR) for load_pct in LOADS_PCT],
    *[_mix(CPUS, load_pct, Bounds.TIMEOUTS, TWO_FAIR) for load_pct in LOADS_PCT],
)
OTHERS = (
    _mix(GPUS, 100, Bounds.GOOD, FOUR_FAIR),
    _mix(GPUS, 100, Bounds.NONE, FOUR_FAIR),
    _mix(GPUS, 100, Bounds.SOME, TWO_FAIR),
    _mix(GPUS, 100, Bounds.TIMEOUTS, FOUR_FAIR, saves_pct=50),
    _mix(GPUS, 110, Bounds.POOR, FOUR_FAIR, saves_pct=100),
    _mix(GPUS, 100, Bounds.TIMEOUTS, THREE_CAPACITY),
    _mix(GPUS, 110, Bounds.POOR, EIGHT_NESTED, saves_pct=25),
    _mix(CPUS, 100, Bounds.SOME, THREE_CAPACITY, saves_pct=50),
)
MIXES = (*[replace(mix, count=300) for mix in OF_LOADS], *[replace(mix, count=200) for mix in OTHERS])
SMOKE_MIXES = {
    "cpus": _mix(CPUS, 110, Bounds.TIMEOUTS, TWO_FAIR),
    "capacity": _mix(CPUS, 100, Bounds.SOME, THREE_CAPACITY, saves_pct=50),
    "gpus": _mix(GPUS, 110, Bounds.POOR, EIGHT_NESTED, saves_pct=25),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one run, or means over several. Percentages are of the cluster, `lost_pct` is of all work."""

    useful_pct: float
    lost_pct: float
    backfill_evictions: float
    other_evictions: float
    wait_s: float
    slowdown: float
    makespan_h: float
    share_error_pct: float
    #: Of gangs that need more than a quarter of the cluster.
    wide_p99_s: float
    wide_max_s: float


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--seeds", default=SEEDS, type=lambda text: tuple(int(seed) for seed in text.split(",")))
    parser.add_argument("--keep", action="store_true", help="write mixes_smoke.json")
    chosen, rest = parser.parse_known_args()
    report = Report(rest)
    gc.set_threshold(*GC_THRESHOLD)
    if report.smoke or chosen.keep:
        _smoke(keep=chosen.keep)
        return
    of_policy: dict[str, list[Figures]] = {name: [] for name in POLICIES}
    for mix in MIXES:
        print(f"\n### {mix.words}\n\n{_HEAD}")
        for name in POLICIES:
            figures = mean([measure(mix, draw(mix, seed), name) for seed in chosen.seeds])
            of_policy[name].append(figures)
            print(_row(name, figures), flush=True)
    print()
    for name, found in of_policy.items():
        for key in COMPARED:
            unit = {"wait_s": "s", "slowdown": ""}.get(key, "%")
            label = f"mixes_{name.replace(' ', '_')}_{key}"
            report.add(label, getattr(mean(found), key), unit, len(found) * len(chosen.seeds))


def measure(mix: Mix, jobs: Sequence[TraceJob], policy: str) -> Figures:
    """Simulate jobs of the mix with one of POLICIES."""
    if policy == NOT_PREEMPTIBLE:
        jobs = [_not_preemptible(job) for job in jobs]
    recorder = Simulator(jobs, mix.hardware.nodes, POLICIES[policy], queues=mix.sharing.queues).run()
    records = list(recorder.jobs.values())
    slowdowns = [found for record in records if (found := bounded_slowdown(record)) is not None]
    if len(slowdowns) != len(jobs) or recorder.refused:
        raise SystemExit(f"{mix.words}: {len(slowdowns)} of {len(jobs)} jobs ended, {recorder.refused} gangs refused")
    totals = _vector(recorder.capacity)[: 2 if recorder.capacity.gpu_millis else 1]
    vectors = {job.spec.name: _vector(job.spec.demand)[: len(totals)] for job in jobs}
    resource = "gpu" if recorder.capacity.gpu_millis else "cpu"
    span_ms = recorder.end_ms - jobs[0].at_ms
    useful, lost, rest = (
        getattr(part, resource)
        for part in (recorder.work.useful, recorder.work.lost, recorder.work.unfinished(recorder.end_ms))
    )
    wide = sorted(waits_s([r for r in records if 4 * dominant_share(vectors[r.name], totals) > 1]))
    at_backfill = recorder.evictions["BACKFILL"]
    return Figures(
        useful_pct=100 * useful / (totals[-1] * span_ms),
        lost_pct=100 * lost / (useful + lost + rest),
        backfill_evictions=at_backfill,
        other_evictions=recorder.evictions.total() - at_backfill,
        wait_s=statistics.mean(waits_s(records)),
        slowdown=statistics.mean(slowdowns),
        makespan_h=span_ms / 3_600_000,
        share_error_pct=100 * share_error(mix, recorder, vectors, totals),
        wide_p99_s=percentile(wide, 99) if wide else 0.0,
        wide_max_s=max(wide, default=0.0),
    )


def share_error(mix: Mix, recorder: Recorder, vectors: dict[str, tuple[int, ...]], totals: tuple[int, ...]) -> float:
    """Return the mean over time of the largest difference between a leaf's dominant share and its fair one."""
    tree = share_tree(mix.sharing.queues)
    records = list(recorder.jobs.values())
    first, last = records[0].submit_ms, records[-1].submit_ms
    errors = []
    for i in range(MOMENTS):
        at_ms = first + (2 * i + 1) * (last - first) // (2 * MOMENTS)
        held, demand = (dict.fromkeys(mix.sharing.often, (0,) * len(totals)) for _ in range(2))
        for record in records:
            if record.submit_ms <= at_ms and (record.end_ms is None or at_ms < record.end_ms):
                vector = vectors[record.name]
                demand[record.queue] = _sum(demand[record.queue], vector)
                if _runs(record, at_ms):
                    held[record.queue] = _sum(held[record.queue], vector)
        fair = max_min_shares(tree, totals, demand)
        differences = [dominant_share(held[path], totals) - dominant_share(fair[path], totals) for path in held]
        errors.append(max(map(abs, differences)))
    return statistics.mean(errors)


def mean(found: Sequence[Figures]) -> Figures:
    rows = [asdict(figures) for figures in found]
    return Figures(**{key: statistics.mean(row[key] for row in rows) for key in rows[0]})


def _smoke(*, keep: bool) -> None:
    """Compare with the kept figures, or keep new ones. A figure may exceed the kept one by three times the deviation of
    the difference of two means."""
    kept = {} if keep else json.loads(KEPT.read_text())
    worse = []
    for name, mix in SMOKE_MIXES.items():
        found = [measure(mix, _shifted(draw(mix, 1), shift), DEFAULT) for shift in range(SMOKE_RUNS)]
        rows = [asdict(figures) for figures in found]
        for key in COMPARED:
            values = [row[key] for row in rows]
            value = statistics.mean(values)
            if keep:
                noise = 3 * statistics.stdev(values) * (2 / SMOKE_RUNS) ** 0.5
                entry = {"value": round(value, 3), "noise": round(max(noise, LEAST_NOISE[key]), 3)}
                kept.setdefault(name, {})[key] = entry
            entry = kept[name][key]
            told = f"{name} {key}: {value:.3f}, kept {entry['value']}, noise {entry['noise']}"
            print(told, flush=True)
            if value > entry["value"] + entry["noise"]:
                worse.append(told)
    if keep:
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    if worse:
        advice = "if that is meant, run `python -m benchmarks.mixes --keep` and say why in the commit"
        raise SystemExit("\n".join(["worse than the kept figures by more than their noise:", *worse, advice]))


def _shifted(jobs: Sequence[TraceJob], shift: int) -> list[TraceJob]:
    """Return the jobs with arrivals a little earlier or later; shift 0: as they are."""
    draws = random.Random(shift)
    moved = [replace(job, at_ms=max(0, job.at_ms + draws.randint(-SHIFT_MS, SHIFT_MS) * bool(shift))) for job in jobs]
    return sorted(moved, key=lambda job: job.at_ms)


def _not_preemptible(job: TraceJob) -> TraceJob:
    return replace(job, spec=replace(job.spec, preemption=replace(job.spec.preemption, preemptible=False)))


def _vector(amounts: Resources) -> tuple[int, ...]:
    """Return CPUs, and GPUs last."""
    return (amounts.cpu_millis, amounts.gpu_millis)


def _sum(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _runs(record: JobRecord, at_ms: int) -> bool:
    return any(a.start_ms <= at_ms and (not a.ended_by or at_ms < a.end_ms) for a in record.attempts)


_HEAD = """\
| policy | useful | lost | evictions (reserved starts + others) | mean wait | slowdown | last end | share error \
| wide gangs wait (P99, longest) |
|---|---:|---:|---:|---:|---:|---:|---:|---:|"""


def _row(policy: str, figures: Figures) -> str:
    cells = [
        policy,
        f"{figures.useful_pct:.1f} %",
        f"{figures.lost_pct:.2f} %",
        f"{figures.backfill_evictions:.0f} + {figures.other_evictions:.0f}",
        f"{figures.wait_s:,.0f} s",
        f"{figures.slowdown:.2f}",
        f"{figures.makespan_h:.1f} h",
        f"{figures.share_error_pct:.1f} %",
        f"{figures.wide_p99_s:,.0f} s, {figures.wide_max_s:,.0f} s",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
