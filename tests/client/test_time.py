from __future__ import annotations

import grpc
import pytest

from gosched.client import Controlled, GoSchedClient, NotFound, Unavailable
from gosched.config import parse_job_file
from gosched.core.commands.jobs import Action
from gosched.core.records.window import Window
from gosched.wire.v1 import scheduler_pb2

JOBS = parse_job_file("name: a\nrun: x\n---\nname: b\nrun: y\n", "f")
WINDOW = Window(name="maint", start_ms=1000, end_ms=2000, nodes=("n-1",))


def test_an_action_says_which_job_and_whether_it_was_so_already(start_master):
    with GoSchedClient(start_master().address) as client:
        client.submit(JOBS[0])
        assert client.control("a", Action.HOLD) == Controlled(job_id="j-1", unchanged=False)
        assert client.control("j-1", Action.HOLD).unchanged
        with pytest.raises(NotFound):
            client.control("nobody", Action.RESUME)


def test_an_action_outlives_a_leader(start_master):
    first = start_master()
    second = start_master(first)
    with GoSchedClient([first.address, second.address], timeout_s=30) as client:
        client.submit(JOBS[0])
        for master in (first, second):
            master.failures = [grpc.StatusCode.UNAVAILABLE]
        assert client.control("a", Action.SUSPEND).job_id == "j-1"


def test_a_plan_sends_all_jobs_in_order_and_submits_none(start_master):
    master = start_master()
    master.planned.jobs.add(
        name="a", outcome="starts", start_ms=5, nodes=[scheduler_pb2.NodeTasks(node_id="n", tasks=1)]
    )
    master.planned.jobs.add(name="b", outcome="waits", explanation=scheduler_pb2.JobExplanation(code="NO_NODE"))
    master.planned.moved.add(job_id="j-9", name="other", before_ms=5, after_ms=6)
    with GoSchedClient(master.address) as client:
        plan = client.plan(JOBS)
    assert [spec.name for spec in master.requests[0].specs] == ["a", "b"]
    assert (plan.jobs[0].nodes, plan.jobs[0].explanation, plan.jobs[0].start_ms) == ((("n", 1),), None, 5)
    assert plan.jobs[1].explanation.code == "NO_NODE"
    assert (plan.moved[0].job_id, plan.moved[0].after_ms) == ("j-9", 6)
    assert master.jobs == {}


def test_a_window_of_resources_comes_back_with_the_nodes_that_were_chosen(start_master):
    master = start_master()
    with GoSchedClient(master.address) as client:
        assert client.set_window(WINDOW).window == WINDOW
        chosen = client.set_window(Window(name="x", start_ms=1, nodes=()), resources=(("gpu", 8000),))
        assert chosen.window.nodes == ("n-1", "n-2")
        client.drop_window("maint")
    assert dict(master.requests[1].resources) == {"gpu": 8000}


def test_a_change_whose_outcome_is_unknown_says_so(start_master):
    master = start_master()
    master.failures = [grpc.StatusCode.UNAVAILABLE] * 1000
    with (
        GoSchedClient(master.address, timeout_s=0.3) as client,
        pytest.raises(Unavailable, match="may still take effect"),
    ):
        client.set_window(WINDOW)
