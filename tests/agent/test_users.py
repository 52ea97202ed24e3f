"""As whom tasks run."""

import os
import pwd
from types import SimpleNamespace

import pytest

from gosched.agent.runtimes.interface import CannotRun
from gosched.agent.tasks.users import account_for
from gosched.config.agent_settings import Users

PEOPLE = {"root": 0, "agent": 500, "ann": 1001, "ben": 1002, "nobody": 65534}


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
    account = account_for(wanted, Users(**rules))
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
    account = account_for("ann", Users(allowed=("ann",)))
    assert account is not None
    assert (account.uid, account.gid, account.groups, account.home) == (1001, 1001, (27, 1001), "/home/ann")
