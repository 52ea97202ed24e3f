"""Queues are replaced whole; epochs only go up."""

import pytest

from gosched.core.commands.cluster import AnnounceMaster, Noop, OpenEpoch, SetQueues
from gosched.core.events import EpochOpened, QueuesChanged
from gosched.core.limits import MAX_DURATION_MS, MAX_MASTERS
from gosched.core.outcome import Accepted, Code
from gosched.core.records.master import Master
from gosched.core.records.queue import Queue, QueueType
from gosched.core.spec.policies import PreemptionPolicy
from tests.state_machine.cluster import MASTER, Cluster, spec

DEFAULT = Queue(path="default")


def capacity(path: str, **more: object) -> Queue:
    return Queue(path=path, type=QueueType.CAPACITY, **more)  # type: ignore[arg-type]


def test_queues_are_replaced_whole():
    c = Cluster()
    c.accept(SetQueues(queues=(Queue(path="a"), Queue(path="a.b", type=QueueType.FAIR, weight=3))))
    assert list(c.state.queues) == ["a", "a.b"]
    assert c.events == (QueuesChanged(),)


def test_the_same_queues_again_change_nothing():
    c = Cluster()
    assert c.accept(SetQueues(queues=(DEFAULT,))).unchanged
    assert c.events == ()


def test_a_queue_with_live_jobs_cannot_vanish_and_one_whose_jobs_ended_can():
    c = Cluster()
    c.submit(spec(), "j1")
    gone = SetQueues(queues=(Queue(path="other"),))
    assert "queue default still has live jobs" in c.reject(gone, Code.CONFLICT)
    c.cancel("j1")
    c.accept(gone)


@pytest.mark.parametrize(
    "queues",
    [
        (),
        (DEFAULT, DEFAULT),
        (Queue(path=""),),
        (Queue(path="a b"),),
        (Queue(path="a..b"),),
        (Queue(path="a", type=QueueType.UNSPECIFIED),),
        (Queue(path="a", weight=0),),
        (capacity("a", capacity_pct=101),),
        (capacity("a", capacity_pct=-1),),
        (Queue(path="a", max_pct=0),),
        (Queue(path="a", max_pct=101),),
        (capacity("a", capacity_pct=50, max_pct=40),),
        (capacity("a", capacity_pct=60), capacity("b", capacity_pct=60)),
        (Queue(path="a"), capacity("a.x", capacity_pct=60), capacity("a.y", capacity_pct=60)),
        (Queue(path="a.b"),),
        (Queue(path="a"), Queue(path="a.b.c")),
        (Queue(path="a", capacity_pct=10),),
        (Queue(path="a", type=QueueType.FAIR, guaranteed=(("cpu", 1),)),),
        (capacity("a", guaranteed=(("cpu", 2),), limit=(("cpu", 1),)),),
        (capacity("a", guaranteed=(("cpu", -1),)),),
        (capacity("a", guaranteed=(("gpu", 3),)), *(capacity(f"a.{q}", guaranteed=(("gpu", 2),)) for q in "xy")),
        (Queue(path="a", limit=(("memory", 1), ("cpu", 1))),),
        (Queue(path="a", limit=(("cpu", 1), ("cpu", 1))),),
        (Queue(path="a", limit=(("gpu:", 1),)),),
        (Queue(path="a", limit=(("gpus:h100", 1),)),),
        (Queue(path="a", limit=(("cpu", (1 << 62) + 1),)),),
        (Queue(path="a", weight=1_000_001),),
        (Queue(path="a", max_running_jobs=-1),),
        (Queue(path="a", half_life_ms=59_999),),
        (Queue(path="a", half_life_ms=MAX_DURATION_MS + 1),),
        (Queue(path="a", tenants=("b", "a")),),
        (Queue(path="a", tenants=("a", "a")),),
        (Queue(path="a", tenants=("a b",)),),
        (Queue(path="a", tenants=tuple(f"t{i:04}" for i in range(1001))),),
    ],
)
def test_bad_queues_are_refused(queues):
    assert Cluster().reject(SetQueues(queues=queues), Code.INVALID)


def test_a_queue_with_live_jobs_gets_no_queues_below_it():
    c = Cluster()
    c.submit(spec(), "j1")
    split = SetQueues(queues=(DEFAULT, Queue(path="default.a")))
    assert "live jobs: cancel them or let them end before it gets queues below it" in c.reject(split, Code.CONFLICT)
    c.cancel("j1")
    c.accept(split)


def test_a_guarantee_binds_the_queues_below_for_the_resources_that_it_names():
    top = capacity("a", guaranteed=(("gpu", 4),), limit=(("gpu", 4), ("gpu:h100", 2), ("x.y", 0)))
    below = [capacity(f"a.{q}", guaranteed=(("cpu", 9), ("gpu", 2))) for q in "xy"]
    Cluster().accept(SetQueues(queues=(top, *below)))


@pytest.mark.parametrize("policy", PreemptionPolicy)
def test_a_queue_says_whether_its_jobs_may_preempt_or_leaves_it_to_its_parent(policy):
    c = Cluster()
    c.accept(SetQueues(queues=(Queue(path="a", preemption=policy),)))
    assert c.state.queues["a"].preemption is policy


def test_percents_are_summed_among_neighbours_only():
    c = Cluster()
    c.accept(SetQueues(queues=(capacity("a", capacity_pct=100), capacity("a.b", capacity_pct=100))))


def test_each_opening_makes_the_next_epoch_and_records_its_leader():
    c = Cluster()
    assert c.accept(OpenEpoch(leader=MASTER)).subject == "1"
    assert c.accept(OpenEpoch(leader=MASTER)).subject == "2"
    assert (c.state.epoch, c.state.leader, c.state.masters) == (2, "m1", {"m1": MASTER})
    assert c.events == (EpochOpened(epoch=2, leader="m1"),)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_command_of_another_epoch_is_refused_and_changes_nothing(epoch):
    c = Cluster()
    for _ in range(2):
        c.accept(OpenEpoch(leader=MASTER))
    outcome = c.do(Noop(), epoch=epoch)
    assert not isinstance(outcome, Accepted)
    assert outcome.code is Code.STALE_EPOCH
    assert c.do(Noop(), epoch=2) == Accepted()
    assert c.do(Noop(), epoch=0) == Accepted()


def test_masters_say_where_they_listen_and_the_oldest_of_too_many_is_forgotten():
    c = Cluster()
    for n in range(MAX_MASTERS + 1):
        c.accept(AnnounceMaster(master=Master(id=f"m{n}", grpc_address="a:1", http_address="a:2")))
    assert len(c.state.masters) == MAX_MASTERS
    assert "m0" not in c.state.masters
    assert c.accept(AnnounceMaster(master=Master(id="m1", grpc_address="a:1", http_address="a:2"))).unchanged


@pytest.mark.parametrize(
    "bad", [Master(id="", grpc_address="", http_address=""), Master(id="m", grpc_address="\n", http_address="")]
)
def test_a_master_with_a_bad_name_or_address_is_refused(bad):
    c = Cluster()
    c.reject(OpenEpoch(leader=bad), Code.INVALID)
    c.reject(AnnounceMaster(master=bad), Code.INVALID)
