"""Where single tasks go, as tables: strategies, affinity, taints, resources, devices, algorithms."""

from __future__ import annotations

import pytest

from gosched.core.spec.placement_rules import Strategy
from gosched.scheduling import Policy
from gosched.scheduling.policy import ALGORITHMS
from tests.scheduling.support.tables import check

STRATEGY_CASES = {
    "binpack fills the fullest node that has room": """
nodes
  a  8cpu
  b  8cpu
  c  8cpu
jobs
  run   2x 3cpu @spread on b c
  more  1x 3cpu on b
  j     1x 2cpu
  k     1x 3cpu
plan
  j     b
  k     c
""",
    "binpack counts GPUs as much as CPUs": """
nodes
  a  8cpu 4gpu
  b  8cpu 4gpu
jobs
  run  1x 1cpu 3gpu on b[0,1,2]
  one  1x 3cpu on a
  j    1x 1cpu 1gpu
plan
  j    b[3]
""",
    "spread takes the node that uses the smallest part": """
nodes
  a  8cpu
  b  2cpu
  c  4cpu
jobs
  run  3x 1cpu on a c c
  j    1x 1cpu @spread
  k    1x 1cpu @spread
plan
  j    b
  k    a
""",
    "spread puts a gang's tasks on as many nodes as it can": """
nodes
  a  8cpu
  b  8cpu
  c  2cpu
jobs
  j  7x 1cpu @spread
plan
  j  a a a b b c c
""",
    "fragmentation leaves GPUs where typical tasks can use them": """
nodes
  a  8cpu 2gpu     # a share here would spoil a pair of GPUs that most jobs want
  b  8cpu 1gpu
jobs
  j    1x 1cpu 0.5gpu @fragmentation
  k    1x 1cpu 2gpu @fragmentation
  l    1x 1cpu 2gpu @fragmentation
  m    1x 1cpu 2gpu @fragmentation
plan
  j    b[0]
  k    a[0,1]
  l    INSUFFICIENT
  m    INSUFFICIENT
""",
    "equal nodes are taken in the order of their ids": """
nodes
  b  4cpu
  a  4cpu
jobs
  j  1x 1cpu
plan
  j  a
""",
    "nodes with GPUs are left to tasks with GPUs": """
nodes
  a  4cpu 8gpu
  b  4cpu
jobs
  run  1x 3cpu on a
  j    1x 1cpu
  k    3x 1cpu @spread
  l    1x 1cpu
plan
  j    b
  k    b b b
  l    a
""",
}

DISKS = """
nodes
  a  4cpu disk=hdd gen=2
  b  4cpu disk=ssd gen=10
  c  4cpu disk=nvme gen=old
  d  4cpu
"""

AFFINITY_CASES = {
    "in": "jobs\n j 2x 3cpu ?disk:in:ssd,nvme\nplan\n j b c",
    "not_in takes nodes without the label too": "jobs\n j 2x 3cpu ?disk:not_in:ssd,hdd\nplan\n j c d",
    "exists": "jobs\n j 3x 3cpu ?disk:exists\nplan\n j a b c",
    "not_exists": "jobs\n j 1x 3cpu ?disk:not_exists\nplan\n j d",
    "gt compares numbers, and what is none fails": "jobs\n j 2..4x 3cpu ?gen:gt:1\nplan\n j a b",
    "lt compares numbers, and what is none fails": "jobs\n j 1..4x 3cpu ?gen:lt:10\nplan\n j a",
    "all required terms hold": "jobs\n j 1x 3cpu ?disk:exists ?gen:gt:5\nplan\n j b",
    "no node meets it": """
jobs
  j  1x 1cpu ?disk:in:tape
plan
  j  CONSTRAINTS no ready node meets its affinity: disk in tape (4 against the affinity)
""",
    "weights: the best node first": "jobs\n j 1x 1cpu ?disk:in:ssd*10 ?disk:in:nvme*20\nplan\n j c",
    "weights add up": "jobs\n j 1x 1cpu ?disk:in:ssd*10 ?disk:in:nvme*15 ?gen:gt:5*6\nplan\n j b",
    "a weight below zero keeps away": "jobs\n j 1x 1cpu ?disk:in:hdd*-5\nplan\n j b",
    "a weight counts more than how full a node is": """
jobs
  run  1x 3cpu on a
  j    1x 1cpu ?disk:in:ssd*1
plan
  j    b
""",
    "weighted terms give way when there is no room": """
jobs
  run  1x 4cpu on b
  j    1x 1cpu ?disk:in:ssd*100
plan
  j    a
""",
    "a gang fills the nodes that it likes first": "jobs\n j 6x 1cpu ?disk:in:nvme*10\nplan\n j a a c c c c",
    "spread too fills the nodes that it likes first": "jobs\n j 6x 1cpu @spread ?disk:exists*10\nplan\n j a a b b c c",
    "a selector": "jobs\n j 1x 1cpu disk=nvme gen=old\nplan\n j c",
}

TAINT_CASES = {
    "no_schedule keeps tasks away": """
nodes
  a  4cpu !gpu:no_schedule
  b  4cpu
jobs
  j  2x 3cpu
  k  1x 4cpu
plan
  k  b
  j  INSUFFICIENT (1 tainted)
""",
    "no_execute keeps tasks away": "nodes\n a 4cpu !gpu:no_execute\njobs\n j 1x 1cpu\nplan\n j CONSTRAINTS tainted",
    "prefer_no_schedule keeps tasks away while others have room": """
nodes
  a  4cpu !old:prefer_no_schedule
  b  4cpu
jobs
  j  1x 3cpu
  k  1x 3cpu
plan
  j  b
  k  a
""",
    "of two soft taints one is better": """
nodes
  a  4cpu !old:prefer_no_schedule !slow:prefer_no_schedule
  b  4cpu !old:prefer_no_schedule
jobs
  j  1x 1cpu
plan
  j  b
""",
    "a soft taint weighs more than affinity": """
nodes
  a  4cpu !old:prefer_no_schedule disk=ssd
  b  4cpu
jobs
  j  1x 1cpu ?disk:in:ssd*1000
plan
  j  b
""",
    "a toleration of the key": "nodes\n a 4cpu !gpu=h100:no_schedule\njobs\n j 1x 1cpu ~gpu\nplan\n j a",
    "a toleration of the value": "nodes\n a 4cpu !gpu=h100:no_execute\njobs\n j 1x 1cpu ~gpu=h100\nplan\n j a",
    "a toleration of another value": """
nodes
  a  4cpu !gpu=h100:no_schedule
jobs
  j  1x 1cpu ~gpu=a100
plan
  j  CONSTRAINTS tainted
""",
    "a toleration of another effect": """
nodes
  a  4cpu !gpu:no_execute
jobs
  j  1x 1cpu ~gpu:no_schedule
  k  1x 1cpu ~gpu:no_execute
plan
  k  a
  j  CONSTRAINTS tainted
""",
    "a toleration of everything": """
nodes
  a  4cpu !gpu:no_schedule !old:no_execute
jobs
  j  1x 1cpu ~
plan
  j  a
""",
    "all taints must be tolerated": """
nodes
  a  4cpu !gpu:no_schedule !old:no_schedule
jobs
  j  1x 1cpu ~gpu
plan
  j  CONSTRAINTS tainted
""",
}

RESOURCE_CASES = {
    "memory": "nodes\n a 9cpu 4Gi\n b 9cpu 8Gi\njobs\n j 1x 1cpu 6Gi\n k 1x 1cpu 3Gi\nplan\n j b\n k a",
    "storage": "nodes\n a 9cpu disk:10Gi\n b 9cpu disk:50Gi\njobs\n j 1x 1cpu disk:20Gi\nplan\n j b",
    "resources of the cluster's own": """
nodes
  a  9cpu
  b  9cpu 3*license
jobs
  j  1x 1cpu 2*license
  k  1x 1cpu 2*license
plan
  j  b
  k  FRAGMENTED short of license
""",
    "a resource that no node has": """
nodes
  a  9cpu
jobs
  j  1x 1cpu 1*fpga
plan
  j  NODE_TOO_SMALL asks for 1 of fpga on one node; the largest has 0
""",
    "a gang takes each of them": """
nodes
  a  9cpu 3*license
  b  9cpu 1*license
jobs
  j  4x 1cpu 1*license
  k  1x 1cpu
plan
  j  a a a b
  k  a
""",
}


@pytest.mark.parametrize("table", STRATEGY_CASES.values(), ids=STRATEGY_CASES.keys())
def test_strategy(table: str) -> None:
    check(table)


@pytest.mark.parametrize("table", AFFINITY_CASES.values(), ids=AFFINITY_CASES.keys())
def test_affinity(table: str) -> None:
    check(DISKS + table)


@pytest.mark.parametrize("table", TAINT_CASES.values(), ids=TAINT_CASES.keys())
def test_taint(table: str) -> None:
    check(table)


@pytest.mark.parametrize("table", RESOURCE_CASES.values(), ids=RESOURCE_CASES.keys())
def test_resource(table: str) -> None:
    check(table)


GPU_CASES = {
    "a model": """
nodes
  a  8cpu 2gpu:a100
  b  8cpu 2gpu:h100
jobs
  j  1x 1cpu 1gpu:h100
  k  1x 1cpu 2gpu:b200
plan
  j  b[0]
  k  GPU_MODEL no ready node has GPUs of model b200
""",
    "memory of a whole GPU": """
nodes
  a  8cpu 2gpu gpu_mem:40Gi
  b  8cpu 2gpu gpu_mem:80Gi
  c  8cpu 2gpu
jobs
  j  1x 1cpu 1gpu gpu_mem:60Gi
  k  1x 1cpu 1gpu gpu_mem:90Gi
plan
  j  b[0]
  k  CONSTRAINTS short of GPU memory
""",
    "memory of a share: half a GPU has half of it": """
nodes
  a  8cpu 2gpu gpu_mem:40Gi
  b  8cpu 2gpu gpu_mem:80Gi
jobs
  j  1x 1cpu 0.5gpu gpu_mem:30Gi
plan
  j  b[0]
""",
    "shares are packed onto one device": """
nodes
  a  8cpu 2gpu
jobs
  j  1x 1cpu 0.5gpu
  k  1x 1cpu 0.3gpu
  l  1x 1cpu 1gpu
  m  1x 1cpu 0.3gpu
plan
  j  a[0]
  k  a[0]
  l  a[1]
  m  INSUFFICIENT needs 0.3 GPUs in all; 0.2 are free
""",
    "a share takes the fullest device that has room": """
nodes
  a  8cpu 3gpu
jobs
  run  1x 1cpu 0.4gpu on a[2]
  more 1x 1cpu 0.7gpu on a[1]
  j    1x 1cpu 0.5gpu
  k    1x 1cpu 0.3gpu
plan
  j    a[2]
  k    a[1]
""",
    "what is left on two devices is no room for a share": """
nodes
  a  8cpu 2gpu
jobs
  run  2x 1cpu 0.7gpu on a[0] a[1]
  j    1x 1cpu 0.5gpu
plan
  j    FRAGMENTED 1 short of a GPU's share
""",
    "a gang of shares": """
nodes
  a  8cpu 2gpu
jobs
  j  4x 1cpu 0.5gpu
plan
  j  a[0] a[0] a[1] a[1]
""",
    "halves of two devices are no whole one": """
nodes
  a  8cpu 2gpu
jobs
  run  1x 1cpu 0.5gpu on a[0]
  more 1x 1cpu 0.5gpu on a[1]
  j    1x 1cpu 1gpu
plan
  j    FRAGMENTED short of whole GPUs
""",
    "an island is not left while it has room, the smallest first": """
nodes
  a  16cpu 8gpu links:0,0,0,0,1,1,1,1
jobs
  run  1x 1cpu 1gpu on a[0]
  j    1x 1cpu 3gpu
  k    1x 1cpu 4gpu
plan
  j    a[1,2,3]
  k    a[4,5,6,7]
""",
    "a fuller node whose island is broken is left for one that is whole": """
nodes
  a  16cpu 4gpu links:0,0,1,1
  b  16cpu 4gpu links:0,0,1,1
jobs
  run  1x 1cpu 1gpu on a[0]
  more 1x 1cpu 1gpu on a[2]
  j    1x 1cpu 2gpu
plan
  j    b[0,1]
""",
    "islands are straddled where none has room": """
nodes
  a  16cpu 4gpu links:0,0,1,1
jobs
  j  1x 1cpu 3gpu
plan
  j  a[0,1,2]
""",
    "required gpu_link: never straddled": """
nodes
  a  16cpu 4gpu links:0,0,1,1
jobs
  j  1x 1cpu 3gpu in:gpu_link
  k  1x 1cpu 2gpu in:gpu_link
plan
  k  a[0,1]
  j  FRAGMENTED 1 short of linked GPUs
""",
    "CPUs are named near the GPUs": """
nodes
  a  8cpu 4gpu numa:0-3/4-7 gpu_numa:0,0,1,1
jobs
  run  1x 1cpu 1gpu on a[0;0]
  j    1x 2cpu 1gpu
  k    1x 3cpu 1gpu
plan
  j    a[1;1-2]
  k    a[2;4-6]
""",
    "CPUs are named elsewhere when those nearby are out": """
nodes
  a  8cpu 4gpu numa:0-3/4-7 gpu_numa:0,0,1,1
jobs
  j    1x 6cpu 1gpu
plan
  j    a[0;0-5]
""",
    "a part of a CPU is no CPU to own, nor is one of a task without GPUs": """
nodes
  a  8cpu 4gpu numa:0-3/4-7 gpu_numa:0,0,1,1
jobs
  j    1x 1.5cpu 1gpu
  k    1x 2cpu
  l    1x 1cpu 0.5gpu
plan
  j    a[0]
  k    a
  l    a[1]
""",
    "required numa: GPUs and CPUs of one NUMA node": """
nodes
  a  8cpu 4gpu numa:0-3/4-7 gpu_numa:0,0,1,1
jobs
  run  1x 1cpu 1gpu on a[0;0]
  j    1x 2cpu 2gpu in:numa
  k    1x 2cpu 2gpu in:numa
plan
  j    a[2,3;4-5]
  k    INSUFFICIENT
""",
    "required numa: nodes of unknown layout are refused": """
nodes
  a  8cpu 4gpu
jobs
  j    1x 2cpu 2gpu in:numa
plan
  j    CONSTRAINTS unknown NUMA layout
""",
    "GPUs that run are not given twice": """
nodes
  a  8cpu 4gpu
jobs
  run  2x 1cpu 1gpu on a[0] a[3]
  j    2x 1cpu 1gpu
plan
  j    a[1] a[2]
""",
}


@pytest.mark.parametrize("table", GPU_CASES.values(), ids=GPU_CASES.keys())
def test_gpus(table: str) -> None:
    check(table)


# One cluster, five values of --algorithm: what each makes of the same jobs, in the order in which it places them.
SHOP = """
queues
  prod  fair
  dev   fair
nodes
  a  6cpu rack=r1
  b  3cpu rack=r2
  c  3cpu rack=r2
jobs
  run     dev  : 1x 3cpu on a
  small   prod : 1x 1cpu
  due     prod due=2000000 : 1x 1cpu
  soon    prod due=1000000 : 1x 1cpu
  gang    prod : 4x 1cpu
  urgent  dev priority=9 : 1x 1cpu
  rival   prod priority=9 : 1x 1cpu
"""

ALGORITHM_CASES = {
    "binpack": """
plan               # queues take turns by share, priority counts within one; nodes are filled up
  rival   a
  small   a
  due     a
  urgent  b
  soon    b
  gang    b c c c
""",
    "spread": """
plan               # the same turns, over all nodes
  rival   b
  small   c
  due     b
  urgent  c
  soon    a
  gang    a a b c
""",
    "gang": """
plan               # of equal priority the largest first, into one rack though it names none
  rival   a
  urgent  a
  gang    b b b c
  small   a
  due     c
  soon    c
""",
    "priority": """
plan               # the urgent one of dev does not wait for its queue's turn
  rival   a
  urgent  a
  small   a
  due     b
  soon    b
  gang    b c c c
""",
    "deadline": """
plan               # the nearest deadline of a queue first, then priority
  soon    a
  due     a
  rival   a
  urgent  b
  small   b
  gang    b c c c
""",
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_algorithm(algorithm: str) -> None:
    check(SHOP + ALGORITHM_CASES[algorithm], Policy.of(algorithm, topology=("rack",)))


def test_algorithms_are_defaults_that_jobs_and_queues_override() -> None:
    assert {name: Policy.of(name).strategy for name in ALGORITHMS} == {
        "binpack": Strategy.BINPACK,
        "spread": Strategy.SPREAD,
        "gang": Strategy.BINPACK,
        "priority": Strategy.BINPACK,
        "deadline": Strategy.BINPACK,
    }
    table = """
queues
  prod  order=fifo
nodes
  a  4cpu
  b  4cpu
jobs
  first  prod : 2x 1cpu @binpack
  due    prod due=1000000 priority=9 : 2x 1cpu
plan
  first  a a
  due    %s
"""
    check(table % "a b", Policy.of("spread"))
    check(table % "a a", Policy.of("deadline"))


def test_an_unknown_algorithm_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        ValueError, match="unknown algorithm 'best'; there are binpack, spread, gang, priority, deadline"
    ):
        Policy.of("best")
