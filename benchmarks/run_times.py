"""Learned run times on job logs: each job is predicted when it is submitted, from those that ended before.

What counts: how many jobs ran no longer than "with 90 %", and the mean absolute error of the expected run time, beside
that of the mean of the user's last two jobs (Tsafrir, Etsion and Feitelson, "Backfilling using system-generated
predictions rather than user runtime estimates", 2007) and that of what users asked for, on the same jobs. Logs are in
the Standard Workload Format: those that are named, else those of the shared data; without any, and with --smoke, a
small drawn one takes their place.
"""

from __future__ import annotations

import heapq
import random
import statistics
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Report
from benchmarks.workloads import SHARED
from gosched.core.records.job import Job
from gosched.core.replace import replace
from gosched.core.resources import Resources
from gosched.core.run_times import RunTimes, keys_of, predict
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine.run_times import learn, overran

_SUBMIT, _WAIT, _RUN, _ALLOCATED, _REQUESTED, _REQUESTED_TIME, _USER, _PROGRAM = 1, 2, 3, 4, 7, 8, 11, 13
_OVERRUN, _END = 0, 1


@dataclass(slots=True)
class _Logged:
    """A job of a log. Its timeout is what its user asked for; 0: nothing."""

    job: Job
    run_ms: int


@dataclass(slots=True)
class _Errors:
    """What predictions were off, in seconds, of the same jobs."""

    learned: list[float]
    last_two: list[float]
    #: Of those jobs for which users asked for a time: what was learned, and what they asked for.
    learned_of_asked: list[float]
    asked: list[float]
    covered: int = 0


def main() -> None:
    logs = [Path(word) for word in sys.argv[1:] if word.endswith(".swf")]
    report = Report([word for word in sys.argv[1:] if not word.endswith(".swf")])
    logs = logs or ([] if report.smoke else sorted((SHARED / "swf").glob("*.swf")))
    for log in logs:
        _measure(report, log.stem.lower(), sorted(_read(log), key=lambda logged: logged.job.submitted_at_ms))
    if not logs:
        _measure(report, "drawn", list(_drawn(2000)))


def _measure(report: Report, log: str, jobs: list[_Logged]) -> None:
    errors = _replayed(jobs)
    count = len(errors.learned)
    if not count:
        raise SystemExit(f"{log}: no job could be predicted")
    report.add(f"run_times_{log}_predicted", 100 * count / len(jobs), "%", len(jobs))
    report.add(f"run_times_{log}_covered", 100 * errors.covered / count, "%", count)
    report.add(f"run_times_{log}_error", statistics.mean(errors.learned), "s", count)
    report.add(f"run_times_{log}_error_last_two", statistics.mean(errors.last_two), "s", count)
    if errors.asked:
        report.add(f"run_times_{log}_error_of_asked", statistics.mean(errors.learned_of_asked), "s", len(errors.asked))
        report.add(f"run_times_{log}_error_asked", statistics.mean(errors.asked), "s", len(errors.asked))


def _replayed(jobs: list[_Logged]) -> _Errors:
    """Each job starts and ends as in the log."""
    state, errors = ClusterState(), _Errors([], [], [], [])
    events: list[tuple[int, int, int, _Logged]] = []
    last_two: dict[str, deque[int]] = {}
    for number, logged in enumerate(jobs):
        job = logged.job
        while events and events[0][0] <= job.submitted_at_ms:
            at_ms, kind, _, other = heapq.heappop(events)
            if kind == _OVERRUN:
                other.job = overran(state, other.job)
            else:
                learn(state, other.job, at_ms)
                last_two.setdefault(other.job.spec.tenant, deque(maxlen=2)).append(other.run_ms)
        found = predict(state.run_histories, keys_of(job), job.spec.timeout_ms)
        if found is not None:
            _compare(errors, logged, found, last_two[job.spec.tenant])
            logged.job = replace(job, likely_ms=found.likely_ms)
            if logged.run_ms > found.likely_ms:
                heapq.heappush(events, (job.placed_at_ms + found.likely_ms + 1, _OVERRUN, number, logged))
        heapq.heappush(events, (job.placed_at_ms + logged.run_ms, _END, number, logged))
    return errors


def _compare(errors: _Errors, logged: _Logged, found: RunTimes, last_two: deque[int]) -> None:
    asked_ms = logged.job.spec.timeout_ms
    mean_ms = sum(last_two) // len(last_two)
    errors.covered += logged.run_ms <= found.likely_ms
    errors.learned.append(abs(found.expected_ms - logged.run_ms) / 1000)
    errors.last_two.append(abs((min(mean_ms, asked_ms) if asked_ms else mean_ms) - logged.run_ms) / 1000)
    if asked_ms:
        errors.learned_of_asked.append(errors.learned[-1])
        errors.asked.append(abs(asked_ms - logged.run_ms) / 1000)


def _read(path: Path) -> Iterator[_Logged]:
    """Yield the jobs that ran. What ran for longer than was asked for counts as ended then, as gosched would do."""
    for line in path.read_text(errors="replace").splitlines():
        if line.lstrip().startswith(";") or not line.strip():
            continue
        fields = [int(float(word)) for word in line.split()]
        cpus = fields[_REQUESTED] if fields[_REQUESTED] > 0 else fields[_ALLOCATED]
        if fields[_RUN] < 0 or cpus <= 0:
            continue
        times_s = fields[_SUBMIT], max(fields[_WAIT], 0), fields[_RUN]
        yield _logged(times_s, fields[_USER], fields[_PROGRAM], cpus, max(fields[_REQUESTED_TIME], 0))


def _logged(times_s: tuple[int, int, int], user: int, program: int, cpus: int, asked_s: int) -> _Logged:
    """Return a job. `times_s`: when it was submitted, how long it waited and ran."""
    submitted_s, waited_s, run_s = times_s
    group = TaskGroup(
        name="task", count=1, resources=Resources(cpu_millis=1000 * cpus), command=(f"program-{program}",)
    )
    spec = JobSpec(
        name="job",
        queue="default",
        tenant=f"u{user}",
        gang=GangPolicy(min_tasks=1),
        groups=(group,),
        timeout_ms=1000 * asked_s,
    )
    run_ms = max(1000 * run_s, 1)
    at_ms = 1000 * submitted_s + 1
    job = Job(id="j", spec=spec, sequence=1, submitted_at_ms=at_ms, placed_at_ms=at_ms + 1000 * waited_s)
    return _Logged(job, min(run_ms, spec.timeout_ms) if asked_s else run_ms)


def _drawn(count: int) -> Iterator[_Logged]:
    """Yield jobs of ten users with some programs each, which come in bursts; half of them ask for a time."""
    draws = random.Random(1)
    at_s, left, user, program = 0.0, 0, 0, 0
    for _ in range(count):
        if not left:
            left, user, program = draws.randint(1, 20), draws.randrange(10), draws.randrange(4)
        left -= 1
        at_s += draws.expovariate(1 / 600)
        run_s = int(draws.lognormvariate(5 + program, 0.3 + user / 10)) + 1
        asked_s = run_s + 3600 * draws.randint(1, 10) if user % 2 else 0
        yield _logged((int(at_s), 0, run_s), user, program, 1 << program, asked_s)


if __name__ == "__main__":
    main()
