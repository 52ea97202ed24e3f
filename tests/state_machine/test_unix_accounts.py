"""Accounts on nodes: who gets a number, when, and that it stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.jobs import SubmitJob
from gosched.core.features import FeatureLevel
from gosched.core.state.restore import restore
from gosched.master.agents.orders import Orders
from gosched.state_machine import unix_accounts
from tests.state_machine.cluster import Cluster, spec


@pytest.fixture
def c() -> Cluster:
    made = Cluster()
    made.node(cpus=16)
    return made


def started(c: Cluster, name: str, tenant: str, user: str = "", *, known: bool = False) -> tuple[int, str, str]:
    """What its order says of its account."""
    wanted = replace(spec(name), tenant=tenant)
    job = c.accept(SubmitJob(job_id=f"id-{name}", spec=wanted, user=user, authenticated=known)).subject
    c.place(job, "n1")
    order = Orders().start(c.state, c.state.allocations[c.tasks(job)[0].allocation_id])
    return order.account_number, order.tenant, order.user


def test_each_tenant_and_each_authenticated_user_has_its_own_number_and_keeps_it(c: Cluster) -> None:
    assert started(c, "a", "nlp") == (1, "nlp", "")
    assert started(c, "b", "vision") == (2, "vision", "")
    assert started(c, "c", "nlp", "ann") == (1, "nlp", "")  # anybody can say so
    assert started(c, "d", "nlp", "ann", known=True) == (3, "nlp", "ann")
    assert started(c, "e", "vision", "ann", known=True) == (4, "vision", "ann")
    assert started(c, "f", "nlp", "ann", known=True) == (3, "nlp", "ann")
    again = restore(c.state.freeze())
    assert again.unix_accounts == c.state.unix_accounts
    assert [account.number for account in again.unix_accounts.values()] == [1, 2, 3, 4]


def test_a_number_is_given_with_the_first_place_and_never_beyond_the_bound(
    c: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    c.submit(replace(spec("waits"), tenant="idle"))
    assert c.state.unix_accounts == {}
    monkeypatch.setattr(unix_accounts, "MAX_UNIX_ACCOUNTS", 1)
    assert started(c, "a", "nlp")[0] == 1
    assert started(c, "b", "vision")[0] == 0
    assert started(c, "c", "nlp")[0] == 1


def test_below_its_level_nobody_has_one(c: Cluster) -> None:
    c.state.raise_level(FeatureLevel.FIRST)
    assert started(c, "a", "nlp") == (0, "nlp", "")
    assert c.state.unix_accounts == {}
