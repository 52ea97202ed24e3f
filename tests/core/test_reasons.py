"""Reasons are codes that look like their text to everything that keeps or sends them."""

from __future__ import annotations

import json

import pytest

from gosched.core.commands.nodes import TaskReport
from gosched.core.digest import record_digest
from gosched.core.reasons import Reason, RefusalReason, WaitReason
from gosched.core.records.task import TaskState
from gosched.wire.v1 import types_pb2
from tests.state_machine.cluster import Cluster, group, spec


@pytest.mark.parametrize("kind", [Reason, WaitReason, RefusalReason])
def test_each_value_is_its_name(kind: type[Reason]) -> None:
    assert [code.value for code in kind] == [code.name for code in kind]


def test_a_code_is_kept_sent_and_digested_as_its_text() -> None:
    code, text = (
        TaskReport(allocation_id="a", state=TaskState.FAILED, reason=r) for r in (Reason.OOM_KILLED, "OOM_KILLED")
    )
    assert record_digest("reports", "a", code) == record_digest("reports", "a", text)
    assert types_pb2.Task(reason=Reason.OOM_KILLED) == types_pb2.Task(reason="OOM_KILLED")
    assert json.dumps({"reason": Reason.OOM_KILLED}) == '{"reason": "OOM_KILLED"}'
    assert f"{Reason.OOM_KILLED} %s" % Reason.OOM_KILLED == "OOM_KILLED OOM_KILLED"


def test_a_reason_that_only_a_newer_agent_knows_is_taken_over() -> None:
    c = Cluster()
    c.node("n1")
    job = c.submit(spec("once", group()))
    c.place(job, "n1")
    c.report(job, 0, TaskState.FAILED, 1, reason="OF_A_NEWER_RELEASE")
    assert (c.tasks(job)[0].reason, c.job(job).reason) == ("OF_A_NEWER_RELEASE", "OF_A_NEWER_RELEASE")
