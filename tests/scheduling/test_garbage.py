"""Planning leaves nothing for the garbage collector: a view, and all that was made of it, goes with its cycle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gosched.core.spec.placement_rules import Strategy
from gosched.plugins.hadoop import Hadoop
from gosched.plugins.kubernetes import Kubernetes
from gosched.plugins.spark import Spark
from gosched.scheduling import Policy, admit, schedule
from gosched.scheduling.plugins.interface import Plugin
from gosched.scheduling.queries.explain_on_request import explain_on_request
from gosched.scheduling.queries.what_if import what_if
from tests.garbage import no_cycles
from tests.scheduling.support import notation
from tests.scheduling.support.driver import Driver, life
from tests.scheduling.support.tables import SEED, World, begin
from tests.scheduling.test_deadline_admission import job_of

CYCLES = 120  # of each kind: more than 1000 together
RACKS = Policy(topology=("zone", "rack"), reservations=4)
BUSY = """
    nodes
      a  4cpu 2gpu rack=r1
      b  4cpu 2gpu rack=r1
      c  4cpu 2gpu rack=r2
    jobs
      low    yields priority=1 timeout=1h since=10m : 1x 4cpu  on a
      other  yields priority=1 timeout=1h since=10m : 1x 3cpu  on b
      stays  timeout=2h since=10m : 1x 1cpu  on c
      wide   never timeout=1h : 2x 4cpu in:rack
      small  timeout=5m : 1x 1cpu 1gpu
      great  : 1x 9cpu
    windows
      w  c from=30m to=40m
"""
URGENT = BUSY.replace("windows", "  high  priority=9 : 1x 4cpu 2gpu\n    windows")


class Broken(Plugin):
    name = "broken"
    api_version = 1

    def filter(self, request: object, nodes: object) -> object:  # type: ignore[override]
        raise RuntimeError("no idea")


def plan(world: World, policy: Policy) -> None:
    schedule(world.builder.view(world.state), policy, world.state.clock_ms, SEED)


def ask_why(world: World, policy: Policy) -> None:
    for job in ("wide", "great"):
        explain_on_request(world.builder.view(world.state), policy, job, world.state.clock_ms, SEED)


def ask_what_if(world: World, policy: Policy) -> None:
    specs = [notation.job(["x", "priority=9", "timeout=1h", ":", "2x", "4cpu"]), notation.job(["y", ":", "1x", "1cpu"])]
    what_if(world.builder.view(world.state), policy, specs, world.state.clock_ms, SEED)


def ask_for_a_deadline(world: World, policy: Policy) -> None:
    job = job_of(world, "due timeout=10m due=2h : 1x 2cpu")
    admit(world.builder.view(world.state), policy, job, world.state.clock_ms, SEED)


@pytest.mark.parametrize(
    ("table", "act", "policy"),
    [
        (BUSY, plan, RACKS),
        (URGENT, plan, RACKS),
        (BUSY, plan, replace(RACKS, strategy=Strategy.FRAGMENTATION)),
        (BUSY, plan, replace(RACKS, strategy=Strategy.EXPECTED_WASTE)),
        (BUSY, plan, replace(RACKS, plugins=(Kubernetes({}), Spark({}), Hadoop({})))),
        (BUSY, plan, replace(RACKS, plugins=(Broken({}),))),
        (BUSY, ask_why, RACKS),
        (BUSY, ask_what_if, RACKS),
        (BUSY, ask_for_a_deadline, RACKS),
    ],
    ids=["plain", "preemption", "fragmentation", "waste", "plugins", "broken plugin", "why", "what if", "deadline"],
)
def test_cycles_leave_no_garbage(table: str, act: Callable[[World, Policy], None], policy: Policy) -> None:
    world = begin(table)
    act(world, policy)
    with no_cycles():
        for _ in range(CYCLES):
            act(world, policy)


def test_what_hangs_on_a_cycle_of_references_is_seen() -> None:
    @no_cycles()
    def make_one() -> None:
        ring: list[object] = [Policy()]
        ring.append(ring)

    with pytest.raises(AssertionError, match=r"gosched\.scheduling\.policy\.Policy"):
        make_one()


def test_worlds_that_live_for_a_while_leave_no_garbage() -> None:
    """With evictions, fences, repairs, promises kept and broken, windows and nodes that die."""
    with no_cycles():
        for seed in range(20):
            Driver(life(seed, deaths=True), lambda driver, plan: None, lambda driver, plan: None).run()
