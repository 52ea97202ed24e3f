"""What sbatch makes of names of nodes and of whole nodes, by the nodes that a cluster has."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gosched.api.details import NodeDetail
from gosched.config.errors import ConfigError
from gosched.config.jobs.draft import JobDraft
from gosched.config.jobs.jobfile import read_draft
from gosched.core.records.node import NodeState
from gosched.core.spec.placement_rules import Affinity, LabelOp, Taint
from gosched.integrations.slurm.batch import Batch, read
from gosched.integrations.slurm.command_line import Given
from gosched.integrations.slurm.convert import job_of, options_of, read_command_line, script_of
from gosched.integrations.slurm.steps import DoesNotFit, Room, StepRequest
from gosched.integrations.slurm.variables import nodes_of, script_variables

from .slurm_scripts import node

FOUR = [node(f"n{number}") for number in (1, 2, 3, 4)]


def job(*words: str, nodes: list[NodeDetail] = FOUR) -> tuple[dict[str, Any], Given]:
    line, rest = read_command_line([*words, "job.sh"])
    script = script_of(rest, line, "#!/bin/bash\n")
    given = options_of(line, script, {})
    found = job_of(given, script, {}, "/work", "0a1b2c", lambda: nodes)
    read_draft(JobDraft(text=json.dumps(found).encode(), source="it"))  # the reader of job files takes it
    return found, given


def groups(*words: str, nodes: list[NodeDetail] = FOUR) -> list[dict[str, Any]]:
    return list(job(*words, nodes=nodes)[0]["tasks"].values())


def named(*words: str, nodes: list[NodeDetail] = FOUR) -> tuple[int, list[Any]]:
    """Return the number of tasks, and the conditions on labels."""
    (group,) = groups(*words, nodes=nodes)
    terms = [(term["op"], term["values"]) for term in group["placement"]["affinity"]]
    assert {term["label"] for term in group["placement"]["affinity"]} == {"gosched.io/node"}
    return group["count"], terms


def batch_of(*words: str, nodes: list[NodeDetail] = FOUR) -> Batch:
    return read(groups(*words, nodes=nodes)[0]["run"][1])


@pytest.mark.parametrize(
    ("words", "count", "terms"),
    [
        (["-wn2"], 1, [("in", ["n2"])]),
        (["--nodelist=n[1-2],n4"], 3, [("in", ["n1", "n2", "n4"])]),
        (["-wn1,n2,n1"], 2, [("in", ["n1", "n2"])]),
        (["-wn[1-2]", "-N2", "--ntasks-per-node=2"], 2, [("in", ["n1", "n2"])]),
        (["-wn[1-2]", "-N1-2"], 2, [("in", ["n1", "n2"])]),
        (["-wn[1-2]", "-n4"], 2, [("in", ["n1", "n2"])]),
        (["-xn[1-2]"], 1, [("not_in", ["n1", "n2"])]),
        (["-wn3", "-xn1"], 1, [("in", ["n3"]), ("not_in", ["n1"])]),
    ],
)
def test_names_of_nodes_are_conditions_on_their_label(words: list[str], count: int, terms: list[Any]) -> None:
    assert named(*words) == (count, terms)


def test_tasks_are_spread_over_the_named_nodes_one_gang_on_each() -> None:
    first, second = groups("-wn[1-2]", "-n5")
    assert [(group["count"], group["resources"]["cpu"]) for group in (first, second)] == [(1, 3), (1, 2)]
    apart = {"anti_affinity": [{"job": "self", "level": "node"}]}
    assert (
        first["placement"]
        == second["placement"]
        == apart | {"affinity": [{"label": "gosched.io/node", "op": "in", "values": ["n1", "n2"]}]}
    )


def test_fewer_tasks_than_named_nodes_take_the_first_ones_with_a_warning() -> None:
    found, given = job("-wn2,n1,n3", "-n2")
    (group,) = found["tasks"].values()
    assert (group["count"], group["placement"]["affinity"][0]["values"]) == (2, ["n2", "n1"])
    assert given.warnings == ["2 tasks cannot run on 3 nodes: 2 nodes are asked for"]


def test_nodes_are_named_as_sinfo_names_them_and_by_their_ids() -> None:
    nodes = [node("id-1", name="box"), node("id-2", name="twin"), node("id-3", name="twin")]
    assert named("-wbox,id-2", nodes=nodes)[1] == [("in", ["id-1", "id-2"])]
    assert named("-xid-1", nodes=nodes)[1] == [("not_in", ["id-1"])]
    of_kubernetes = node("uid-7", name="worker", labels={"gosched.io/node": "worker"})
    assert named("-xworker", nodes=[of_kubernetes])[1] == [("not_in", ["worker"])]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["-wn[1-"], "--nodelist: 'n[1-' is no list of nodes"),
        (["-w", ""], "--nodelist: names no node"),
        (["-wn1,n8,n9"], "--nodelist: there is no node n8, n9"),
        (["-xn9"], "--exclude: there is no node n9"),
        (["-wn[1-2]", "-N1"], "--nodelist: names 2 nodes, and --nodes is 1: name no more"),
        (["-wn[1-2]", "-N3"], "--nodelist: names 2 nodes of 3, and a job runs on the named ones alone: name all 3"),
        (["-wn1", "-n3", "--ntasks-per-node=2"], "--ntasks: 3 tasks do not fit on 1 nodes with 2 on each"),
        (["-wn[1-2]", "-xn2"], "--exclude: n2: in --nodelist, too"),
        (["-xn[0001-1001]"], "--exclude: names 1001 nodes; at most 1000 can be named"),
        (["--exclusive=user"], "--exclusive: =user is refused"),
        (["--exclusive=mcs"], "--exclusive: =mcs is refused"),
        (["--exclusive", "-n3", "-c5"], "--exclusive: no ready node fits"),
        (["--exclusive", "-n8", "--mem-per-cpu=20G"], "--exclusive: no ready node fits"),
        (["--exclusive", "-c5"], "--exclusive: no ready node fits"),
        (["--exclusive", "-Cssd"], "--exclusive: no ready node fits"),
        (["--exclusive", "--mem=65G"], "--exclusive: no ready node fits"),
        (["--exclusive", "--gres=gpu:1"], "--exclusive: no ready node fits"),
        (["--exclusive", "--gres=fpga:1"], "--exclusive: no ready node fits"),
    ],
)
def test_what_cannot_be_said_about_nodes_is_an_error_that_names_the_option(words: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        job(*words)


def test_a_node_without_its_label_is_not_named_since_it_could_not_be_kept_away_from() -> None:
    bare = node("n1", labels={"gosched.io/node": ""})
    for option in ("-wn1", "-xn1"):
        with pytest.raises(ConfigError, match=r"n1: without the label gosched\.io/node, as its agent is of an earlier"):
            job(option, nodes=[bare])


@pytest.mark.parametrize(
    ("words", "shapes"),
    [
        (["--exclusive"], [(1, 4)]),
        (["--exclusive", "-N2"], [(2, 4)]),
        (["--exclusive", "-N2", "-n3"], [(1, 4), (1, 4)]),
        (["--exclusive", "--ntasks-per-node=3"], [(1, 4)]),
        (["--exclusive", "-n6", "--ntasks-per-node=3", "--array=1-4"], [(2, 4)]),
        (["--exclusive", "-wn[1-2]", "-n6"], [(2, 4)]),
        (["--exclusive", "-n4", "--mem=8G"], [(1, 4)]),
        (["--exclusive", "-n5"], [(1, 4), (1, 4)]),
        (["--exclusive", "-n5", "-c3"], [(5, 4)]),
    ],
)
def test_a_job_of_whole_nodes_has_all_of_their_cpus(words: list[str], shapes: list[tuple[int, int]]) -> None:
    assert [(group["count"], group["resources"]["cpu"]) for group in groups(*words)] == shapes


def test_the_size_of_whole_nodes_is_that_of_the_nodes_that_the_job_may_get() -> None:
    nodes = [
        node("small", cpu=2),
        node("n1", cpu=7.5, labels={"disk": "ssd"}),
        node("n2", cpu=8, labels={"ib": "hdr"}),
        node("closed", cpu=32, state=NodeState.CORDONED),
        node("tainted", cpu=33, taints=(Taint(key="pods"),)),
        node("gpus", cpu=34, gpus=2, gpu_model="h100"),
    ]

    def cpu(*words: str) -> Any:
        return groups("--exclusive", *words, nodes=nodes)[0]["resources"]["cpu"]

    assert cpu("-Cdisk=ssd") == "7500m"
    assert cpu("-Cib") == 8
    assert cpu("-xsmall,n1,gpus") == 8
    assert cpu("-wsmall") == 2
    assert cpu("--gres=gpu:h100:2") == 34
    with pytest.raises(ConfigError) as found:
        cpu("-c4")
    assert str(found.value) == (
        "--exclusive: the nodes that the job may get differ in size: 7.5 CPUs (1: n1); 8 CPUs (1: n2); "
        "34 CPUs (1: gpus): say by --constraint or --nodelist which ones"
    )
    with pytest.raises(ConfigError, match="no ready node fits"):
        cpu("--gres=gpu:a100:2")


def test_the_conditions_of_a_job_stand_in_its_job_file() -> None:
    found, _ = job(
        "-wn1", "-xn2", "--constraint=zone=a", "--exclusive", nodes=[node("n1", labels={"zone": "a"}), *FOUR[1:]]
    )
    (spec,) = read_draft(JobDraft(text=json.dumps(found).encode(), source="it"))
    assert spec.groups[0].affinity == (
        Affinity(label="gosched.io/node", op=LabelOp.IN, values=("n1",)),
        Affinity(label="gosched.io/node", op=LabelOp.NOT_IN, values=("n2",)),
    )
    assert (spec.groups[0].node_selector, spec.groups[0].resources.cpu_millis) == ((("zone", "a"),), 4000)


def test_variables_say_all_cpus_of_whole_nodes_and_what_was_asked_for() -> None:
    def found(*words: str) -> dict[str, str]:
        batch = batch_of("--exclusive", "-N2", *words)
        nodes = nodes_of([("n1", "n1"), ("n2", "n2")], batch.ranks)
        return script_variables(batch, nodes, {"GOSCHED_JOB_ID": "j-1"})

    names = ("SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE", "SLURM_TASKS_PER_NODE")
    assert [found()[name] for name in names] == ["4", "4(x2)", "4(x2)"]
    assert "SLURM_CPUS_PER_TASK" not in found()
    asked = found("-n3", "-c2")
    assert [asked[name] for name in names] == ["4", "4(x2)", "2,1"]
    assert (asked["SLURM_CPUS_PER_TASK"], asked["SLURM_NTASKS"]) == ("2", "3")
    assert job("--exclusive", "-N2")[0]["labels"]["slurm/cpus"] == "8"


def test_steps_have_the_cpus_of_whole_nodes_and_by_default_the_tasks_that_were_asked_for() -> None:
    batch = batch_of("--exclusive", "-N2")
    room = Room(nodes_of([("n1", "n1"), ("n2", "n2")], batch.ranks), batch.room, 1)
    step = room.place(StepRequest())
    assert step is not None
    assert step.per_node == (1, 1)
    every = room.place(StepRequest(ranks=8, overlaps=True))
    assert every is not None
    assert every.per_node == (4, 4)
    wide = room.place(StepRequest(cpus=2, overlaps=True))
    assert wide is not None
    assert wide.per_node == (2, 2)
    assert room.place(StepRequest(ranks=8)) is None, "the first step holds two"
    with pytest.raises(DoesNotFit, match="have place for 8"):
        room.place(StepRequest(ranks=9))


def test_the_cluster_is_asked_for_its_nodes_only_where_an_option_is_about_them() -> None:
    def unreachable() -> list[NodeDetail]:
        raise ConfigError("no master can be reached")

    def submit(*words: str) -> dict[str, Any]:
        line, rest = read_command_line([*words, "job.sh"])
        script = script_of(rest, line, "#!/bin/bash\n")
        return job_of(options_of(line, script, {}), script, {}, "/work", "0a1b2c", unreachable)

    assert submit("-N2", "--constraint=ssd")["tasks"]["nodes"]["count"] == 2
    for option in ("-wn1", "-xn1", "--exclusive"):
        with pytest.raises(ConfigError, match="no master can be reached"):
            submit(option)
    with pytest.raises(ConfigError, match="=user is refused"):
        submit("--exclusive=user")
