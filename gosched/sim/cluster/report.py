"""A run in figures: one mapping for JSON, and a page of text.

Invariant: everything but `timings` is the same for the same inputs, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gosched.core.records.job import JobState
from gosched.sim.cluster.recorder import QUEUE, JobRecord, Recorder

FLOOR_MS = 10_000  # of the bounded slowdown: a job that runs for less counts as one that runs so long
MEASURED = ("cpu", "gpu")  # resources that work is measured in
RESOURCES = (("cpu", "cpu_millis"), ("memory", "memory_bytes"), ("gpu", "gpu_millis"))

Json = dict[str, Any]


def report(recorder: Recorder, inputs: Mapping[str, object], wall_s: float) -> Json:
    """Return the figures. Names of times end in their unit; shares are percent."""
    jobs = list(recorder.jobs.values())
    return {
        "inputs": dict(inputs),
        "summary": _summary(recorder, jobs),
        "queues": [_queue(recorder, queue, jobs) for queue in recorder.queues],
        "series": {
            "width_ms": recorder.series.width_ms,
            "columns": {name: _rounded(recorder.series.column(name)) for name in recorder.series.names},
            "capacity": {key: getattr(recorder.capacity, key) for _, key in RESOURCES},
        },
        "jobs": [_job(job) for job in jobs],
        "timings": {
            "wall_s": round(wall_s, 3),
            "tasks_per_minute": round(sum(job.tasks for job in jobs) * 60 / wall_s) if wall_s else 0,
            "cycle_ms": spread([seconds * 1000 for seconds in recorder.cycles_s]),
        },
    }


def spread(values: Iterable[float]) -> Json:
    """Return mean, median, 95th and 99th percentile and largest; None for each of nothing."""
    ordered = sorted(values)
    if not ordered:
        return dict.fromkeys(("mean", "p50", "p95", "p99", "max"))
    found = {"mean": sum(ordered) / len(ordered), "max": ordered[-1]}
    found |= {f"p{part}": percentile(ordered, part) for part in (50, 95, 99)}
    return {name: round(found[name], 3) for name in ("mean", "p50", "p95", "p99", "max")}


def percentile(ordered: Sequence[float], part: int) -> float:
    """Return the nearest rank of values that ascend, at least one."""
    return ordered[max(0, -(-len(ordered) * part // 100) - 1)]


def bounded_slowdown(job: JobRecord) -> float | None:
    """Return a finished job's time from submission to end over its run time, which counts as FLOOR_MS at least."""
    if job.end_ms is None or job.start_ms is None or job.work_ms is None:
        return None
    run = min(job.work_ms, job.end_ms - job.start_ms)
    return max(1.0, (job.end_ms - job.submit_ms) / max(run, FLOOR_MS))


def waits_s(jobs: Iterable[JobRecord]) -> list[float]:
    """Return the times from submission to the first start, of the jobs that started."""
    return [(job.start_ms - job.submit_ms) / 1000 for job in jobs if job.start_ms is not None]


def promise_errors_s(jobs: Iterable[JobRecord]) -> list[float]:
    """Return how far each first reserved start was from the real one, without sign."""
    return [
        abs(job.start_ms - job.promised_ms) / 1000
        for job in jobs
        if job.start_ms is not None and job.promised_ms is not None
    ]


def lost_pct(jobs: Iterable[JobRecord]) -> float:
    """Return the part of all work done that was lost."""
    lost = done = 0
    for job in jobs:
        lost += job.lost_task_ms
        done += sum((attempt.end_ms - attempt.start_ms) * attempt.tasks for attempt in job.attempts if attempt.ended_by)
    return 100 * lost / done if done else 0.0


def as_text(data: Json) -> str:
    """Return the report for a terminal."""
    found, timings = data["summary"], data["timings"]
    lines = [
        ("Jobs", f"{found['jobs']} with {found['tasks']} tasks: {_counts(found['states'])}"),
        ("Time", f"{duration_text(found['end_ms'] / 1000)} simulated in {timings['wall_s']:.1f} s"),
        ("Wait", _spread_text(found["wait_s"])),
        ("Slowdown", _slowdown_text(found["bounded_slowdown"])),
        ("In use", ", ".join(f"{name} {pct:.1f} %" for name, pct in found["utilisation_pct"].items())),
        ("Work", _work_text(found.get("work", {}))),
        ("Evictions", _evictions_text(found)),
        ("Promises", _promises_text(found["promises"])),
        ("Cycles", _cycles_text(found, timings["cycle_ms"])),
        ("Left out", ", ".join(f"{count} lines with {why}" for why, count in data["inputs"].get("left_out", []))),
    ]
    text = [f"{title:<11}{words}" for title, words in lines if words]
    if len(data["queues"]) > 1:
        measure = data["summary"]["measure"]
        text += ["", f"{'QUEUE':<24}{'JOBS':>8}{'MEAN WAIT':>14}{'SHARE OF ' + measure.upper():>16}"]
        text += [
            f"{q['name']:<24}{q['jobs']:>8}{duration_text(q['mean_wait_s']):>14}{q['share_pct']:>14.1f} %"
            for q in data["queues"]
        ]
    return "\n".join(text)


def duration_text(seconds: float | None) -> str:
    """Return `42.0s`, `7.5m`, `3.2h` or `5.0d`."""
    if seconds is None:
        return "-"
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds:.1f}s"


def hours_text(seconds: float) -> str:
    """Return hours of work: `0.25` or `1,204.0`."""
    hours = seconds / 3600
    return f"{hours:,.1f}" if hours >= 10 else f"{hours:.2f}"


def _summary(recorder: Recorder, jobs: list[JobRecord]) -> Json:
    starts = sum(len(job.attempts) for job in jobs)
    evictions = sum(recorder.evictions.values())
    states = {state.name: sum(job.state is state for job in jobs) for state in JobState if state}
    slowdowns = [found for job in jobs if (found := bounded_slowdown(job)) is not None]
    return {
        "jobs": len(jobs),
        "tasks": sum(job.tasks for job in jobs),
        "states": {name: count for name, count in states.items() if count},
        "end_ms": recorder.end_ms,
        "wait_s": spread(waits_s(jobs)),
        "bounded_slowdown": spread(slowdowns),
        "utilisation_pct": _utilisation(recorder, jobs),
        "work": _work(recorder, jobs),
        "measure": recorder.measure.partition("_")[0],
        "starts": starts,
        "evictions": dict(sorted(recorder.evictions.items())),
        "evictions_per_start": round(evictions / starts, 6) if starts else 0.0,
        "lost_work_pct": round(lost_pct(jobs), 6),
        "eviction_cycles": recorder.eviction_cycles_found,
        "eviction_cycles_shown": [list(cycle) for cycle in recorder.eviction_cycles],
        "promises": {
            "made": sum(job.promised_ms is not None for job in jobs),
            "broken": recorder.broken_promises,
            "error_s": spread(promise_errors_s(jobs)),
            "late": sum(job.start_ms is not None and job.start_ms > (job.promised_ms or job.start_ms) for job in jobs),
        },
        "cycles": len(recorder.cycles_s),
        "refused_gangs": recorder.refused,
        "refusals_shown": [f"{refusal.job_id}: {refusal.detail}" for refusal in recorder.refusals],
    }


def _utilisation(recorder: Recorder, jobs: list[JobRecord]) -> dict[str, float]:
    """Return what was used from the first submission to the end."""
    span = recorder.end_ms - min((job.submit_ms for job in jobs), default=0)
    return {
        name: round(100 * recorder.series.total(key) / (amount * span), 3) if span else 0.0
        for name, key in RESOURCES
        if (amount := getattr(recorder.capacity, key))
    }


def _work(recorder: Recorder, jobs: list[JobRecord]) -> dict[str, Json]:
    """Return the work by resource that the cluster has, in seconds of one CPU or GPU, and in percent: what was lost of
    all work done, what was useful of all that the cluster could have done from the first submission to the end."""
    span = recorder.end_ms - min((job.submit_ms for job in jobs), default=0)
    work, unfinished = recorder.work, recorder.work.unfinished(recorder.end_ms)
    found = {}
    for name in MEASURED:
        capacity = getattr(recorder.capacity, f"{name}_millis") * span
        if not capacity:
            continue
        useful, lost, rest = (getattr(part, name) for part in (work.useful, work.lost, unfinished))
        done = useful + lost + rest
        found[name] = {
            "useful_s": useful / 1e6,
            "lost_s": lost / 1e6,
            "unfinished_s": rest / 1e6,
            "lost_pct": round(100 * lost / done, 3) if done else 0.0,
            "utilisation_pct": round(100 * useful / capacity, 3),
        }
    return found


def _queue(recorder: Recorder, queue: str, jobs: list[JobRecord]) -> Json:
    own = [job for job in jobs if job.queue == queue]
    capacity = getattr(recorder.capacity, recorder.measure) * recorder.end_ms
    held = recorder.series.total(QUEUE + queue)
    return {
        "name": queue,
        "jobs": len(own),
        "mean_wait_s": spread(waits_s(own))["mean"],
        "share_pct": round(100 * held / capacity, 3) if capacity else 0.0,
    }


def _job(job: JobRecord) -> Json:
    return {
        "id": job.id,
        "name": job.name,
        "queue": job.queue,
        "tenant": job.tenant,
        "priority": job.priority,
        "tasks": job.tasks,
        "state": job.state.name,
        "reason": job.reason,
        "submit_ms": job.submit_ms,
        "start_ms": job.start_ms,
        "end_ms": job.end_ms,
        "work_ms": job.work_ms,
        "promised_ms": job.promised_ms,
        "promised_at_ms": job.promised_at_ms,
        "evictions": job.evictions,
        "lost_task_ms": job.lost_task_ms,
        "attempts": [[a.start_ms, a.end_ms if a.ended_by else None, a.ended_by] for a in job.attempts],
    }


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 3) for value in values]


def _counts(states: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in states.items())


def _spread_text(found: Json) -> str:
    if found["mean"] is None:
        return ""
    return ", ".join(f"{name} {duration_text(found[name])}" for name in ("mean", "p50", "p95", "max"))


def _slowdown_text(found: Json) -> str:
    if found["mean"] is None:
        return ""
    return ", ".join(f"{name} {found[name]:,.1f}" for name in ("mean", "p50", "p95", "max")) + " (bounded, 10 s)"


def _evictions_text(found: Json) -> str:
    if not found["evictions"]:
        return "none"
    causes = ", ".join(f"{count} {cause}" for cause, count in found["evictions"].items())
    return f"{causes}; {found['evictions_per_start']:.3f} per start, {found['eviction_cycles']} times in a circle"


def _work_text(found: Mapping[str, Json]) -> str:
    """Return the work in the cluster's dearest resource: GPUs, if it has some."""
    if not found:
        return ""
    name = "gpu" if "gpu" in found else "cpu"
    work = found[name]
    lost = f"{hours_text(work['lost_s'])} lost to evictions ({work['lost_pct']:.2f} % of all work)"
    useful = (
        f"{hours_text(work['useful_s'])} {name.upper()}-hours useful ({work['utilisation_pct']:.1f} % of the cluster)"
    )
    return f"{useful}, {lost}"


def _promises_text(found: Json) -> str:
    if not found["made"]:
        return ""
    kept = f"{found['made']} starts promised, {found['late']} came later, {found['broken']} withdrawn"
    return f"{kept}; median error {duration_text(found['error_s']['p50'])}"


def _cycles_text(found: Json, cycle_ms: Json) -> str:
    if cycle_ms["mean"] is None:
        return ""
    times = ", ".join(f"{name} {cycle_ms[name]:.1f} ms" for name in ("p50", "p99", "max"))
    return f"{found['cycles']}: {times}" + (f"; {found['refused_gangs']} gangs refused" * bool(found["refused_gangs"]))
