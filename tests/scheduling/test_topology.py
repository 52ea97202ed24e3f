"""Gangs and the tree of domains, as tables: levels, ranks, elastic tasks, spreading out, keeping apart."""

from __future__ import annotations

import pytest

from gosched.scheduling import Policy
from tests.scheduling.support.tables import check

LEVELS = Policy(topology=("zone", "rack"))

# Racks of 8, 6 and 4 CPUs; the first and the last have one name, in two zones.
RACKS = """
nodes
  a  4cpu zone=z1 rack=r1
  b  4cpu zone=z1 rack=r1
  c  4cpu zone=z1 rack=r2
  d  2cpu zone=z1 rack=r2
  e  4cpu zone=z2 rack=r1
"""

LEVEL_CASES = {
    "of the racks that hold it the smallest": "jobs\n j 4x 1cpu in:rack\nplan\n j e e e e",
    "a larger gang gets a larger rack": "jobs\n j 5x 1cpu in:rack\nplan\n j c c c c d",
    "the largest gang that one rack holds": "jobs\n j 8x 1cpu in:rack\nplan\n j a a a a b b b b",
    "two racks of one name are two": """
jobs
  j  9x 1cpu in:rack
plan
  j  TOPOLOGY needs 9 tasks on one rack; best is r1 with 8
""",
    "preferred: one rack while it fits": "jobs\n j 6x 1cpu near:rack\nplan\n j c c c c d d",
    "preferred: else one zone, in the fewest racks and nodes": """
jobs
  j  9x 1cpu near:rack
plan
  j  a a a a b b b b d
""",
    "preferred: else anywhere, in the fewest zones": """
jobs
  j  15x 1cpu near:rack
plan
  j  a a a a b b b b c c c c d d e
""",
    "required zone, preferred rack: the zone is not left": """
jobs
  j  15x 1cpu in:zone near:rack
  k  10x 1cpu in:zone near:rack
plan
  k  a a a a b b b b d d
  j  TOPOLOGY needs 15 tasks on one zone; best is z1 with 14
""",
    "one node": "jobs\n j 3x 1cpu in:node\nplan\n j a a a",
    "one node is too small": "jobs\n j 5x 1cpu in:node\nplan\n j TOPOLOGY needs 5 tasks on one node; best is a with 4",
    "without a rule the racks play no part": "jobs\n j 3x 2cpu\nplan\n j a a d",
    "a domain that is half full is a small one": """
jobs
  run  3x 1cpu on a a b
  j    5x 1cpu in:rack
plan
  j    a a b b b
""",
    "a rack is chosen by what selectors leave of it": """
nodes
  f  4cpu zone=z3 rack=r1 disk=ssd
  g  4cpu zone=z3 rack=r2 disk=ssd
  h  2cpu zone=z3 rack=r2 disk=ssd
jobs
  j  5x 1cpu in:rack disk=ssd
plan
  j  g g g g h
""",
}


@pytest.mark.parametrize("table", LEVEL_CASES.values(), ids=LEVEL_CASES.keys())
def test_level(table: str) -> None:
    check(RACKS + table, LEVELS)


OTHER_CASES = {
    "nodes without the label are in no domain": """
nodes
  a  4cpu rack=r1
  b  9cpu
jobs
  j  6x 1cpu in:rack
  k  6x 1cpu near:rack
plan
  k  b b b b b b
  j  INSUFFICIENT (1 without a rack)
""",
    "a level may be any label, though the config does not name it": """
nodes
  a  4cpu switch=s1
  b  2cpu switch=s2
  c  2cpu switch=s2
jobs
  j  4x 1cpu in:switch
  k  5x 1cpu in:switch
plan
  j  a a a a
  k  INSUFFICIENT
""",
    "ranks go through the tree depth first, whatever the nodes' names": """
nodes
  a  1cpu zone=z2 rack=r1
  b  1cpu zone=z1 rack=r2
  c  1cpu zone=z1 rack=r1
  d  1cpu zone=z2 rack=r1
  e  1cpu zone=z1 rack=r2
jobs
  j  5x 1cpu
plan
  j  c b e a d
""",
    "ranks go through the tree in each group of its own": """
nodes
  a  2cpu zone=z2 rack=r1
  b  2cpu zone=z1 rack=r1
jobs
  j  2x 1cpu @spread | 2x 1cpu @spread
plan
  j  b a b a
""",
    "a rack that seems to fit and does not is left for the next": """
nodes
  a  3cpu zone=z1 rack=r1   # 6 CPUs, but no room for three tasks of 2
  b  3cpu zone=z1 rack=r1
  c  4cpu zone=z1 rack=r2
  d  4cpu zone=z1 rack=r2
jobs
  j  2x 2cpu in:rack | 1x 2cpu in:rack
plan
  j  c c d
""",
    "when no rack fits in the end the whole is given back": """
nodes
  a  3cpu zone=z1 rack=r1
  b  3cpu zone=z1 rack=r1
jobs
  j  2x 2cpu in:rack | 1x 2cpu in:rack
  k  2x 3cpu
plan
  k  a b
  j  FRAGMENTED each task group fits alone, but not all together
""",
    "a parameter server and workers stand in one rack, where both fit": """
nodes
  a  5cpu 4gpu zone=z1 rack=r1
  b  4cpu 4gpu zone=z1 rack=r2
  c  2cpu      zone=z1 rack=r2
jobs
  j  1x 2cpu in:rack | 4x 1cpu 1gpu in:rack
plan
  j  c b b b b
""",
    "a group may be wider than another: workers in one rack, the server in its zone": """
nodes
  a  1cpu      zone=z1 rack=r1
  b  4cpu 4gpu zone=z1 rack=r2
  c  4cpu      zone=z2 rack=r1
jobs
  j  1x 1cpu in:zone | 4x 1cpu 1gpu in:rack
plan
  j  a b b b b
""",
    "a group that would like a rack keeps to its zone where the other's node is in none": """
nodes
  a  3cpu zone=z1
  b  4cpu zone=z2
jobs
  j  3x 1cpu in:zone near:rack | 1x 1cpu in:node
plan
  j  b b b b
""",
    "a node in no zone is not for a group that stands with one that keeps to its zone": """
nodes
  a  1cpu
  b  2cpu zone=z1
jobs
  j  1x 1cpu in:zone near:rack | 1x 1cpu in:node
  k  1x 1cpu in:node
plan
  j  b b
  k  a
""",
    "groups without any rule start together too": """
nodes
  a  2cpu disk=ssd
  b  4cpu
jobs
  j  1x 2cpu disk=ssd | 4x 1cpu
  k  1x 1cpu disk=ssd
plan
  j  a b b b b
  k  INSUFFICIENT
""",
    "a group that has no place holds back the other": """
nodes
  a  4cpu
jobs
  j  1x 1cpu | 1x 1cpu disk=ssd
  k  4x 1cpu
plan
  k  a a a a
  j  NODE_SELECTOR no ready node has the labels disk=ssd
""",
}


@pytest.mark.parametrize("table", OTHER_CASES.values(), ids=OTHER_CASES.keys())
def test_tree(table: str) -> None:
    check(table, LEVELS)


ELASTIC_CASES = {
    "all that fit, if the minimum does": """
nodes
  a  3cpu
jobs
  j  2..5x 1cpu
plan
  j  a a a
""",
    "less than the minimum is nothing": """
nodes
  a  3cpu
jobs
  j  4..5x 1cpu
plan
  j  INSUFFICIENT needs 4 CPUs in all; 3 are on ready nodes
""",
    "a rack that holds all goes before a smaller one that holds the minimum": """
nodes
  a  2cpu zone=z1 rack=r1
  b  6cpu zone=z1 rack=r2
jobs
  j  2..5x 1cpu in:rack
plan
  j  b b b b b
""",
    "where none holds all, the rack that holds most": """
nodes
  a  3cpu zone=z1 rack=r1
  b  4cpu zone=z1 rack=r2
jobs
  j  2..6x 1cpu in:rack
plan
  j  b b b b
""",
    "one that runs is joined by as many as there is room for": """
nodes
  a  2cpu
  b  2cpu
jobs
  j  2..6x 1cpu on a a
plan
  j  b b
""",
    "they join in the rack where their gang is": """
nodes
  a  2cpu zone=z1 rack=r1
  b  1cpu zone=z1 rack=r1
  c  9cpu zone=z1 rack=r2
jobs
  j  2..6x 1cpu in:rack on a a
plan
  j  b
""",
    "they join their own group, not another one": """
nodes
  a  2cpu zone=z1 rack=r1
  b  9cpu zone=z1 rack=r2
jobs
  j  1x 1cpu | 2..4x 1cpu in:rack on b a a
plan
  j  TOPOLOGY needs 1 task on one rack; best is r1 with 0
""",
    "a group that finds no room holds no other one back": """
nodes
  a  1cpu 1*license
  b  4cpu
jobs
  j  1..2x 1cpu 1*license | 1..3x 1cpu on a b
plan
  j  b b
""",
    "a preferred rack may be left by those who join": """
nodes
  a  2cpu zone=z1 rack=r1
  b  9cpu zone=z1 rack=r2
jobs
  j  2..4x 1cpu near:rack on a a
plan
  j  b b
""",
    "they wait while their rack is full": """
nodes
  a  2cpu zone=z1 rack=r1
  c  9cpu zone=z1 rack=r2
jobs
  j  2..6x 1cpu in:rack on a a
plan
  j  TOPOLOGY
""",
    "the minimum of each group first, then what is elastic": """
nodes
  a  5cpu
jobs
  j  1..4x 1cpu | 2..3x 1cpu
plan
  j  a a a a a
""",
    "the minimum of another job goes before what is elastic only in the order of jobs": """
nodes
  a  4cpu
jobs
  j  1..4x 1cpu
  k  1x 1cpu
plan
  j  a a a a
  k  INSUFFICIENT
""",
}


@pytest.mark.parametrize("table", ELASTIC_CASES.values(), ids=ELASTIC_CASES.keys())
def test_elastic(table: str) -> None:
    check(table, LEVELS)


# Zones of 2, 2 and 1 nodes with 4 CPUs each.
ZONES = """
nodes
  a  4cpu zone=z1 rack=r1
  b  4cpu zone=z1 rack=r2
  c  4cpu zone=z2 rack=r1
  d  4cpu zone=z2 rack=r1
  e  4cpu zone=z3 rack=r1
"""

SPREAD_CASES = {
    "evenly over zones": "jobs\n j 6x 1cpu over:zone\nplan\n j a a c c e e",
    "what is left over goes to one zone more": "jobs\n j 7x 1cpu over:zone\nplan\n j a a a c c e e",
    "a full zone holds back the others": """
jobs
  run  3x 1cpu on e e e
  j    6x 1cpu over:zone
  k    5x 1cpu over:zone
plan
  k    a a c c e
  j    CONSTRAINTS
""",
    "a larger skew lets the others go on": """
jobs
  run  3x 1cpu on e e e
  j    6x 1cpu over:zone:2
plan
  j    a a a c c e
""",
    "preferred: as evenly as there is room": """
jobs
  run  3x 1cpu on e e e
  j    9x 1cpu maybe-over:zone
plan
  j    a a a a c c c c e
""",
    "zones that may not be used do not count": "jobs\n j 4x 1cpu over:zone ?zone:not_in:z3\nplan\n j a a c c",
    "by two levels at once": "jobs\n j 6x 1cpu over:zone over:node\nplan\n j a b c d e e",
    "over the racks of one zone": "jobs\n j 5x 1cpu in:zone over:rack\nplan\n j a a a b b",
    "preferred: nodes in no zone serve too": """
nodes
  f  4cpu
jobs
  j  2x 4cpu maybe-over:zone ?rack:not_in:r1
plan
  j  b f
""",
    "by two levels, elastic tasks only as far as both allow": """
jobs
  run  3x 1cpu over:node on a b e
  j    1..9x 1cpu over:zone over:node
plan
  j    a a b c c d e e
""",
    "those who join even out what stands": """
jobs
  j  4..6x 1cpu over:zone:2 on a a c c
plan
  j  e e
""",
    "what is left over goes to the emptiest, wherever others stand": """
jobs
  j  2..3x 1cpu over:zone on a c
plan
  j  e
""",
    "over nodes": "jobs\n j 5x 1cpu over:node\nplan\n j a b c d e",
}


@pytest.mark.parametrize("table", SPREAD_CASES.values(), ids=SPREAD_CASES.keys())
def test_spread(table: str) -> None:
    check(ZONES + table, LEVELS)


APART_CASES = {
    "each on a node of its own": "jobs\n j 5x 1cpu apart:node\nplan\n j a b c d e",
    "one more than there are nodes": "jobs\n j 6x 1cpu apart:node\nplan\n j CONSTRAINTS",
    "each in a zone of its own": "jobs\n j 3x 1cpu apart:zone\nplan\n j a c e",
    "each in a rack of its own": "jobs\n j 4x 1cpu apart:rack\nplan\n j a b c e",
    "a rack of the same name in another zone is another": "jobs\n j 5x 1cpu apart:rack\nplan\n j CONSTRAINTS",
    "two groups of one job keep apart from each other": """
jobs
  j  2x 1cpu apart:zone | 1x 1cpu apart:zone
plan
  j  a c e
""",
    "one group that keeps apart is enough": """
jobs
  j  2x 1cpu apart:zone | 3x 1cpu
plan
  j  a c e e e
""",
    "where the fragmentation strategy places the others too": """
jobs
  j  2x 1cpu apart:zone | 3x 1cpu @fragmentation
plan
  j  a c e e e
""",
    "not on the nodes of another job": """
jobs
  db  2x 1cpu on a c
  j   3x 1cpu apart:node:db
plan
  j   b b b
""",
    "a name is that of a job of the same tenant": """
jobs
  db  tenant=t : 2x 1cpu on a c
  j   1x 1cpu apart:node:db
  k   tenant=t : 1x 1cpu apart:node:db
plan
  j   a
  k   b
""",
    "another tenant's job has its full name": """
jobs
  db  tenant=t : 2x 1cpu on a c
  j   3x 1cpu apart:node:t/db
plan
  j   b b b
""",
    "not in the zones of another job": """
jobs
  db  2x 1cpu on a c
  j   3x 1cpu apart:zone:db
plan
  j   e e e
""",
    "not on the nodes where another job was placed a moment ago": """
jobs
  db  3x 1cpu @spread
  j   1..9x 1cpu apart:node:db
plan
  db  a b c
  j   d d d d e e e e
""",
    "a job that is not there keeps nobody away": "jobs\n j 1x 1cpu apart:zone:db\nplan\n j a",
    "everywhere is another job": """
jobs
  db  3x 1cpu on a c e
  j   1x 1cpu apart:zone:db
plan
  j   CONSTRAINTS
""",
    "elastic tasks that join keep apart from those that run": """
jobs
  j  2..5x 1cpu apart:zone on a c
plan
  j  e
""",
    "nodes in no zone take no task that keeps to a zone of its own": """
nodes
  f  9cpu
jobs
  j  4x 1cpu apart:zone
plan
  j  CONSTRAINTS (1 without a zone)
""",
    "two rules at once: what is kept in a zone is clear of the other job": """
jobs
  db  2x 1cpu on a c
  j   3x 1cpu apart:zone apart:node:db
plan
  j   b d e
""",
    "without the rule two jobs share a node": """
jobs
  db  1x 1cpu on a
  j   1x 1cpu
plan
  j   a
""",
}


@pytest.mark.parametrize("table", APART_CASES.values(), ids=APART_CASES.keys())
def test_apart(table: str) -> None:
    check(ZONES + table, LEVELS)
