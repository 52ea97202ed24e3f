"""The spans that an agent makes of its tasks."""

from __future__ import annotations

from pathlib import Path

from gosched.agent.tasks.spool import Spool
from gosched.agent.tasks.task import Task
from gosched.agent.tasks.tracing import TaskTraces
from gosched.core.commands.nodes import TaskReport
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason
from gosched.core.records.task import TaskState
from gosched.core.trace_context import attempt_span_id
from gosched.observe.tracing import MS, Span

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Sent(list[Span]):
    put = list.append

    def close(self) -> None:
        pass


def _task(path: Path, traceparent: str = PARENT, **more: int) -> Task:
    env = (("GOSCHED_ATTEMPT", "2"), ("TRACEPARENT", traceparent))
    order = TaskOrder(allocation_id="j/t/0.2", task_id="j/t/0", job_id="j", env=env)
    return Task(order=order, spool=Spool(path), **more)


def _ending(state: TaskState, **more: object) -> TaskReport:
    return TaskReport(allocation_id="j/t/0.2", state=state, ended_at_ms=9000, **more)  # type: ignore[arg-type]


def test_a_task_has_a_start_and_a_run_below_its_attempt(tmp_path: Path) -> None:
    sent = Sent()
    task = _task(tmp_path, ordered_at_ms=1000)
    task.step("cgroup made")
    task.started_at_ms = 2000
    TaskTraces(sent, "n1").started(task)
    task.ending = _ending(TaskState.FAILED, exit_code=3, reason="NONZERO_EXIT")
    TaskTraces(sent, "n1").ended(task)
    start, run = sent
    assert (start.name, start.start_ns, start.end_ns, start.error) == ("start", 1000 * MS, 2000 * MS, None)
    assert [event.name for event in start.events] == ["cgroup made"]
    assert (run.name, run.start_ns, run.end_ns, run.error) == ("run", 2000 * MS, 9000 * MS, "NONZERO_EXIT")
    assert run.attributes["process.exit.code"] == 3
    assert run.span_id == PARENT[36:52]
    assert start.parent_id == run.parent_id == attempt_span_id("j", 2)


def test_a_start_that_fails_is_an_error_and_there_is_no_run(tmp_path: Path) -> None:
    sent = Sent()
    task = _task(tmp_path, ordered_at_ms=1000)
    task.ending = task.failed(Reason.IMAGE_NOT_FOUND, "there is no image x")
    TaskTraces(sent, "n1").ended(task)
    assert [(span.name, span.error) for span in sent] == [("start", "IMAGE_NOT_FOUND: there is no image x")]


def test_an_adopted_task_has_its_run_as_if_its_agent_had_lived(tmp_path: Path) -> None:
    sent = Sent()
    task = _task(tmp_path, started_at_ms=2000)
    TaskTraces(sent, "n1").started(task)
    task.ending = _ending(TaskState.KILLED)
    TaskTraces(sent, "n1").ended(task)
    TaskTraces(sent, "n1").ended(task)  # the agent was started again before the masters knew
    assert [(span.name, span.error) for span in sent] == [("run", None)] * 2
    assert sent[0] == sent[1]


def test_a_task_that_is_not_sampled_and_one_without_a_context_make_no_span(tmp_path: Path) -> None:
    sent = Sent()
    for traceparent in (PARENT[:-2] + "00", "", "nonsense"):
        task = _task(tmp_path, traceparent, ordered_at_ms=1000, started_at_ms=2000)
        TaskTraces(sent, "n1").started(task)
        task.ending = _ending(TaskState.SUCCEEDED)
        TaskTraces(sent, "n1").ended(task)
    assert not sent
