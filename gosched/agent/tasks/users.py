"""As which user of this host a task runs: one that its job names, or the account of its tenant.

Invariant: no task runs as root, or as the agent's own user, unless the agent's settings say so. A task that has secrets
shares its account with no task of another tenant, unless its job names the user, or the agent's settings say so.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Sequence
from pathlib import Path

from gosched.agent.acting import as_account
from gosched.agent.runtimes.interface import CannotRun
from gosched.agent.supervisor.launch import Account
from gosched.agent.tasks.accounts import Accounts
from gosched.config.agent_settings import ANYBODY, Users
from gosched.config.node_labels import SECRETS_LABEL
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason
from gosched.core.spec.secret_use import registry_secret

SHARED = "nobody"  # of tasks whose tenant has no account of its own here


def account_for(order: TaskOrder, rules: Users, accounts: Accounts) -> Account | None:
    """Return the account of a task; None: it runs as the agent does. Raises CannotRun, OSError."""
    wanted = order.isolation.user
    has_secrets = bool(order.secrets or registry_secret(order.isolation.registry))
    if not wanted and (account := accounts.account(order)) is not None:
        return account
    if has_secrets and not rules.shared and not _is_chosen(wanted, rules):
        detail = f"it would share its account on this node with other tenants' tasks: {accounts.why_none(order)}"
        raise CannotRun(Reason.ACCOUNT_SHARED, f"{detail}. Nodes with the label {SECRETS_LABEL} give secrets")
    return _shared_account(wanted, rules)


def _is_chosen(wanted: str, rules: Users) -> bool:
    """Return whether it is the job's own choice whom it shares its account with, among those the operator allows."""
    return bool(wanted) and os.geteuid() == 0 and (wanted in rules.allowed or ANYBODY in rules.allowed)


def _shared_account(wanted: str, rules: Users) -> Account | None:
    own = os.geteuid()
    if own != 0:
        _check_is_own(wanted, own)
        return None
    if not wanted and rules.own:
        return None
    account = _account(wanted or rules.default or SHARED, is_default=not wanted)
    if account.uid == own:
        if rules.own:
            return None
        raise CannotRun(
            Reason.USER_NOT_ALLOWED, f"tasks run as {account.name} only where the agent has users.own: true"
        )
    if wanted and wanted not in (*rules.allowed, rules.default) and ANYBODY not in rules.allowed:
        raise CannotRun(Reason.USER_NOT_ALLOWED, f"user {wanted} is not in the agent's users.allowed")
    return account


def unfit_for(directory: Path, rules: Users) -> str:
    """Return why tasks of other users could not run below `directory`, or could put something else in its place, in one
    line; empty: all is well, or tasks run as the agent does."""
    names = [name for name in rules.allowed if name != ANYBODY]
    if not rules.own or ANYBODY in rules.allowed:
        names.append(rules.default or SHARED)
    if os.geteuid() != 0 or not names:
        return ""
    return _not_roots(directory) or _closed_to(directory, names)


def _not_roots(directory: Path) -> str:
    for place in (*reversed(directory.parents), directory):
        seen = place.stat()
        is_open = seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not seen.st_mode & stat.S_ISVTX
        if seen.st_uid != 0 or is_open:
            return (
                f"users other than root can change {place}, and so put something else in the place of {directory}: "
                f"chown root {place}; chmod go-w {place}; or choose another directory with --data-dir"
            )
    return ""


def _closed_to(directory: Path, names: Sequence[str]) -> str:
    for name in names:
        try:
            account = _account(name, is_default=False)
        except CannotRun:  # its tasks are told so
            continue
        closed = _first_closed(directory, account)
        if closed is not None:
            mode = stat.S_IMODE(closed.stat().st_mode)
            return (
                f"user {name}, as whom tasks run here, cannot pass through {closed} (mode {mode:03o}) to {directory}: "
                f"chmod o+x {closed}, or choose another directory with --data-dir"
            )
    return ""


def _first_closed(directory: Path, account: Account) -> Path | None:
    for place in (*reversed(directory.parents), directory):
        try:
            with as_account(account):
                os.stat(f"{place}/.")  # asks to pass through it
        except PermissionError:
            return place
    return None


def _check_is_own(wanted: str, own: int) -> None:
    """Raise CannotRun for another user where the agent is not root: only root can become one."""
    if wanted and _uid(wanted) != own:
        why = f"the agent is not root, so its tasks run as its own user, {_name(own)}"
        raise CannotRun(Reason.USER_NOT_ALLOWED, f"user {wanted}: {why}")


def _account(name: str, *, is_default: bool) -> Account:
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        which = "the agent's users.default, " if is_default else ""
        raise CannotRun(
            Reason.USER_NOT_FOUND, f"{which}user {name} does not exist on this node", blames_node=is_default
        ) from error
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
