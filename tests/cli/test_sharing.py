"""`queue`, `quota` and `explain` against a real master: what they print, and what the cluster holds afterwards."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from gosched.core.records.tenant import Quota
from gosched.core.spec.placement_rules import Taint, TaintEffect
from tests.master.harness import RUNNING, SUCCEEDED, agent, spec, until

FILE = """
queues:
  - name: research
    type: capacity
    capacity_pct: 60
    max_pct: 80
    preemption: never
    children:
      - {name: llm, limit: {gpu: 16, "gpu:h100": 8}, max_running_jobs: 4, order: fair, half_life: 24h}
"""


ADDED = """\
queue research added
  type: capacity
  capacity_pct: 60
  max_pct: 80
  preemption: never
queue research.llm added
  type: fifo
  limit: {gpu: 16, gpu:h100: 8}
  order: fair
  max_running_jobs: 4
  half_life: 1d
"""
CHANGED = """\
queue research changed
  type: capacity -> fifo
  capacity_pct: 60 -> (default)
  max_pct: 80 -> (default)
  preemption: never -> (default)
  max_running_jobs: (default) -> 2
queue research.llm removed
quota nlp added
  limit: {cpu: 8}
"""


def test_apply_prints_what_changed_or_that_nothing_did(story, tmp_path):
    path = tmp_path / "queues.yaml"

    async def told(master, ctl):
        path.write_text(FILE)
        assert (await ctl("queue", "apply", str(path), "--dry-run")).out == ADDED
        assert list(master.state.queues) == ["default"]
        assert (await ctl("queue", "apply", str(path))).out == ADDED
        assert master.state.queues["research.llm"].limit == (("gpu", 16_000), ("gpu:h100", 8_000))
        assert (await ctl("queue", "apply", str(path))).out == "unchanged\n"
        assert (await ctl("queue", "apply", str(path), "--dry-run")).out == "unchanged\n"
        path.write_text("queues: [{name: research, max_running_jobs: 2}]\nquotas: [{tenant: nlp, limit: {cpu: 8}}]\n")
        assert (await ctl("queue", "apply", str(path), "-y")).out == CHANGED
        assert master.state.quotas == {"nlp": Quota(tenant="nlp", limit=(("cpu", 8000),))}
        path.write_text("queues: [{name: research, max_running_jobs: 2}]\nquotas: []\n")
        assert (await ctl("queue", "apply", str(path))).out == "quota nlp removed\n"
        assert not master.state.quotas

    story(told)


def test_queues_are_dropped_only_where_that_is_confirmed(story, tmp_path):
    path = tmp_path / "queues.yaml"

    async def told(master, ctl):
        path.write_text(FILE)
        await ctl("queue", "apply", str(path))
        path.write_text("queues: [{name: other}]\n")
        result = await ctl("queue", "apply", str(path))
        assert (result.code, result.out) == (1, "")
        assert "this would drop 2 queues: research, research.llm; nothing was changed. Give -y" in result.err
        assert "research.llm" in master.state.queues
        assert (await ctl("queue", "apply", str(path), "--dry-run")).out.endswith("queue research.llm removed\n")
        assert "research.llm" in master.state.queues
        assert (await ctl("queue", "apply", str(path), "--yes")).code == 0
        assert set(master.state.queues) == {"default", "other"}

    story(told)


def test_what_is_listed_as_yaml_is_applied_again(story, tmp_path):
    path = tmp_path / "queues.yaml"

    async def told(master, ctl):
        path.write_text(FILE + "quotas: [{tenant: nlp, limit: {cpu: 8, memory: 1536Mi}, max_running_jobs: 3}]\n")
        await ctl("queue", "apply", str(path))
        before = (dict(master.state.queues), dict(master.state.quotas))
        listed = (await ctl("queue", "list", "-o", "yaml")).out
        assert yaml.safe_load(listed)["queues"][1] == yaml.safe_load(FILE)["queues"][0] | {
            "children": [yaml.safe_load(FILE)["queues"][0]["children"][0] | {"type": "fifo", "half_life": "1d"}]
        }
        path.write_text(listed)
        assert (await ctl("queue", "apply", str(path))).out == "unchanged\n"
        path.write_text((await ctl("quota", "list", "-o", "yaml")).out)
        assert (await ctl("quota", "apply", str(path))).out == "unchanged\n"
        assert (master.state.queues, master.state.quotas) == before
        path.write_text("quotas: [{tenant: vision, limit: {gpu: 0.5}}]\n")
        tried = await ctl("quota", "apply", str(path), "--dry-run")
        assert tried.out == "quota vision added\n  limit: {gpu: 0.500}\nquota nlp removed\n"
        assert "nlp" in master.state.quotas
        assert (await ctl("quota", "apply", str(path))).out == tried.out
        assert list(master.state.quotas) == ["vision"]

    story(told)


def test_a_bad_queue_file_is_one_line_with_its_place_and_a_refusal_changes_nothing(story, tmp_path):
    path = tmp_path / "queues.yaml"

    async def told(master, ctl):
        path.write_text("queues:\n  - {name: a, wieght: 2}\n")
        result = await ctl("queue", "apply", str(path))
        assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
        assert f"{path}:2" in result.err
        path.write_text(FILE)
        await ctl("queue", "apply", str(path))
        await master.submit(replace(spec("stays", cpus=64), queue="research.llm"))
        path.write_text("queues: [{name: other}]\n")
        for how in ("-y", "--dry-run"):
            result = await ctl("queue", "apply", str(path), how)
            assert (result.code, result.out) == (1, "")
            assert "live jobs" in result.err
        assert "research.llm" in master.state.queues

    story(told)


def test_queues_are_listed_in_every_output_and_one_is_shown(story, tmp_path):
    path = tmp_path / "queues.yaml"
    path.write_text(FILE)

    async def told(master, ctl):
        await ctl("queue", "apply", str(path))
        async with agent(master, cpus=10):
            await master.submit(replace(spec("waits", cpus=64), queue="research.llm"))
            # Of the cycle that looked at it; they stay the same now.
            await until(lambda: master.server._cycles.shares.get("research.llm", {}).get("cpu"))
            assert (await ctl("queue", "list", "-o", "name")).out == "default\nresearch\nresearch.llm\n"
            lines = (await ctl("queue", "list")).out.splitlines()
            assert lines[2].split()[:4] == ["research", "capacity", "1", "0"]
            wide = (await ctl("queue", "list", "-o", "wide")).out.splitlines()
            assert "cpu 8" in wide[2]  # 80 % of ten
            shapes = json.loads((await ctl("queue", "list", "-o", "json")).out)
            llm = shapes[2]
            assert (llm["order"], llm["max_running_jobs"], llm["half_life_s"]) == ("fair", 4, 86_400)
            assert llm["limit"] == {"gpu": 16, "gpu:h100": 8}
            assert llm["demand"]["cpu"] == 64
            text = (await ctl("queue", "show", "research.llm")).out
            assert "Jobs       0 running (at most 4), 1 pending" in text
            assert "Preemption never (of research)\n" in text
            assert "Preemption lower_priority (default)\n" in (await ctl("queue", "show", "default")).out
            assert "Preemption never\n" in (await ctl("queue", "show", "research")).out
            assert next(line for line in text.splitlines() if line.startswith("gpu:h100")).split()[-1] == "8"
            result = await ctl("queue", "show", "reserch")
            assert result.code == 1
            assert 'did you mean "research"' in result.err

    story(told)


def test_a_quota_is_set_listed_and_removed(story):
    async def told(master, ctl):
        result = await ctl(
            "quota", "set", "nlp", "--cpu", "64", "--mem", "1Ti", "--gpu", "16", "--gpu", "h100:8",
            "--limit", "fpga=2", "--max-running-jobs", "5",
        )  # fmt: skip
        assert (result.code, result.out, result.err) == (0, "", "nlp: quota set\n")
        limit = (("cpu", 64_000), ("fpga", 2), ("gpu", 16_000), ("gpu:h100", 8_000), ("memory", 1 << 40))
        assert master.state.quotas == {"nlp": Quota(tenant="nlp", limit=limit, max_running_jobs=5)}
        lines = (await ctl("quota", "list")).out.splitlines()
        assert "cpu 64, memory 1Ti, gpu 16, gpu:h100 8, fpga 2" in lines[1]
        assert lines[1].split()[-2:] == ["0/5", "-"]
        (shape,) = json.loads((await ctl("quota", "list", "-o", "json")).out)
        assert shape["limit"] == {"cpu": 64, "fpga": 2, "gpu": 16, "gpu:h100": 8, "memory_bytes": 1 << 40}
        assert (await ctl("quota", "set", "nlp")).err == "nlp: no limit was given: its quota is removed\n"
        assert not master.state.quotas
        assert (await ctl("quota", "set", "nlp")).err == "nlp: unchanged\n"

    story(told)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--mem", "2"], "--mem: needs a unit"),
        (["--cpu", "x"], "--cpu: expected a number of CPUs"),
        (["--gpu", "h100:x"], "--gpu: expected a number of GPUs"),
        (["--limit", "fpga"], "--limit: expected NAME=AMOUNT"),
        (["--limit", "memroy=1Gi"], 'did you mean "memory"'),
        (["--gpu", "2", "--limit", "gpu=3"], "given twice"),
        (["--max-running-jobs", "0"], "max-running-jobs"),
    ],
)
def test_a_bad_quota_is_one_line_and_changes_nothing(ctl, master, args, words):
    result = ctl("quota", "set", "nlp", *args)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert words in result.err
    assert master.calls == []


def test_explain_follows_a_job_from_its_wait_to_its_end(story):
    async def told(master, ctl):
        await master.submit(spec("before", cpus=64))
        await master.submit(spec("w", count=2, cpus=3))
        await until(lambda: len(master.server._cycles.explanations) == 2)
        text = (await ctl("explain", "w")).out
        assert "Position   2 in its queue\n" in text
        assert "Waits      NO_NODE: no node has joined yet\n" in text
        async with agent(master, "n1", cpus=8) as n1:
            await until(lambda: n1.orders)
            n1.see_all(RUNNING)
            await n1.beat(master)
            text = (await ctl("explain", "w")).out
            assert "Runs on    n1 (2 tasks)\n" in text
            assert "Waits" not in text
            shape = json.loads((await ctl("explain", "w", "-o", "json")).out)
            assert (shape["state"], shape["nodes"]) == ("RUNNING", [{"node": "n1", "tasks": 2}])
            n1.see_all(SUCCEEDED, exit_code=0)
            await n1.beat(master)
            text = (await ctl("explain", "w")).out
            assert "State      SUCCEEDED\n" in text
            assert "Ended" in text
        result = await ctl("explain", "nobody")
        assert (result.code, result.out) == (1, "")

    story(told)


def test_taints_are_shown_in_the_wide_list_of_nodes(story):
    async def told(master, ctl):
        async with agent(master) as n1:
            node = replace(
                master.state.nodes["n1"],
                taints=(
                    Taint(key="gpu", value="true", effect=TaintEffect.NO_SCHEDULE),
                    Taint(key="old", effect=TaintEffect.NO_EXECUTE),
                ),
            )
            master.state.put_node(node)
            assert n1.node_id in (out := (await ctl("node", "list", "-o", "wide")).out)
            assert "gpu=true:no_schedule,old:no_execute" in out

    story(told)
