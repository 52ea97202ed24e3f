"""Operators label and taint nodes, beside what the agents' configs say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.nodes import LabelNode
from gosched.core.events import NodeChanged
from gosched.core.outcome import Code
from gosched.core.reasons import Reason
from gosched.core.records.node import NodeState
from gosched.core.spec.placement_rules import Taint, TaintEffect
from tests.state_machine.cluster import Cluster, registration, spec


@pytest.fixture
def c() -> Cluster:
    made = Cluster()
    made.accept(replace(registration("n1"), labels=(("zone", "a"),), taints=(Taint(key="own"),)))
    return made


def test_a_label_of_an_operator_stays_when_the_agent_registers_anew_and_gives_way_to_the_agents_own(c):
    c.accept(LabelNode(node_id="n1", labels=(("disk", "ssd"), ("rack", "r1"))))
    node = c.state.nodes["n1"]
    assert c.events == (NodeChanged(node_id="n1", before=NodeState.READY, after=NodeState.READY, reason=""),)
    assert (node.labels, node.set_labels) == ((("disk", "ssd"), ("rack", "r1"), ("zone", "a")), ("disk", "rack"))
    c.accept(replace(registration("n1"), labels=(("rack", "r9"),)))
    node = c.state.nodes["n1"]
    assert (node.labels, node.set_labels) == ((("disk", "ssd"), ("rack", "r9")), ("disk",))
    assert c.accept(LabelNode(node_id="n1", labels=(("disk", "ssd"),))).unchanged


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (LabelNode(node_id="n1", labels=(("zone", "b"),)), Code.CONFLICT, "is of its agent's config"),
        (LabelNode(node_id="n1", drop_labels=("zone",)), Code.CONFLICT, "is of its agent's config"),
        (LabelNode(node_id="n1", drop_labels=("rack",)), Code.NOT_FOUND, "has no label"),
        (LabelNode(node_id="n1", drop_taints=("own",)), Code.CONFLICT, "is of its agent's config"),
        (LabelNode(node_id="n1", drop_taints=("gpu",)), Code.NOT_FOUND, "has no taint"),
        (LabelNode(node_id="n1", taints=(Taint(key="own", value="x"),)), Code.CONFLICT, "is of its agent's config"),
        (LabelNode(node_id="n1", labels=(("", "b"),)), Code.INVALID, "label"),
        (LabelNode(node_id="n9", labels=(("a", "b"),)), Code.NOT_FOUND, "no node"),
    ],
)
def test_a_refused_change_changes_nothing(c, command, code, words):
    assert words in c.reject(command, code)


def test_a_taint_that_evicts_stops_what_does_not_tolerate_it():
    made = Cluster()
    made.node("n1")
    made.submit(spec(), "j1")
    made.place("j1", "n1")
    made.accept(LabelNode(node_id="n1", taints=(Taint(key="gone", effect=TaintEffect.NO_EXECUTE),)))
    assert made.job("j1").reason == Reason.TAINTED
    made.accept(LabelNode(node_id="n1", drop_taints=("gone:no_execute",)))
    assert made.state.nodes["n1"].taints == ()
