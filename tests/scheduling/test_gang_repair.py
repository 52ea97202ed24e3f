"""A gang that lost members with a node starts again where it stood."""

from __future__ import annotations

from gosched.core.commands.cluster import SetQuotas
from gosched.core.commands.jobs import Action, ControlJob
from gosched.core.commands.nodes import LabelNode
from gosched.core.records.job import JobIntent, JobState
from gosched.core.records.tenant import Quota
from gosched.core.spec.placement_rules import Taint
from gosched.core.spec.policies import GangPolicy, MemberFailure, RetryCause, RetryPolicy
from gosched.scheduling import Policy
from tests.scheduling.support import notation
from tests.scheduling.support.notation import NOW_MS, duration
from tests.scheduling.support.tables import World, begin

RACKS = Policy(topology=("zone", "rack"))
NODES = """
        nodes
          a  4cpu rack=r1 zone=z
          b  4cpu rack=r1 zone=z
          c  4cpu rack=r1 zone=z
          d  4cpu rack=r2 zone=z
          e  4cpu rack=r2 zone=z
"""


def test_lost_tasks_get_places_in_the_same_rack_the_others_keep_theirs_and_ranks_follow_the_topology() -> None:
    world = begin(f"""{NODES}
        jobs
          gang  yields since=1h : 2x 4cpu in:rack  on b c
    """)
    world.kill("b")
    world.expect("gang a c | repair gang", RACKS)
    assert nodes_of(world, "gang") == []
    world.stop()
    assert nodes_of(world, "gang") == ["a", "c"]
    gang = world.state.jobs["gang"]
    assert (gang.state, gang.attempt, gang.restarts) == (JobState.RUNNING, 2, 0)


def test_nobody_takes_the_places_of_a_gang_that_is_repaired_meanwhile() -> None:
    world = begin(f"""{NODES}
        jobs
          other  since=1h : 2x 4cpu  on d e
          gang   yields since=1h : 2x 4cpu in:rack  on b c
          next   priority=9 : 1x 4cpu
          last   priority=9 : 1x 4cpu
    """)
    world.kill("b")
    world.expect("gang a c | repair gang\nnext INSUFFICIENT\nlast INSUFFICIENT", RACKS)
    world.expect("next INSUFFICIENT\nlast INSUFFICIENT", RACKS)
    world.stop()
    assert nodes_of(world, "gang") == ["a", "c"]


def test_a_group_is_repaired_in_its_zone_though_another_group_with_lost_tasks_would_fit_a_smaller_one() -> None:
    world = begin("""
        nodes
          a  3cpu zone=z1 rack=r1
          b  4cpu zone=z1 rack=r2
          c  8cpu zone=z1 rack=r3
          d  4cpu zone=z2 rack=r1
        jobs
          gang  yields since=1h : 2x 1cpu in:zone | 1x 3cpu in:rack  on a b b
    """)
    world.kill("b")
    world.expect("gang a a c | repair gang", RACKS)


def test_a_gang_that_does_not_fit_in_its_domain_any_more_waits_for_another_one() -> None:
    world = begin(f"""{NODES}
        jobs
          other  since=1h : 1x 4cpu  on a
          gang   yields since=1h : 2x 4cpu in:rack  on b c
    """)
    world.kill("b")
    world.expect("", RACKS)
    world.stop()
    world.expect("gang d e", RACKS)


def test_a_gang_keeps_no_place_on_a_node_that_would_not_take_it_any_more() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
          c  4cpu
        jobs
          gang  yields since=1h : 2x 4cpu  on b c
    """)
    world.do(LabelNode(node_id="c", taints=(Taint(key="broken"),)))
    world.kill("b")
    world.expect("", RACKS)
    world.do(LabelNode(node_id="c", drop_taints=("broken",)))
    world.expect("gang a c | repair gang", RACKS)


FAILS = (RetryCause.NODE_LOST, RetryCause.FAILED)


def broken(backoff: str = "0s", fails: tuple[RetryCause, ...] = FAILS, nodes: str = NODES) -> World:
    """A gang on b and c, of which rank 1 has failed; a later one that wants all nodes but a waits."""
    world = begin(nodes)
    retry = RetryPolicy(max_restarts=3, backoff_ms=duration(backoff), when=fails)
    world.start("gang : 2x 4cpu  on b c", retry=retry)
    world.submit(["later", ":", "3x", "4cpu"])
    world.submit(["small", ":", "1x", "4cpu"])
    world.run("gang")
    world.fail("gang", 1)
    return world


def test_a_gang_whose_member_failed_keeps_its_place_from_later_ones_while_it_stops() -> None:
    world = broken()
    world.expect("gang b c | repair gang\nlater a d e\nsmall INSUFFICIENT")
    world.stop()
    assert (nodes_of(world, "gang"), world.state.jobs["gang"].restarts) == (["b", "c"], 1)


def test_a_gang_all_of_whose_members_ended_at_once_comes_before_others_where_it_ran() -> None:
    world = broken()
    world.stop()  # before a cycle has seen it
    assert world.state.jobs["gang"].state is JobState.PENDING
    world.expect("gang b c\nlater a d e\nsmall INSUFFICIENT")


def test_its_place_is_kept_until_its_backoff_is_over() -> None:
    world = broken("20s")
    world.stop()
    world.expect("gang b c | repair gang\nlater a d e\nsmall INSUFFICIENT")
    world.go("19s")
    world.expect("small INSUFFICIENT")
    assert nodes_of(world, "gang") == []
    assert world.state.timers.next_ms() == NOW_MS + duration("20s")
    world.go("20s")
    assert nodes_of(world, "gang") == ["b", "c"]


def test_a_gang_that_is_stopped_while_its_backoff_runs_starts_after_it() -> None:
    world = broken("20s")
    world.expect("gang b c | repair gang\nlater a d e\nsmall INSUFFICIENT")
    world.stop()
    assert nodes_of(world, "gang") == []
    world.go("20s")
    assert nodes_of(world, "gang") == ["b", "c"]


def test_a_long_backoff_gives_the_place_to_others() -> None:
    world = broken("2m")
    world.expect("later a c d\nsmall e")
    world.stop()
    world.expect("gang BACKOFF")


def test_a_gang_that_may_fail_keeps_its_place_until_it_is_known_why() -> None:
    world = broken(fails=(RetryCause.NODE_LOST,))
    assert world.state.jobs["gang"].intent is JobIntent.FAIL
    world.expect("gang b c | repair gang\nlater a d e\nsmall INSUFFICIENT")
    world.stop()
    assert (world.state.jobs["gang"].state, world.state.fences) == (JobState.FAILED, {})
    world.expect("small b")


def test_survivors_that_ended_long_before_their_node_is_known_to_be_lost_keep_their_places() -> None:
    world = broken(fails=(RetryCause.NODE_LOST,))
    world.expect("gang b c | repair gang\nlater a d e\nsmall INSUFFICIENT")
    world.kill("b")
    assert (world.state.jobs["gang"].state, world.state.jobs["gang"].reason) == (JobState.PENDING, "NODE_LOST")
    world.end("later")
    world.expect("gang a c\nsmall d")


def test_a_member_does_not_go_back_to_where_somebody_else_is_by_now() -> None:
    world = broken()
    world.stop()
    world.submit(["thief", ":", "1x", "4cpu", "on", "b"])
    world.expect("gang a c\nsmall d\nlater INSUFFICIENT")


def test_a_repaired_gang_goes_back_to_its_own_gpus() -> None:
    world = begin("""
        nodes
          a  8cpu 4gpu
          b  8cpu 4gpu
    """)
    world.start("gang : 2x 1cpu 2gpu  on a[1,3] b[0,2]", retry=RetryPolicy(max_restarts=3, when=FAILS))
    world.fail("gang", 0)
    world.stop()
    world.expect("gang a[1,3] b[0,2]")


def test_a_member_of_a_gang_that_goes_on_starts_again_where_it_ran_before_others_get_its_place() -> None:
    world = begin(NODES)
    goes_on = GangPolicy(min_tasks=1, on_member_failure=MemberFailure.CONTINUE)
    retry = RetryPolicy(max_restarts=3, backoff_ms=5000, when=FAILS)
    world.start("gang : 1..2x 4cpu  on b c", retry=retry, gang=goes_on)
    world.fail("gang", 1)
    world.expect("gang BACKOFF")
    world.submit(["later", "priority=9", ":", "4x", "4cpu"])
    world.go("5s")
    world.expect("gang c\nlater INSUFFICIENT")
    assert (nodes_of(world, "gang"), world.state.jobs["gang"].attempt) == (["b", "c"], 1)


def test_a_member_that_failed_lets_its_gang_have_no_more_than_its_own_place_before_others() -> None:
    world = begin(NODES)
    goes_on = GangPolicy(min_tasks=1, on_member_failure=MemberFailure.CONTINUE)
    retry = RetryPolicy(max_restarts=3, when=FAILS)
    world.start("gang : 1..5x 4cpu  on b c", retry=retry, gang=goes_on)
    world.submit(["urgent", "priority=9", ":", "3x", "4cpu"])
    world.fail("gang", 1)
    world.expect("gang c\nurgent a d e")


def test_a_gang_that_is_held_does_not_ask_for_its_members_again() -> None:
    world = begin(NODES)
    goes_on = GangPolicy(min_tasks=1, on_member_failure=MemberFailure.CONTINUE)
    world.start("gang : 1..2x 4cpu  on b c", retry=RetryPolicy(max_restarts=3, when=FAILS), gang=goes_on)
    world.fail("gang", 1)
    world.do(ControlJob(job_id="gang", action=Action.HOLD))
    world.expect("")


def test_places_are_not_kept_idle_for_a_backoff_where_a_more_urgent_gang_waits() -> None:
    world = broken("20s")
    world.stop()
    world.submit(["urgent", "priority=9", ":", "4x", "4cpu"])
    world.expect("urgent a b c d\nsmall e\ngang BACKOFF\nlater INSUFFICIENT")


def test_a_member_does_not_go_back_to_cpus_that_its_node_has_not_any_more() -> None:
    world = begin("""
        nodes
          a  4cpu numa:0-3
          b  4cpu numa:0-3
    """)
    world.start("gang : 2x 2cpu  on a[;0-1] b[;0-1]", retry=RetryPolicy(max_restarts=3, when=FAILS))
    world.fail("gang", 1)
    world.stop()
    world.do(notation.node(["b", "4cpu"]))
    world.expect("gang a a")


def test_a_gang_without_a_rule_is_repaired_with_any_node() -> None:
    world = begin(f"""{NODES}
        jobs
          other  since=1h : 2x 4cpu  on a c
          gang   yields since=1h : 2x 4cpu  on b d
    """)
    world.kill("b")
    world.expect("gang e d | repair gang", RACKS)


def test_a_task_that_has_room_on_the_gangs_own_nodes_goes_there() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  8cpu
        jobs
          gang  yields since=1h : 2x 4cpu  on a b
    """)
    world.kill("a")
    world.expect("gang b b | repair gang", RACKS)


def test_a_gang_that_goes_on_without_its_lost_members_is_not_repaired_but_filled_up() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
          c  4cpu
        jobs
          gang  yields continue since=1h : 1..2x 4cpu  on a b
    """)
    world.kill("b")
    assert world.state.jobs["gang"].state is JobState.RUNNING
    world.expect("gang c", RACKS)


def test_an_elastic_gang_is_repaired_with_as_many_tasks_as_have_room() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
          c  4cpu
        jobs
          gang   yields since=1h : 2..3x 4cpu  on a b c
    """)
    world.kill("a")
    world.expect("gang b c | repair gang", RACKS)


FIVE = """
        nodes
          a  4cpu
          b  4cpu
          c  4cpu
          d  4cpu
          e  4cpu
"""


def test_a_gang_that_was_scaled_down_is_repaired_as_small_though_the_surplus_still_stops() -> None:
    world = begin(f"""{FIVE}
        jobs
          gang   yields since=1h : 2..4x 4cpu  on a b c d
          other  : 1x 4cpu
    """)
    world.do(ControlJob(job_id="gang", action=Action.SCALE, tasks=2))
    assert states_of(world, "gang") == ["PLACED", "PLACED", "STOPPING", "STOPPING"]
    world.kill("a")
    world.expect("gang c b | repair gang\nother e", RACKS)
    world.expect("", RACKS)  # d is free only once the whole gang has stopped
    world.stop()
    assert nodes_of(world, "gang") == ["c", "b"]
    gang = world.state.jobs["gang"]
    assert (gang.state, gang.attempt, gang.active, gang.wanted) == (JobState.RUNNING, 2, 2, 2)


def test_the_place_of_a_surplus_task_that_stops_is_as_good_as_any_for_a_lost_member() -> None:
    world = begin("""
        nodes
          a  4cpu rack=r1
          b  4cpu rack=r1
          c  4cpu rack=r1
        jobs
          gang   yields since=1h : 2..3x 4cpu in:rack  on a b c
    """)
    world.do(ControlJob(job_id="gang", action=Action.SCALE, tasks=2))
    world.kill("b")
    world.expect("gang a c | repair gang", RACKS)


def test_a_gang_whose_tasks_are_in_other_groups_than_it_wants_next_is_repaired() -> None:
    world = begin(f"""{FIVE}
        jobs
          gang   yields since=1h : 1..2x 4cpu | 1..2x 4cpu  on a b c d
    """)
    world.do(ControlJob(job_id="gang", action=Action.SCALE, tasks=3))
    assert states_of(world, "gang") == ["PLACED", "PLACED", "PLACED", "STOPPING"]
    world.kill("b")
    world.expect("gang a d c | repair gang", RACKS)


def test_what_a_gang_gave_to_another_is_not_taken_for_its_repair() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
          c  4cpu
        jobs
          gang  yields since=1h : 2..3x 4cpu  on a b c
          high  priority=9 : 1x 4cpu
    """)
    world.expect("high c | preempt gang/2")
    world.kill("a")
    world.expect("")  # c is high's as soon as the task there has stopped
    world.stop()
    assert nodes_of(world, "high") == ["c"]


def test_whoever_was_evicted_for_another_gang_is_not_repaired() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
        jobs
          gang  yields since=1h : 2x 4cpu  on a b
          high  priority=9 : 1x 4cpu
    """)
    world.expect("high a | preempt gang")
    world.kill("b")
    world.expect("")
    world.stop()
    assert nodes_of(world, "high") == ["a"]


def test_the_loss_of_a_fenced_node_ends_the_fence_and_the_gang_is_placed_anew() -> None:
    world = begin("""
        nodes
          a  4cpu
          b  4cpu
          c  4cpu
        jobs
          one   yields since=1h : 1x 4cpu  on a
          two   yields since=2h : 1x 4cpu  on b
          four  yields since=3h : 1x 4cpu  on c
          high  priority=9 : 2x 4cpu
    """)
    world.expect("high a b | preempt one | preempt two")
    world.kill("b")
    assert world.state.fences == {}
    world.stop()
    world.expect("high a c | preempt four\none INSUFFICIENT\ntwo INSUFFICIENT")


def nodes_of(world: World, job_id: str) -> list[str]:
    tasks = world.state.tasks_of(world.state.jobs[job_id])
    return [task.node_id for task in tasks if task.state.is_active and task.state.name != "STOPPING"]


def states_of(world: World, job_id: str) -> list[str]:
    return [task.state.name for task in world.state.tasks_of(world.state.jobs[job_id])]


def test_a_gang_that_is_held_is_not_repaired_again_and_again() -> None:
    """The state machine refuses it: the gang is not to start again."""
    world = begin(f"""{NODES}
        jobs
          gang  yields since=1h : 2x 4cpu in:rack  on b c
    """)
    world.do(ControlJob(job_id="gang", action=Action.HOLD))
    world.kill("b")
    world.expect("", RACKS)


def test_a_gang_that_holds_more_than_its_tenant_may_by_now_is_not_repaired() -> None:
    world = begin(f"""{NODES}
        jobs
          gang  yields tenant=nlp since=1h : 2x 4cpu in:rack  on b c
    """)
    world.do(SetQuotas(quotas=(Quota(tenant="nlp", limit=(("cpu", 4000),)),)))
    world.kill("b")
    world.expect("", RACKS)


def test_what_a_repair_adds_counts_against_limits_before_it_has_started() -> None:
    world = begin(f"""
        quotas
          nlp cpu=9{NODES}
        jobs
          gang  yields tenant=nlp since=1h : 2x 4cpu in:rack  on b c
    """)
    world.kill("b")
    world.expect("gang a c | repair gang", RACKS)
    world.submit(["next", "tenant=nlp", ":", "1x", "2cpu"])
    world.expect("next QUOTA quota of tenant nlp: limit of 9 CPUs, 8 used, the job needs 2", RACKS)
