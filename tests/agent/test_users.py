"""As whom tasks run."""

import os
import pwd
from types import SimpleNamespace

import pytest

from gosched.agent.runtimes.interface import CannotRun
from gosched.agent.supervisor.launch import Account
from gosched.agent.tasks.users import account_for
from gosched.config.agent_settings import Users
from gosched.core.orders import TaskOrder
from gosched.core.spec.isolation import Isolation
from gosched.core.spec.secret_use import SecretUse

PEOPLE = {"root": 0, "agent": 500, "ann": 1001, "ben": 1002, "nobody": 65534}


class OwnAccounts:
    """Of those whose order has a number; `problem`: why there are none."""

    def __init__(self, problem=""):
        self.problem = problem

    def account(self, order):
        number = order.account_number
        return Account(uid=9000 + number, gid=9000 + number) if number and not self.problem else None

    def why_none(self, order):
        return self.problem or "it has no number"


NO_ACCOUNTS = OwnAccounts("there are none")
SECRET = (SecretUse(name="key", file="key"),)


def ordered(user="", number=0, secrets=()):
    isolation = Isolation(user=user)
    return TaskOrder(
        allocation_id="j/main/0.1",
        task_id="j/main/0",
        job_id="j",
        isolation=isolation,
        account_number=number,
        tenant="nlp",
        secrets=secrets,
    )


@pytest.fixture(autouse=True)
def people(monkeypatch):
    """A machine of its own, whoever runs the tests."""

    def entry(name):
        return SimpleNamespace(pw_name=name, pw_uid=PEOPLE[name], pw_gid=PEOPLE[name], pw_dir=f"/home/{name}")

    monkeypatch.setattr(pwd, "getpwnam", entry)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry({number: name for name, number in PEOPLE.items()}[uid]))
    monkeypatch.setattr(os, "getgrouplist", lambda name, gid: [gid, 27] if name == "ann" else [gid])


def by_root(monkeypatch, wanted, **rules):
    return chosen(monkeypatch, 0, wanted, rules)


def by_agent_user(monkeypatch, wanted, **rules):
    return chosen(monkeypatch, 500, wanted, rules)


def chosen(monkeypatch, euid, wanted, rules):
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    account = account_for(ordered(wanted), Users(**rules), NO_ACCOUNTS)
    return account and account.name


def refused(monkeypatch, as_whom, wanted, **rules):
    with pytest.raises(CannotRun) as caught:
        as_whom(monkeypatch, wanted, **rules)
    return caught.value


@pytest.mark.parametrize(
    ("wanted", "rules", "name"),
    [
        ("", {}, "nobody"),
        ("", {"default": "ann"}, "ann"),
        ("", {"own": True}, None),
        ("ann", {"allowed": ("ann",)}, "ann"),
        ("ann", {"allowed": ("*",)}, "ann"),
        ("ann", {"default": "ann"}, "ann"),
        ("ann", {"allowed": ("ben", "ann"), "own": True}, "ann"),
        ("root", {"own": True}, None),
    ],
)
def test_an_agent_of_root_runs_tasks_as_the_rules_say(monkeypatch, wanted, rules, name):
    assert by_root(monkeypatch, wanted, **rules) == name


@pytest.mark.parametrize(
    ("wanted", "rules", "words"),
    [
        ("ann", {}, "user ann is not in the agent's users.allowed"),
        ("ann", {"own": True}, "user ann is not in the agent's users.allowed"),
        ("ben", {"allowed": ("ann",)}, "user ben is not in the agent's users.allowed"),
        ("root", {"allowed": ("*",)}, "tasks run as root only where the agent has users.own: true"),
        ("root", {"allowed": ("root",)}, "tasks run as root only where the agent has users.own: true"),
        ("", {"default": "root"}, "tasks run as root only where the agent has users.own: true"),
    ],
)
def test_what_the_rules_do_not_allow_is_refused(monkeypatch, wanted, rules, words):
    error = refused(monkeypatch, by_root, wanted, **rules)
    assert (error.reason, error.detail, error.blames_node) == ("USER_NOT_ALLOWED", words, False)


def test_an_agent_that_is_not_root_runs_tasks_as_itself_alone(monkeypatch):
    assert by_agent_user(monkeypatch, "") is None
    assert by_agent_user(monkeypatch, "agent") is None
    error = refused(monkeypatch, by_agent_user, "ann", allowed=("*",))
    assert error.reason == "USER_NOT_ALLOWED"
    assert error.detail == "user ann: the agent is not root, so its tasks run as its own user, agent"


def test_a_user_that_does_not_exist_is_named(monkeypatch):
    error = refused(monkeypatch, by_root, "eve", allowed=("*",))
    assert (error.reason, error.blames_node) == ("USER_NOT_FOUND", False)
    assert error.detail == "user eve does not exist on this node"


def test_a_default_user_that_does_not_exist_is_the_nodes_fault(monkeypatch):
    error = refused(monkeypatch, by_root, "", default="tasks")
    assert (error.reason, error.blames_node) == ("USER_NOT_FOUND", True)


def test_an_account_has_all_its_groups(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    account = account_for(ordered("ann"), Users(allowed=("ann",)), NO_ACCOUNTS)
    assert account is not None
    assert (account.uid, account.gid, account.groups, account.home) == (1001, 1001, (27, 1001), "/home/ann")


def test_a_task_that_names_no_user_runs_under_the_account_of_its_tenant(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    rules = Users(allowed=("ann",))
    assert account_for(ordered(number=7, secrets=SECRET), rules, OwnAccounts()).uid == 9007
    assert account_for(ordered("ann", number=7, secrets=SECRET), rules, OwnAccounts()).name == "ann"  # as it asks
    assert account_for(ordered(number=0), rules, OwnAccounts()).name == "nobody"


@pytest.mark.parametrize(
    ("euid", "user", "rules"),
    [
        (0, "", {}),
        (0, "", {"default": "ann"}),
        (0, "ann", {"default": "ann"}),
        (0, "", {"own": True}),
        (500, "", {}),
        (500, "agent", {"allowed": ("*",)}),
    ],
    ids=["no number", "default", "default by name", "own", "not root", "not root, by name"],
)
def test_a_secret_is_refused_where_tenants_share_an_account_unless_that_is_meant(monkeypatch, euid, user, rules):
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    with pytest.raises(CannotRun) as caught:
        account_for(ordered(user, secrets=SECRET), Users(**rules), OwnAccounts())
    assert (caught.value.reason, caught.value.blames_node) == ("ACCOUNT_SHARED", False)
    assert caught.value.detail.endswith("it has no number. Nodes with the label gosched.io/secrets give secrets")
    account_for(ordered(user), Users(**rules), OwnAccounts())  # without secrets it runs
    account_for(ordered(user, secrets=SECRET), Users(**rules, shared=True), OwnAccounts())
