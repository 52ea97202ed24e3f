"""As which user of this machine a task runs.

The one rule: nobody gets root, or the agent's own user, unless the agent's settings say so.
"""

from __future__ import annotations

import os
import pwd

from gosched.agent.runtimes.interface import Account, CannotRun
from gosched.config.agent_settings import ANYBODY, Users

NOT_FOUND, NOT_ALLOWED = "USER_NOT_FOUND", "USER_NOT_ALLOWED"


def account_for(wanted: str, rules: Users) -> Account | None:
    """`wanted`: the name a job asks for; empty: none. None: the task runs as the agent does. Raises CannotRun."""
    own = os.geteuid()
    if own != 0:
        _check_is_own(wanted, own)
        return None
    if not wanted and rules.own:
        return None
    account = _account(wanted or rules.default, is_default=not wanted)
    if account.uid == own:
        if rules.own:
            return None
        raise CannotRun(NOT_ALLOWED, f"tasks run as {account.name} only where the agent has users.own: true")
    if wanted and wanted not in (*rules.allowed, rules.default) and ANYBODY not in rules.allowed:
        raise CannotRun(NOT_ALLOWED, f"user {wanted} is not in the agent's users.allowed")
    return account


def _check_is_own(wanted: str, own: int) -> None:
    """Only root can become another user."""
    if wanted and _uid(wanted) != own:
        why = f"the agent is not root, so its tasks run as its own user, {_name(own)}"
        raise CannotRun(NOT_ALLOWED, f"user {wanted}: {why}")


def _account(name: str, *, is_default: bool) -> Account:
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        which = "the agent's users.default, " if is_default else ""
        raise CannotRun(NOT_FOUND, f"{which}user {name} does not exist on this node", blames_node=is_default) from error
    groups = tuple(sorted(os.getgrouplist(entry.pw_name, entry.pw_gid)))
    return Account(uid=entry.pw_uid, gid=entry.pw_gid, groups=groups, name=entry.pw_name, home=entry.pw_dir)


def _uid(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return -1


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
