"""Accounts follow what tenants hold in queues with a half-life."""

import pytest

from gosched.core.accounting import average_use, brought_up
from gosched.core.commands.cluster import Noop, SetQueues
from gosched.core.records.node import Hardware
from gosched.core.records.queue import Queue
from gosched.core.records.task import TaskState
from gosched.core.records.tenant import Account
from gosched.core.resources import MILLI
from gosched.core.state.restore import restore
from tests.state_machine.cluster import Cluster, gang, group, spec

HOUR = 3_600_000


def cluster(*queues: Queue) -> Cluster:
    c = Cluster()
    c.accept(SetQueues(queues=(Queue(path="default", half_life_ms=HOUR), *queues)))
    c.node("n1", cpus=100)
    return c


def start(c: Cluster, name: str, *, cpus: int = 4, tenant: str = "nlp", queue: str = "default") -> None:
    c.submit(spec(name, group(cpus=cpus), tenant=tenant, queue=queue), name)
    c.place(name, "n1")


def wait(c: Cluster, milliseconds: int) -> None:
    c.accept(Noop(), at_ms=c.state.clock_ms + milliseconds)


def cpu_average(c: Cluster, key: str = "default/nlp", half_life: int = HOUR) -> float:
    return average_use(c.state.accounts[key], half_life).get("cpu", 0) / MILLI


def test_use_is_charged_when_it_changes_and_decays_with_time():
    c = cluster()
    start(c, "j1")
    assert c.state.accounts == {"default/nlp": Account(queue="default", tenant="nlp", at_ms=c.state.clock_ms)}
    wait(c, HOUR)
    c.report("j1", 0, TaskState.SUCCEEDED, 0)
    assert cpu_average(c) == pytest.approx(2, rel=1e-3)  # half of the 4 CPUs, after one half-life
    wait(c, HOUR)
    start(c, "j2")
    assert cpu_average(c) == pytest.approx(1, rel=1e-2)


def test_use_over_many_changes_adds_up_to_the_same():
    c = cluster()
    for name in ("j1", "j2", "j3", "j4"):
        start(c, name, cpus=1)
        wait(c, 1000)
    wait(c, HOUR)
    for name in ("j1", "j2", "j3", "j4"):
        c.report(name, 0, TaskState.SUCCEEDED, 0)
    assert cpu_average(c) == pytest.approx(2, rel=1e-2)


def test_a_node_that_dies_ends_the_charge_at_that_moment():
    c = cluster()
    start(c, "j1")
    wait(c, HOUR)
    c.die("n1")
    assert cpu_average(c) == pytest.approx(2, rel=1e-3)
    assert c.state.accounts["default/nlp"].at_ms == c.state.clock_ms


def test_gpus_of_every_model_are_charged():
    c = cluster()
    for node, model in (("g1", "h100"), ("g2", "a100"), ("g3", "")):
        c.node(node, gpus=1, gpu_model=model)
        c.submit(spec(node, group(gpus=1), tenant="nlp"), node)
        assert c.plan(gang(c.job(node), node, gpus=((0,),))) == ()
    wait(c, HOUR)
    c.die("g1")
    used = average_use(c.state.accounts["default/nlp"], HOUR)
    assert {name: round(amount / 500) for name, amount in used.items()} == {
        "cpu": 3, "gpu": 3, "gpu:a100": 1, "gpu:h100": 1}  # fmt: skip


def test_gpus_are_charged_to_the_end_though_all_of_their_model_went_bad_meanwhile():
    """A master that was restored in between knew of none of that model, and charged less than the others."""
    c = cluster()
    c.node("g1", gpus=1, gpu_model="h100")
    c.submit(spec("train", group(gpus=1), tenant="nlp"), "j1")
    assert c.plan(gang(c.job("j1"), "g1", gpus=((0,),))) == ()
    c.node("g1", gpus=1, gpu_model="h100", hardware=Hardware(bad_gpus=(0,)))
    c.state = restore(c.state.freeze())
    wait(c, HOUR)
    c.report("j1", 0, TaskState.SUCCEEDED, 0)
    assert average_use(c.state.accounts["default/nlp"], HOUR)["gpu:h100"] == pytest.approx(500, rel=1e-2)


def test_a_queue_takes_the_half_life_of_the_nearest_one_above_it():
    c = cluster(Queue(path="a", half_life_ms=HOUR), Queue(path="a.b"), Queue(path="free"))
    start(c, "j1", queue="a.b")
    start(c, "j2", queue="free")
    assert list(c.state.accounts) == ["a.b/nlp"]


def test_a_new_half_life_starts_at_nothing_and_charges_what_is_held_already():
    c = Cluster()
    c.node("n1")
    start(c, "j1")
    wait(c, HOUR)
    c.accept(SetQueues(queues=(Queue(path="default", half_life_ms=HOUR),)))
    assert c.state.accounts["default/nlp"].used == ()
    wait(c, HOUR)
    c.report("j1", 0, TaskState.SUCCEEDED, 0)
    assert cpu_average(c) == pytest.approx(2, rel=1e-3)


def test_another_half_life_keeps_the_average_and_counts_what_lay_before_by_the_old_one():
    c = cluster()
    start(c, "j1")
    wait(c, HOUR)
    c.accept(SetQueues(queues=(Queue(path="default", half_life_ms=10 * HOUR),)))
    assert cpu_average(c, half_life=10 * HOUR) == pytest.approx(2, rel=1e-3)


@pytest.mark.parametrize("queues", [(Queue(path="default"),), (Queue(path="other", half_life_ms=HOUR),)])
def test_accounts_go_with_the_half_life_and_with_the_queue(queues):
    c = cluster()
    start(c, "j1")
    c.report("j1", 0, TaskState.SUCCEEDED, 0)
    c.accept(SetQueues(queues=queues))
    assert c.state.accounts == {}


def test_a_refused_gang_and_a_queue_without_half_life_touch_no_account():
    c = cluster(Queue(path="free"))
    c.submit(spec("big", group(cpus=101)), "j1")
    c.refused(gang(c.job("j1"), "n1"))
    start(c, "j2", queue="free")
    assert c.state.accounts == {}


def test_memory_of_a_large_cluster_fits_into_64_bits_and_a_sum_stops_there():
    week = 7 * 24 * HOUR
    account = Account(queue="a", tenant="t", at_ms=0)
    large = brought_up(account, {"memory": 1 << 53}, week, 100 * week)
    assert average_use(large, week)["memory"] == pytest.approx(1 << 53, rel=1e-6)
    beyond = brought_up(account, {"memory": 1 << 62, "cpu": 1 << 62}, week, 100 * week)
    assert {amount for _, amount in beyond.used} == {(1 << 63) - 1}
