"""What is worked out about one gang when somebody asks."""

from gosched.core.records.queue import Queue
from gosched.core.state.cluster_state import ClusterState
from gosched.scheduling import Policy, ViewBuilder, schedule
from gosched.scheduling.explain.explainer import MAX_EXPLAINED
from gosched.scheduling.explain.explanation import Explanation
from gosched.scheduling.queries.explain_on_request import explain_on_request
from tests.scheduling.support.cluster import allocation, group, job, node, resources, state_of


def asked(state: ClusterState, job_id: str) -> Explanation | None:
    builder = ViewBuilder()
    builder.reset(state)
    return explain_on_request(builder.view(state), Policy(), job_id, now_ms=0)


def test_what_a_cycle_told_in_brief_is_told_whole() -> None:
    nodes = [node(name, cpu=4) for name in "ab"]
    held = [allocation(f"x{name}", name, resources(cpu=2)) for name in "ab"]
    kinds = MAX_EXPLAINED + 5
    state = state_of(nodes, [job(i, group(cpu=3, mem=i % 16, storage=i)) for i in range(1, kinds + 1)], held)
    builder = ViewBuilder()
    builder.reset(state)
    brief = schedule(builder.view(state), Policy(), 0, 1).explanations[f"j{kinds}"]
    assert brief.brief
    assert not brief.refused
    whole = asked(state, f"j{kinds}")
    assert whole is not None
    assert (whole.brief, whole.code) == (False, "FRAGMENTED")
    assert whole.refused == (("short of CPU", 2),)
    assert whole.nearest == "needs 3 CPUs on one node; best is a with 2"


def test_a_limit_is_told_before_the_nodes_are_looked_at() -> None:
    state = state_of([node("a", cpu=4)], [job(1, group(cpu=3))])
    state.set_queues((Queue(path="default", limit=(("cpu", 2000),)),))
    found = asked(state, "j1")
    assert found is not None
    assert (found.code, found.limit) == (
        "QUEUE_LIMIT",
        "queue default: the job needs 3 CPUs, its limit is 2: waiting does not help",
    )


def test_a_gang_that_fits_by_now_is_said_to() -> None:
    found = asked(state_of([node("a", cpu=4)], [job(1, group(cpu=3))]), "j1")
    assert found is not None
    assert found.message == "it fits now; its turn comes in the next cycle"


def test_of_a_job_that_does_not_wait_there_is_nothing_to_say() -> None:
    assert asked(state_of([node("a")]), "j1") is None
