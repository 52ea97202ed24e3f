"""The JSON documents of HTTP and of `-o json`, byte by byte as they were recorded.

`python -m tests.api.test_json` records them anew; the diff is what users would notice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gosched.api.details import JobDetail
from gosched.api.explanation import JobExplanation
from gosched.api.forecast import JobPlan, Reserved
from gosched.api.job_row import JobRow
from gosched.api.json.cluster import node_json, queue_json, quota_json
from gosched.api.json.explanations import explanation_json, plan_json
from gosched.api.json.jobs import job_detail_json, job_json
from gosched.api.json.reservations import reserved_json
from gosched.api.json.status import status_json
from gosched.api.json.usage import node_usage_json, task_usage_json
from gosched.api.status import QueueStatus, QuotaStatus, Status
from gosched.api.usage import TaskUsage
from gosched.wire.codec import to_record
from gosched.wire.node_views import node_detail, node_usage
from gosched.wire.v1 import node_pb2, scheduler_pb2, types_pb2
from tests.api.messages import full

RECORDED = Path(__file__).with_name("documents.json")


def _array(row: scheduler_pb2.JobRow) -> scheduler_pb2.JobRow:
    """An array that does not wait: a row has a reason, or none."""
    row.cron = row.wait_code = ""
    return row


def _elements(message: types_pb2.Job) -> types_pb2.Job:
    """An array: a job with a cron line is a schedule."""
    message.spec.cron = ""
    message.frozen = False
    return message


def _idle(view: scheduler_pb2.JobView) -> scheduler_pb2.JobView:
    """Of a job that waits: it has no reason of its own."""
    view.job.reason = ""
    _elements(view.job)
    return view


def _live_detail(view: scheduler_pb2.JobView) -> Any:
    """With what the first task uses now."""
    view.tasks[0].state = types_pb2.TASK_STATE_RUNNING
    usage = full(node_pb2.TaskUsageView, step=7)
    usage.task_id = view.tasks[0].id
    return job_detail_json(to_record(view, JobDetail), [to_record(usage, TaskUsage)])


#: The message that a document is made of, and how.
DOCUMENTS: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "status": (scheduler_pb2.ClusterStatus, lambda m: status_json(to_record(m, Status))),
    "job": (scheduler_pb2.JobRow, lambda m: job_json(to_record(m, JobRow))),
    "job of an array": (scheduler_pb2.JobRow, lambda m: job_json(to_record(_array(m), JobRow))),
    "job with tasks": (scheduler_pb2.JobView, lambda m: job_detail_json(to_record(m, JobDetail))),
    "job that waits": (scheduler_pb2.JobView, lambda m: job_detail_json(to_record(_idle(m), JobDetail))),
    "node": (node_pb2.NodeView, lambda m: node_json(node_detail(m))),
    "queue": (scheduler_pb2.QueueStatus, lambda m: queue_json(to_record(m, QueueStatus))),
    "quota": (scheduler_pb2.QuotaStatus, lambda m: quota_json(to_record(m, QuotaStatus))),
    "explanation": (scheduler_pb2.JobExplanation, lambda m: explanation_json(to_record(m, JobExplanation))),
    "plan": (scheduler_pb2.PlanJobResponse, lambda m: plan_json(to_record(m, JobPlan))),
    "reservations": (scheduler_pb2.ListReservationsResponse, lambda m: reserved_json(to_record(m, Reserved))),
    "node usage": (node_pb2.NodeUsageView, lambda m: node_usage_json(node_usage(m))),
    "task usage": (node_pb2.TaskUsageView, lambda m: task_usage_json(to_record(m, TaskUsage))),
}


def _made() -> Iterator[tuple[str, Any]]:
    for name, (kind, shape) in DOCUMENTS.items():
        yield f"{name}, empty", shape(kind())
        yield f"{name}, whole numbers", shape(full(kind, step=1000))
        yield f"{name}, fractions", shape(full(kind, step=1037))
    unset = full(scheduler_pb2.JobRow, step=1000)
    unset.overlap = unset.waits_for[0].condition = 0
    yield "job, enums unset", job_json(to_record(unset, JobRow))
    yield "job with a task at work", _live_detail(full(scheduler_pb2.JobView, step=1037))


def _text(document: Any) -> str:
    return json.dumps(document, indent=1)


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return dict(_made())


@pytest.mark.parametrize("name", json.loads(RECORDED.read_text()) if RECORDED.exists() else ())
def test_a_document_is_as_it_was_recorded(name: str, made: dict[str, Any]) -> None:
    assert _text(made[name]) == _text(json.loads(RECORDED.read_text())[name])


def test_every_document_was_recorded(made: dict[str, Any]) -> None:
    assert set(json.loads(RECORDED.read_text())) == set(made)


if __name__ == "__main__":
    RECORDED.write_text(_text(dict(_made())) + "\n")
