"""Which id is whose on a node, and what keeps tenants from having accounts of their own. Without root: only the choice
is looked at here, and `tests/integration/test_accounts.py` has the rest."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gosched.agent.runtimes.interface import CannotRun
from gosched.agent.tasks import accounts, leftovers
from gosched.agent.tasks.accounts import Accounts
from gosched.config.agent_settings import Users
from gosched.core.orders import TaskOrder

FIRST = 2_000_000_000
NODES = ("two", "two", "five", "six")
Make = Callable[..., Accounts]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Make:
    """A machine on which all ids belong to whoever runs the tests."""
    own = os.geteuid()
    monkeypatch.setattr(accounts, "_is_root", lambda: True)
    monkeypatch.setattr(accounts, "_is_roots", lambda seen: seen.st_uid == own)
    monkeypatch.setattr(leftovers, "processes_of", lambda uid: [])
    monkeypatch.setattr(accounts, "_subordinate", lambda file: [])
    monkeypatch.setattr(Accounts, "_probe", lambda self: "")

    def made(node: str = "node", **rules: Any) -> Accounts:
        home = tmp_path / node / "accounts"
        home.parent.mkdir(exist_ok=True)
        rules = {"range": f"{FIRST}:10", **rules}
        return Accounts(home, Users(**rules), claims=tmp_path / "run" / "accounts", shm=tmp_path / "shm")

    (tmp_path / "run").mkdir(mode=0o755)
    return made


def of(tenant: str, number: int, user: str = "") -> TaskOrder:
    return TaskOrder(
        allocation_id="j/m/0.1", task_id="j/m/0", job_id="j", tenant=tenant, user=user, account_number=number
    )


def uid_of_first(found: Accounts) -> int:
    return found._first


def uid_of(found: Accounts, order: TaskOrder) -> int | None:
    account = found.account(order)
    return account.uid if account is not None else None


def test_each_number_is_an_id_of_the_range_and_those_beyond_it_have_none(make: Make) -> None:
    found = make()
    assert (found.problem, found.shared) == ("", "")
    assert [uid_of(found, of("nlp", number)) for number in (1, 10, 0, 11)] == [FIRST, FIRST + 9, None, None]
    assert found.why_none(of("nlp", 11)) == "users.range has 10 ids, and its tenant's number is 11"
    assert "the masters gave its tenant no account" in found.why_none(of("nlp", 0))


def test_an_id_stays_its_holders_over_restarts_and_goes_to_another_once_nothing_is_left(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make().account(of("nlp", 1, "ann"))
    again = make()
    assert uid_of(again, of("nlp", 1, "ann")) == FIRST
    monkeypatch.setattr(leftovers, "processes_of", lambda uid: [4711])
    assert uid_of(again, of("nlp", 1, "ann")) == FIRST
    with pytest.raises(CannotRun, match=r"process 4711 has id .* was that of user ann of tenant nlp") as caught:
        again.account(of("vision", 1))
    assert (caught.value.reason, caught.value.blames_node) == ("USER_REFUSED", True)
    monkeypatch.setattr(leftovers, "processes_of", lambda uid: [])
    left = tmp_path / "node" / "accounts" / str(FIRST) / "tmp" / "hers"
    left.touch()
    assert uid_of(again, of("vision", 1)) == FIRST
    assert not left.exists()


def test_what_is_left_goes_once_no_task_runs_under_an_id(make: Make, tmp_path: Path) -> None:
    found = make()
    found.account(of("nlp", 1))
    at = max(found._used.values()) + 1
    left = tmp_path / "shm" / str(FIRST) / "hers"
    left.touch()
    found.tidy({FIRST}, at)
    assert left.exists()
    found.tidy(set(), at - 2)  # one started after it was looked which of them run
    assert left.exists()
    found.tidy(set(), at)
    assert not left.exists()
    assert uid_of(found, of("nlp", 1)) == FIRST


@pytest.mark.parametrize(
    ("rules", "is_root", "words"),
    [
        ({}, False, "the agent is not root"),
        ({"own": True}, True, "users.own is set"),
        ({"default": "ann"}, True, "all tenants' tasks run as ann"),
    ],
)
def test_where_tenants_share_an_account_the_agent_says_why(
    make: Make, monkeypatch: pytest.MonkeyPatch, rules: dict[str, Any], is_root: bool, words: str
) -> None:
    monkeypatch.setattr(accounts, "_is_root", lambda: is_root)
    found = make(**rules)
    assert words in found.shared
    assert found.account(of("nlp", 1)) is None
    assert make(**rules, shared=True).shared == ""  # it is meant


def test_a_range_that_others_have_is_not_used(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert make("one").problem == ""
    assert make("one").problem == ""  # it is its own
    assert make("two", range=f"{FIRST + 10}:5").problem == ""
    assert f"the agent on {tmp_path}/one has ids of the same range" in make("three", range=f"{FIRST + 9}:1").problem
    (tmp_path / "one" / "accounts").rename(tmp_path / "gone")
    (tmp_path / "one").rmdir()
    assert make("three", range=f"{FIRST + 9}:1").problem == ""  # of an agent that is no more
    for node in NODES[2:]:
        (tmp_path / node).mkdir()
    firsts = [Accounts(tmp_path / node / "accounts", Users(), claims=tmp_path / "run" / "accounts") for node in NODES]
    assert [found.problem for found in firsts] == [""] * 4
    assert [uid_of_first(found) for found in firsts] == [2_100_000_000, 2_100_000_000, 2_100_065_536, 2_100_131_072]
    monkeypatch.setattr(accounts, "_subordinate", lambda file: [("ann", FIRST, 65536)])
    assert "/etc/subuid gives ann ids of the same range" in make("four", range=f"{FIRST + 100}:5").problem
