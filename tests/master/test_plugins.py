"""Plugins on a master: which can be had, how long they may take, and what becomes of a cycle when one fails."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from functools import partial
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from gosched.config.errors import ConfigError
from gosched.config.settings import PluginConfig
from gosched.master.planning import plugin_loader
from gosched.master.planning.plugin_loader import load_plugins
from gosched.master.planning.plugin_runner import PluginRunner
from gosched.master.server import MasterServer
from gosched.plugins import BoolArray, IntArray, Nodes, Plugin, Request
from gosched.plugins.hadoop import Hadoop
from gosched.plugins.kubernetes import APP, HOSTNAME, SPREAD_KEY, Kubernetes
from gosched.plugins.spark import Spark
from gosched.replication.memory import MemoryReplication
from gosched.scheduling.plugins.interface import PluginFault
from gosched.wire.v1 import scheduler_pb2
from tests.master.harness import LIMIT_S, Front, agent, one_master, settings, spec, until
from tests.plugins.cluster import labelled, plan_with
from tests.scheduling.support.cluster import node, where

SHORT_MS, LONG_MS = 50, 60_000


class Stuck(Plugin):
    """Its first call ends when the test lets it."""

    name = "stuck"
    api_version = 1

    def __init__(self, options: Any = ()) -> None:
        super().__init__(dict(options))
        self.let_go = threading.Event()
        self.calls = 0
        self.has_ended = False

    def score(self, request: Request, nodes: Nodes) -> IntArray | None:
        self.calls += 1
        if self.calls == 1:
            self.let_go.wait(LIMIT_S)
            self.has_ended = True
        return None


class Closed(Plugin):
    name = "closed"
    api_version = 1

    def filter(self, request: Request, nodes: Nodes) -> list[tuple[str, BoolArray]]:
        return [("closed today", np.zeros(len(nodes), dtype=bool))]


class Broken(Plugin):
    name = "broken"
    api_version = 1

    def score(self, request: Request, nodes: Nodes) -> IntArray | None:
        raise SystemExit(3)


class Old(Plugin):
    name = "old"
    api_version = 0


class Unversioned(Plugin):
    name = "unversioned"


class Misnamed(Plugin):
    name = "other"
    api_version = 1


class Curious(Plugin):
    name = "curious"
    api_version = 1
    reads = ("queue", "weather")


class NotATuple(Plugin):
    name = "not-a-tuple"
    api_version = 1
    job_labels = "app"  # type: ignore[assignment]


class Raising(Plugin):
    name = "raising"
    api_version = 1

    def __init__(self, options: Any) -> None:
        raise KeyError("host")


def function(options: Any) -> None: ...


INSTALLED = {
    "stuck": "Stuck",
    "closed": "Closed",
    "broken": "Broken",
    "old": "Old",
    "unversioned": "Unversioned",
    "misnamed": "Misnamed",
    "curious": "Curious",
    "not-a-tuple": "NotATuple",
    "raising": "Raising",
    "function": "function",
    "missing": "NoSuchClass",
}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint(name, f"{__name__}:{where}", "gosched.plugins") for name, where in INSTALLED.items()]
    monkeypatch.setattr(plugin_loader, "entry_points", lambda group: points if group == "gosched.plugins" else [])


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    plugin = Stuck()
    yield plugin
    plugin.let_go.set()


def config(name: str, **options: str) -> PluginConfig:
    return PluginConfig.model_validate({"name": name, "options": options})


# Which can be had


def test_what_is_shipped_is_found_by_name_and_made_with_its_options() -> None:
    plugins = load_plugins(
        [config("spark", rack_label="shelf"), config("hadoop"), config("kubernetes", balance="false")]
    )
    assert [type(plugin) for plugin in plugins] == [Spark, Hadoop, Kubernetes]
    assert plugins[2].reads == ("allowed",)
    assert load_plugins([]) == ()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nobody", "no plugin nobody is installed; there are broken, closed, curious, function, misnamed, missing, "),
        ("old", "plugin old says api_version 0; this gosched supports 1"),
        ("unversioned", "plugin unversioned says api_version 0; this gosched supports 1"),
        ("misnamed", "plugin misnamed calls itself 'other'"),
        ("curious", "plugin curious reads 'weather'; there are job_id, "),
        ("not-a-tuple", "plugin not-a-tuple declares 'app', expected a tuple"),
        ("raising", "plugin raising cannot be made: KeyError: 'host'"),
        ("function", "plugin function is no subclass of gosched.plugins.Plugin"),
        ("missing", "plugin missing cannot be imported: AttributeError: "),
    ],
)
def test_a_plugin_that_cannot_be_had_says_why(installed: None, name: str, why: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(why)):
        load_plugins([config(name)])


def test_bad_options_are_an_error_that_names_the_plugin() -> None:
    with pytest.raises(ValueError, match="plugin spark: it has no option 'racks'; there are rack_label"):
        load_plugins([config("spark", racks="3")])


def test_a_master_with_a_plugin_that_cannot_be_had_does_not_start() -> None:
    with pytest.raises(ConfigError, match="no plugin nobody is installed"):
        MasterServer(settings(plugins=[{"name": "nobody"}]), MemoryReplication("m1"))


# How long they may take


def test_an_answer_and_an_error_come_back_from_the_plugins_own_thread() -> None:
    call = PluginRunner({"closed": LONG_MS})()
    plugin = Closed({})
    assert call(plugin, lambda: threading.current_thread().name) == "plugin-closed"
    assert call(plugin, lambda: threading.current_thread().daemon) is True
    with pytest.raises(ZeroDivisionError):
        call(plugin, lambda: 1 // 0)
    with pytest.raises(PluginFault, match="raised SystemExit"):
        call(plugin, lambda: exit(3))
    assert call(plugin, lambda: 7) == 7


def test_an_endless_call_is_left_alone_and_the_cycle_places_all_the_same(stuck: Stuck) -> None:
    nodes, jobs = [node("a")], [labelled(1, {}), labelled(2, {})]
    runner = PluginRunner({"stuck": SHORT_MS})
    plan = plan_with([stuck], nodes, jobs, runner=runner)
    assert not stuck.has_ended
    assert where(plan) == {"j1": "a", "j2": "a"}
    assert plan.faults == ("stuck: took longer than its 50 ms in a cycle",)

    plan = plan_with([stuck], nodes, jobs, runner=runner)
    assert plan.faults == ("stuck: a call of an earlier cycle has not ended yet",)
    assert stuck.calls == 1

    stuck.let_go.set()
    ends = time.monotonic() + LIMIT_S
    while plan.faults and time.monotonic() < ends:
        time.sleep(0.01)
        plan = plan_with([stuck], nodes, jobs, runner=runner)
    assert plan.faults == ()
    assert where(plan) == {"j1": "a", "j2": "a"}


def test_all_calls_of_a_cycle_share_the_time_and_the_next_cycle_starts_anew() -> None:
    runner = PluginRunner({"closed": 200})
    plugin, call = Closed({}), runner()

    def three_naps() -> None:
        for _ in range(3):
            call(plugin, lambda: time.sleep(0.08))

    with pytest.raises(PluginFault, match="took longer than its 200 ms"):
        three_naps()
    ends = time.monotonic() + LIMIT_S
    while time.monotonic() < ends:
        try:
            assert runner()(plugin, lambda: 7) == 7
            return
        except PluginFault:
            time.sleep(0.01)  # the third nap has not ended yet
    pytest.fail("the plugin stays out")


def test_one_that_is_stuck_takes_no_time_from_the_others(stuck: Stuck) -> None:
    plugins = [stuck, Kubernetes({"balance": "false"})]
    runner = PluginRunner({"stuck": SHORT_MS, "kubernetes": LONG_MS})
    nodes = [node("a", labels=(("zone", "a"),)), node("b", labels=(("zone", "b"),))]
    jobs = [labelled(i, {APP: "web", SPREAD_KEY: "zone"}) for i in (1, 2)]
    plan = plan_with(plugins, nodes, jobs, runner=runner)
    assert sorted(where(plan).values()) == ["a", "b"]
    assert [fault.partition(":")[0] for fault in plan.faults] == ["stuck"]


# On a master


def test_a_plugins_filter_holds_a_job_back_and_explain_says_so(installed: None) -> None:
    async def story() -> None:
        async with one_master(plugins=[{"name": "closed", "timeout": "60s"}]) as master, agent(master):
            job_id = (await master.submit(spec("w"))).job_id
            await master.until_planned(job_id)
            found = await master.scheduler.ExplainJob(scheduler_pb2.GetJobRequest(job=job_id), timeout=LIMIT_S)
            assert ("closed today", 1) in [(item.filter, item.nodes) for item in found.refused]

    asyncio.run(story())


def test_a_later_cycle_knows_where_an_earlier_one_put_the_app() -> None:
    async def story() -> None:
        plugins = [{"name": "kubernetes", "timeout": "60s", "options": {"balance": False}}]
        labels = tuple(sorted({APP: "web", SPREAD_KEY: HOSTNAME}.items()))
        async with one_master(plugins=plugins) as master, agent(master, "n1"), agent(master, "n2"):
            found = []
            for name in ("w1", "w2"):
                job_id = (await master.submit(spec(name, labels=labels))).job_id
                found.append(await until(partial(_node_of, master, job_id)))
            assert found == ["n1", "n2"]  # best fit alone would fill n1

    asyncio.run(story())


def _node_of(master: Front, job_id: str) -> str:
    return str(next(task.node_id for task in master.state.tasks.values() if task.job_id == job_id))


def test_a_job_runs_although_a_plugin_breaks_and_log_and_metrics_tell(installed: None) -> None:
    async def story() -> None:
        plugins = [{"name": "broken", "timeout": "60s"}]
        async with one_master(plugins=plugins) as master, agent(master):
            with capture_logs() as logs:
                job_id = (await master.submit(spec("w"))).job_id
                await until(lambda: _node_of(master, job_id))
                await until(lambda: [line for line in logs if line.get("plugin") == "broken"])
            assert {line["why"] for line in logs if "plugin" in line} == {"raised SystemExit"}
            assert 'gosched_plugin_faults_total{plugin="broken"}' in master.server.metrics.text().decode()

    asyncio.run(story())
