"""The log's lines that are for debugging alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from gosched.core.events import TaskChanged, WaitReasonNoted
from gosched.core.records.task import TaskState
from gosched.core.state.cluster_state import ClusterState
from gosched.logs import process
from gosched.observe.logs import log_events

PLACED = TaskChanged(
    job_id="j", task_id="j/w/0", allocation_id="j/w/0.1", node_id="n", before=TaskState.PENDING, after=TaskState.PLACED
)


@pytest.mark.parametrize(("level", "made"), [("debug", ["task", "waits"]), ("info", []), ("warning", [])])
def test_lines_of_tasks_and_of_waits_are_made_at_debug_alone(
    level: str, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_current", SimpleNamespace(level=level))
    with capture_logs() as lines:
        log_events(
            [PLACED, WaitReasonNoted(job_id="j", code="NO_NODE", message="it fits nowhere")], ClusterState(), revision=1
        )
    assert [line["event"] for line in lines] == made
