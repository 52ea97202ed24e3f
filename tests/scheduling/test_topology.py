"""Gangs and the tree of domains, as tables: levels, the smallest domain that fits, ranks, elastic tasks, spreading out."""

from __future__ import annotations

import pytest

from gosched.scheduling import Policy
from tests.scheduling.tables import check

LEVELS = Policy(topology=("zone", "rack"))

RACKS = """
nodes
  a  4cpu zone=z1 rack=r1
  b  4cpu zone=z1 rack=r1
  c  4cpu zone=z1 rack=r2
  d  2cpu zone=z1 rack=r2
  e  4cpu zone=z2 rack=r1
"""


@pytest.mark.parametrize(
    "table",
    [
        pytest.param("jobs\n  j  4x 1cpu in:rack\nplan\n  j  e e e e", id="the smallest rack that fits"),
    ],
)
def test_levels(table: str) -> None:
    check(RACKS + table, LEVELS)
