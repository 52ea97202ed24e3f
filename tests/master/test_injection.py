"""An exception at a function of the planner, wherever it is: no cycle ends a master, and innocent jobs start.

A sample of the places; `python -m tests.master.injection` goes through all of them.
"""

import structlog

from tests.master.injection import hooked, live_with_a_broken_function, live_with_a_culprit, places

#: Each is met in the first lives, and at another depth of the cycle.
AMONG_JOBS = (
    "scheduling.fairness.queue_limits.QueueLimits.allowance",
    "scheduling.snapshot.task_requests.pending_gang",
)
ANYWHERE = (
    "scheduling.cycle_state.CycleState.__init__",
    "scheduling.placement.feasibility.Feasibility.choice",
    "scheduling.snapshot.builder.ViewBuilder.view",
)


def test_a_job_at_which_a_function_fails_costs_no_other_job_its_start() -> None:
    every = places()
    assert len(every) > 500
    with hooked(every) as injection, structlog.testing.capture_logs():
        for at in AMONG_JOBS:
            seen = live_with_a_culprit(injection, at, 0)
            assert seen["thrown"] > 0, at
            assert (seen["late"], seen["innocent set aside"]) == (0, 0), at


def test_a_function_that_fails_at_each_call_ends_no_leader_and_leaves_nothing_behind() -> None:
    with hooked(places()) as injection, structlog.testing.capture_logs():
        for at in ANYWHERE:
            seen = live_with_a_broken_function(injection, at, 0)
            assert seen["thrown"] > 0, at
            assert (seen["late"], seen["still set aside"]) == (0, 0), at
