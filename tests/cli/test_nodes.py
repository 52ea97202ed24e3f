"""Nodes, top and what was used on the command line, against a master with agents that obey."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from gosched.api.json.cluster import node_json
from gosched.api.json.usage import spent_json
from gosched.cli.node_text import node_text
from gosched.cli.output import spent_text
from gosched.client import NodeDetail
from gosched.core.records.node import ClosedBy, Hardware, Node, NodeState
from gosched.core.records.usage import Spent
from gosched.core.resources import ZERO, Resources
from gosched.core.spec.policies import RetryCause, RetryPolicy
from gosched.wire.v1 import node_pb2, types_pb2
from tests.master.harness import RUNNING, SUCCEEDED, agent, spec, until

USED = types_pb2.Usage(
    cpu_ms=90_500,
    memory_bytes=3 << 20,
    memory_peak_bytes=5 << 20,
    read_bytes=2048,
    cpu_stalled_ms=4200,
    io_stalled_ms=7,
)
NODE_USE = node_pb2.NodeUsage(cpu_milli=1500, memory_bytes=1 << 29, cpu_pressure_milli=120, io_pressure_milli=-1)


def test_nodes_are_cordoned_and_uncordoned_by_name_and_every_failure_is_printed(story):
    async def told(master, ctl):
        async with agent(master, "n1") as n1:
            await n1.register(master, name="alpha")
            done = await ctl("node", "cordon", "nobody", "alpha", "--reason", "new disk")
            assert (done.code, done.out) == (1, "")
            assert done.err.splitlines() == ["goschedctl: no node 'nobody'", "n1: cordoned"]
            assert (await ctl("node", "cordon", "n1", "--reason", "new disk")).err == "n1: unchanged\n"
            lines = (await ctl("node", "list")).out.splitlines()
            assert lines[1].split()[:3] == ["n1", "alpha", "CORDONED"]
            assert lines[1].endswith("new disk")
            assert "CORDONED (by an operator: new disk)" in (await ctl("node", "show", "alpha")).out
            assert (await ctl("node", "uncordon", "n1")).err == "n1: uncordoned\n"
            assert (await ctl("node", "show", "nobody")).code == 1

    story(told)


def test_nodes_are_chosen_by_their_labels_and_several_are_labelled_at_once(story):
    async def told(master, ctl):
        async with agent(master, "n1"), agent(master, "n2"), agent(master, "n3"):
            done = await ctl("node", "label", "n1", "n2", "zone=a", "disk=a,b")
            assert (done.code, done.err) == (0, "n1: labelled\nn2: labelled\n")
            assert (await ctl("node", "cordon", "-l", "zone=a")).err == "n1: cordoned\nn2: cordoned\n"
            assert (await ctl("node", "uncordon", "-l", "zone=a", "-l", "zone=a")).code == 0
            assert (await ctl("node", "taint", "-l", "zone=a", "gpu=true:no_schedule")).err == (
                "n1: tainted\nn2: tainted\n"
            )
            assert (await ctl("node", "taint", "n1", "n3", "gpu-")).err.splitlines()[0] == "n1: untainted"
            assert (await ctl("node", "drain", "-l", "zone=a", "--wait")).code == 0
            assert (await ctl("node", "label", "n1", "zone-")).code == 0
            gone = await ctl("node", "remove", "n1")
            assert (gone.code, "DEAD" in gone.err) == (1, True)
            for words, said in (
                (["cordon"], "no nodes: name some, or choose all with a label: -l zone=a"),
                (["drain", "n1", "-l", "zone=a"], "do one of both"),
                (["label", "n1"], "nothing to change: expected KEY=VALUE or KEY- after the nodes, such as zone=a"),
                (["taint", "n1", "gpu=true:never"], "no_schedule"),
            ):
                refused = await ctl("node", *words)
                assert (refused.code, said in refused.err) == (2, True), refused.err
            none = await ctl("node", "cordon", "-l", "zone=moon")
            assert (none.code, none.err) == (1, "goschedctl: no node has the labels zone=moon\n")

    story(told)


def test_a_drain_prints_which_jobs_stay_and_until_when_and_can_be_waited_for(story):
    async def told(master, ctl):
        async with agent(master, "n1") as n1:
            await master.submit(replace(spec("goes"), retry=RetryPolicy(max_restarts=1, when=(RetryCause.PREEMPTED,))))
            stays = (await master.submit(spec("stays"))).job_id
            await until(lambda: len(n1.orders) == 2)
            n1.see_all(RUNNING)
            await n1.beat(master)
            done = await ctl("node", "drain", "n1", "--deadline", "1h", "--wait", "--timeout", "100ms")
            assert done.code == 124
            lines = done.err.splitlines()
            assert lines[0] == "n1: draining"
            assert lines[1].startswith("n1: these jobs would not start again elsewhere, and are stopped at ")
            assert "(in 59m)" in lines[1]
            assert lines[2:] == [
                f"  {stays} (stays)",
                "n1: 2 tasks left",
                "goschedctl: n1: time is up; 2 tasks left",
            ]
            shown = (await ctl("node", "show", "n1")).out
            assert "DRAINING (by an operator)" in shown
            assert "remaining tasks are stopped at" in shown
            for allocation in list(n1.observed):
                n1.see(allocation, types_pb2.TASK_STATE_KILLED)
            await n1.beat(master)
            assert (await ctl("node", "drain", "n1", "--wait")).err.splitlines()[-1] == "n1: empty"
            assert (await ctl("node", "drain", "n1", "--timeout", "5s")).code == 2

    story(told)


def test_top_puts_the_busiest_first_and_what_is_used_beside_what_is_held(story):
    async def told(master, ctl):
        async with agent(master, "n1") as n1, agent(master, "n2") as n2:
            job_id = (await master.submit(spec("a", cpus=2))).job_id
            await until(lambda: n1.orders or n2.orders)
            busy, idle = (n1, n2) if n1.orders else (n2, n1)
            busy.see_all(RUNNING, usage=USED)
            await busy.beat(master, usage=NODE_USE)
            nodes = json.loads((await ctl("top", "-o", "json")).out)
            assert [(n["id"], n["usage"] and n["usage"]["cpu"]) for n in nodes] == [
                (busy.node_id, 1.5),
                (idle.node_id, None),
            ]
            assert nodes[0]["usage"]["pressure"] == {"cpu": 0.12, "memory": 0, "io": None}
            first, second = (line.split() for line in (await ctl("top")).out.splitlines()[1:])
            assert first[3:5] == ["1.50/4", "512Mi/1Gi"]
            assert second[3:5] == ["-/4", "-/1Gi"]
            (job,) = json.loads((await ctl("top", "jobs", "-o", "json")).out)
            assert (job["id"], job["tasks"], job["held"]["cpu"], job["cpu_s"]) == (job_id, 1, 2, 90.5)
            title, line = (await ctl("top", "jobs", "-o", "wide")).out.splitlines()
            assert (title.split()[-3:], line.split()[-3:]) == (
                ["CPU-WAIT", "MEM-WAIT", "IO-WAIT"],
                ["4.2s", "0s", "7ms"],
            )
            (queue,) = json.loads((await ctl("top", "queues", "-o", "json")).out)
            assert (queue["name"], queue["running"], queue["memory_bytes"]) == ("default", 1, 3 << 20)
            assert "1m30s" in (await ctl("top", "queues")).out
            assert (await ctl("top", "jobs", "-o", "name", "-l", "team=x")).out.strip() == ""
            assert (await ctl("top", "queues", "-l", "a=b")).code == 2
            (task,) = json.loads((await ctl("node", "show", busy.node_id, "-o", "json")).out)["running"]
            assert (task["job"], task["memory_peak_bytes"]) == (job_id, 5 << 20)

    story(told)


def test_a_job_shows_what_its_tasks_use_and_once_it_has_ended_what_they_used(story):
    async def told(master, ctl):
        async with agent(master) as n1:
            job_id = (await master.submit(spec("a"))).job_id
            await until(lambda: n1.orders)
            n1.see_all(RUNNING, usage=USED)
            await n1.beat(master)
            for _ in range(2):
                shape = json.loads((await ctl("job", "show", "a", "-o", "json")).out)
                assert shape["tasks"][0]["usage"]["cpu_s"] == 90.5
                title, line = (await ctl("job", "show", "a")).out.splitlines()[-2:]
                assert [word in title.split() for word in ("CPU-TIME", "PEAK", "READ")] == [True, True, True]
                assert [word in title.split() for word in ("WRITTEN", "THROTTLED", "GPUS")] == [False, False, False]
                assert [word in line.split() for word in ("1m30s", "5Mi", "2Ki")] == [True, True, True]
                assert "CPU-WAIT" not in title  # what a task waited for is beside the rest only where there is room
                title, line = (await ctl("job", "show", "a", "-o", "wide")).out.splitlines()[-2:]
                assert title.split()[-5:-2] == ["CPU-WAIT", "MEM-WAIT", "IO-WAIT"]
                assert line.split()[-5:-2] == ["4.2s", "-", "7ms"]
                usage = shape["tasks"][0]["usage"]
                assert [usage[f"{what}_stalled_s"] for what in ("cpu", "memory", "io")] == [4.2, 0, 0.007]
                n1.see_all(SUCCEEDED, exit_code=0, usage=USED, started_at_ms=1, ended_at_ms=2)
                await n1.beat(master)
            assert shape["spent"]["cpu_s"] == 90.5
            assert "Spent      cpu 1m30s" in (await ctl("job", "show", job_id)).out
            (quota,) = json.loads((await ctl("quota", "list", "-o", "json")).out)
            assert quota["spent"]["cpu_s"] == 90.5
            assert "cpu 1m30s" in (await ctl("quota", "list")).out

    story(told)


SPARK = node_pb2.SparkProgress(
    application="app-1",
    ui="http://n1:4040",
    history="http://h/history/app-1/",
    stages=[node_pb2.StageProgress(id=3, attempt=1, name="count at a.py:4", tasks=8, done=2, running=4)],
    more_stages=2,
)


def test_a_job_shows_what_its_application_of_spark_says(story):
    async def told(master, ctl):
        async with agent(master) as n1:
            await master.submit(spec("a"))
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            (allocation,) = n1.observed
            await n1.beat(master, spark={allocation: SPARK})
            shape = json.loads((await ctl("job", "show", "a", "-o", "json")).out)
            (stage,) = shape["spark"].pop("stages")
            assert shape["spark"] == {
                "application": "app-1",
                "ui": "http://n1:4040",
                "history": "http://h/history/app-1/",
                "more_stages": 2,
                "executors": None,
            }
            assert (stage["id"], stage["done"], stage["tasks"]) == (3, 2, 8)
            text = (await ctl("job", "show", "a")).out
            assert "Spark      app-1\nSpark UI   http://n1:4040\nHistory    http://h/history/app-1/\n" in text
            assert [line.split() for line in text.splitlines()[-3:]] == [
                ["STAGE", "TASKS", "DONE", "RUNNING", "FAILED", "NAME"],
                ["3.1", "2/8", "25%", "4", "0", "count", "at", "a.py:4"],
                ["and", "2", "more", "stages"],
            ]
            n1.see_all(SUCCEEDED, exit_code=0, started_at_ms=1, ended_at_ms=2)
            await n1.beat(master)
            assert json.loads((await ctl("job", "show", "a", "-o", "json")).out)["spark"] is None

    story(told)


def test_a_suspended_job_shows_that_it_keeps_its_resources(story):
    async def told(master, ctl):
        async with agent(master) as n1:
            job_id = (await master.submit(spec("a"))).job_id
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(master)
            assert (await ctl("job", "suspend", "a")).err == f"{job_id}: suspended\n"
            (row,) = (await ctl("job", "list", "--state", "suspended")).out.splitlines()[1:]
            assert row.split()[4] == "SUSPENDED"
            assert row.endswith("keeps its resources")
            assert "SUSPENDED (it is frozen and keeps its resources: " in (await ctl("job", "show", "a")).out
            assert (await ctl("job", "resume", "a")).err == f"{job_id}: resumed\n"
            assert (await ctl("job", "suspend", "a", "--free")).err == f"{job_id}: suspended, its resources are free\n"
            await until(lambda: n1.stops)

    story(told)


def shown(**more: Any) -> str:
    node = Node(
        id="n", name="host", address="h:1", capacity=Resources(cpu_millis=4000), incarnation="i", registered_at_ms=1,
        changed_at_ms=1, **more,
    )  # fmt: skip
    detail = NodeDetail(node=node, used=ZERO, tasks=0, heartbeat_age_ms=None)
    return node_text({**node_json(detail), "usage": None, "running": []})


def test_node_show_prints_problems_and_runtimes():
    text = shown(
        state=NodeState.CORDONED,
        closed_by=ClosedBy.FAILURES,
        reason="tasks of 3 jobs failed here in a row",
        failing=("j-1", "j-2", "j-3"),
        isolation="no memory controller",
        labels=(("gosched.io/runtime.docker", "true"), ("gosched.io/runtime.rootfs", "crun")),
        hardware=Hardware(gpu_links=(0, 0, 1), bad_gpus=(1,), numa_cpus=("0-3",)),
    )
    lines = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert "CORDONED (several tasks in a row failed on it: tasks of 3 jobs failed here in a row)" in text
    assert lines["Failed"].startswith("j-1, j-2, j-3")
    assert lines["Isolation"] == "no memory controller"
    assert lines["Runtimes"] == "process, docker, rootfs (crun)"
    assert "Bad GPUs   1: they have errors and take no work" in text
    assert "GPU links  0,1 together" in text
    assert "everything is enforced" in shown()
    assert "Heartbeat  none yet under this leader;" in shown()
    assert "Heartbeat  none any more;" in shown(state=NodeState.DEAD)


def test_spent_amounts_are_printed_in_units_of_their_size():
    def text(**spent: int) -> str:
        return spent_text(spent_json(Spent(**spent)))

    assert text() == ""
    assert text(cpu_ms=1500, gpu_milli_s=7_200_000) == "cpu 1.5s, gpu 2h"
    assert text(memory_mib_s=1024 * 3600 * 5) == "memory 5.0 GiB-h"
    assert text(memory_mib_s=1024 * 36) == "memory 0.010 GiB-h"
    assert text(memory_mib_s=4) == ""
