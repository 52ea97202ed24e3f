"""What traces cost a leader, in processor time: nothing without a collector; with one, the spans of a job and their
sending; and the memory of spans that a dead collector leaves in the queue."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from benchmarks.report import Report
from gosched.core.commands.cluster import SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.commands.nodes import RegisterNode, ReportTasks, TaskReport
from gosched.core.commands.plans import CommitPlan, GangPlacement
from gosched.core.events import EpochOpened, Event
from gosched.core.outcome import Accepted
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.queue import Queue
from gosched.core.records.task import TaskState
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.observe.tracing import now_ns
from gosched.observe.tracing_jobs import JobTraces
from gosched.observe.tracing_leader import Cycle, LeaderTraces, submission
from gosched.observe.tracing_otlp import MAX_QUEUED, OtlpSpans
from gosched.state_machine import apply

ONE = Resources(cpu_millis=1000)
LOOKS = 7  # measured parts of a job
PART = 500  # jobs between two rests: as fast as spans are sent, so that none is dropped


class Discard(SpanExporter):
    """Encodes spans as they would be sent, and counts them."""

    def __init__(self) -> None:
        self.spans = 0
        self.spent_s = 0.0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        began = time.thread_time()
        encode_spans(spans).SerializeToString()
        self.spent_s += time.thread_time() - began
        self.spans += len(spans)
        return SpanExportResult.SUCCESS


class Stuck(SpanExporter):
    """A collector that never answers."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        time.sleep(3600)
        return SpanExportResult.FAILURE


@dataclass(slots=True)
class Front:
    """What a leader's front does for the traces of jobs that one node runs."""

    state: ClusterState
    jobs: JobTraces | None
    leader: LeaderTraces | None
    spent_s: float = 0.0

    def do(self, body: Body) -> tuple[Event, ...]:
        outcome, events = apply(self.state, Command(body=body, at_ms=self.state.clock_ms + 1))
        if not isinstance(outcome, Accepted) or outcome.refusals:
            raise SystemExit(f"refused: {outcome}")
        began = time.thread_time()
        if self.jobs:
            self.jobs.take(self.state, self.state.clock_ms, events)
        self.spent_s += time.thread_time() - began
        return tuple(events)

    def run_job(self, job_id: str) -> None:
        """Submit, place, dispatch and end a job."""
        began = time.thread_time()
        with submission(self.leader, None) as call:
            self.spent_s += time.thread_time() - began
            self.do(SubmitJob(job_id=job_id, spec=_spec(job_id)))
            began = time.thread_time()
            call.taken(self.state.jobs[job_id], unchanged=False)
        self.spent_s += time.thread_time() - began
        gang = GangPlacement(job_id=job_id, attempt=1, tasks=(TaskPlacement(rank=0, node_id="n"),))
        self.do(CommitPlan(revision=0, gangs=(gang,)))
        allocation = f"{job_id}/g/0.1"
        began = time.thread_time()
        if self.leader:
            at = now_ns()
            cycle = Cycle(epoch=1, revision=1, began_ns=at, planned_ns=at, committed_ns=at, waiting=0, accepted=True)
            self.leader.planned(self.state, [gang], cycle)
            self.leader.dispatched(self.state, "n", [allocation], at)
        self.spent_s += time.thread_time() - began
        for state in (TaskState.RUNNING, TaskState.SUCCEEDED):
            seen = TaskReport(allocation_id=allocation, state=state)
            self.do(ReportTasks(node_id="n", incarnation="i", reports=(seen,)))


def _spec(name: str) -> JobSpec:
    group = TaskGroup(name="g", count=1, resources=ONE, command=("true",))
    return JobSpec(name=name, queue="default", gang=GangPolicy(min_tasks=1), groups=(group,))


def _front(spans: OtlpSpans | None) -> Front:
    front = Front(ClusterState(), None, None)
    front.state.clock_ms = 1_700_000_000_000
    front.do(SetQueues(queues=(Queue(path="default"),)))
    front.do(RegisterNode(node_id="n", incarnation="i", name="n", address="n:1", capacity=ONE))
    if spans:
        front.jobs, front.leader = JobTraces(spans, "m1"), LeaderTraces(spans, sample=1)
        front.jobs.take(front.state, front.state.clock_ms, [EpochOpened(epoch=1, leader="m1")])
    return front


def _run(front: Front, count: int, rest: Callable[[], None] = lambda: None) -> float:
    """Return the seconds per job that its traces take on the event loop, without those of the clock."""
    for number in range(count):
        front.run_job(f"j-{number:06}")
        if number % PART == PART - 1:
            rest()
    return front.spent_s / count - LOOKS * _look_s()


def _look_s() -> float:
    """Return what it takes to measure nothing."""
    spent = 0.0
    for _ in range(10_000):
        began = time.thread_time()
        spent += time.thread_time() - began
    return spent / 10_000


def main() -> None:
    report = Report()
    count = 1_000 if report.smoke else 20_000
    report.add("tracing_off_per_job", 1e6 * _run(_front(None), count), "us", count)
    exporter = Discard()
    spans = OtlpSpans.to(exporter, {"service.name": "gosched-master"})

    def rest() -> None:
        spans._queue.force_flush()

    report.add("tracing_on_per_job", 1e6 * _run(_front(spans), count, rest), "us", count)
    rest()
    report.add("tracing_send_per_job", 1e6 * exporter.spent_s / count, "us", count)
    report.add("tracing_spans_per_job", exporter.spans / count, "spans", count)
    spans.close()
    _full_queue(report)


def _full_queue(report: Report) -> None:
    tracemalloc.start()
    stuck = OtlpSpans.to(Stuck(), {"service.name": "gosched-master"})
    front = _front(stuck)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    _run(front, 2 * MAX_QUEUED // 8)
    front.state, front.jobs, front.leader = ClusterState(), None, None
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    report.add("tracing_full_queue", held / (1 << 20), "MiB", MAX_QUEUED)


if __name__ == "__main__":
    main()
