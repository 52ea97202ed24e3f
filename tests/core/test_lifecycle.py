"""The lifecycle tables, step by step."""

import itertools

import pytest

from gosched.core.lifecycle import JOB_STEPS, NODE_STEPS, TASK_STEPS, IllegalStep, advance
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.records.task import TaskState

TABLES = [(JOB_STEPS, JobState), (TASK_STEPS, TaskState), (NODE_STEPS, NodeState)]

LEGAL = {
    JobState: """PENDING>RUNNING PENDING>FAILED PENDING>CANCELLED PENDING>SUSPENDED RUNNING>PENDING
        RUNNING>SUSPENDED RUNNING>SUCCEEDED
        RUNNING>FAILED RUNNING>CANCELLED SUSPENDED>PENDING SUSPENDED>RUNNING SUSPENDED>FAILED SUSPENDED>CANCELLED""",
    TaskState: """PENDING>PLACED PENDING>KILLED
        PLACED>STARTING PLACED>RUNNING PLACED>STOPPING PLACED>SUCCEEDED PLACED>FAILED PLACED>KILLED PLACED>LOST
        STARTING>RUNNING STARTING>STOPPING STARTING>SUCCEEDED STARTING>FAILED STARTING>KILLED STARTING>LOST
        RUNNING>STOPPING RUNNING>SUCCEEDED RUNNING>FAILED RUNNING>KILLED RUNNING>LOST
        STOPPING>SUCCEEDED STOPPING>FAILED STOPPING>KILLED STOPPING>LOST
        SUCCEEDED>PENDING FAILED>PENDING KILLED>PENDING LOST>PENDING""",
    NodeState: """READY>CORDONED READY>DRAINING READY>DEAD CORDONED>READY CORDONED>DRAINING CORDONED>DEAD
        DRAINING>READY DRAINING>CORDONED DRAINING>DEAD DEAD>READY DEAD>CORDONED""",
}


@pytest.mark.parametrize(("table", "kind"), TABLES)
def test_each_step_is_legal_or_raises_exactly_as_listed(table, kind):
    legal = LEGAL[kind].split()
    known = [s for s in kind if s.name != "UNSPECIFIED"]
    for now, to in itertools.product(known, known):
        if f"{now.name}>{to.name}" in legal:
            assert advance(table, now, to) is to
        else:
            with pytest.raises(IllegalStep, match=f"{now.name} -> {to.name}"):
                advance(table, now, to)


@pytest.mark.parametrize(("table", "kind"), TABLES)
def test_each_table_knows_each_state(table, kind):
    assert set(table) == {s for s in kind if s.name != "UNSPECIFIED"}


def test_final_jobs_go_nowhere_and_active_tasks_are_those_between_placement_and_end():
    assert [s for s in JobState if s.is_final] == [s for s in JOB_STEPS if not JOB_STEPS[s]]
    assert [s.name for s in TaskState if s.is_active] == ["PLACED", "STARTING", "RUNNING", "STOPPING"]
    assert [s.name for s in TaskState if s.is_final] == ["SUCCEEDED", "FAILED", "KILLED", "LOST"]
    assert [s.name for s in TaskState if s.is_failure] == ["FAILED", "LOST"]
