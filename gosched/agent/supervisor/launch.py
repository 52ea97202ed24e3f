"""What a supervisor runs, from start to end, as the agent stores it in `launch.json`.

Invariant: everything about a task that must outlive the agent is in its Launch, which is stored before the task starts.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gosched.agent.supervisor.records import read

LAUNCH = "launch.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user of this host, by numbers."""

    uid: int
    gid: int
    #: Numbers of its supplementary groups.
    groups: tuple[int, ...] = ()
    name: str = ""
    home: str = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostBind:
    """A path of the host that a job names, to be bound where its runtime finds it. What was opened is what is bound."""

    #: What the job names: `volume` or `image`.
    what: str
    #: The path as it is named.
    host: str
    #: Where the supervisor binds it.
    at: str
    #: Prefixes of which one must hold what the path stands for.
    allowed: tuple[str, ...]
    #: With whose rights it is opened. None: the agent's own.
    account: Account | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One start of one task."""

    #: Words of the command line.
    command: tuple[str, ...]
    #: Its whole environment.
    env: dict[str, str]
    #: Its working directory.
    cwd: str
    #: Directory of the cgroup that it is born in. Empty: the supervisor's.
    cgroup: str = ""
    #: Whose process it is. None: the agent's own user.
    account: Account | None = None
    umask: int = 0o022
    #: Soft and hard limit by name (`nofile`); -1: unlimited.
    rlimits: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Whether the command itself writes `task.json` once the task runs, since an image may have to be fetched first.
    #: It may write `result.json` (reason, detail, usage, blames_node) too, which says more than its exit code does.
    announces: bool = False
    #: Words before a command that is to run beside the task. Empty: that runs in the task's cgroup and directory, as
    #: its account.
    exec: tuple[str, ...] = ()
    #: Commands that freeze and thaw the task. Empty: its cgroup does.
    freeze: tuple[str, ...] = ()
    thaw: tuple[str, ...] = ()
    #: Commands that leave nothing of the task behind; harmless when repeated, each bounded in time.
    cleanup: tuple[tuple[str, ...], ...] = ()
    #: File on a tmpfs with more variables, which are secret: it is read when the command starts. Empty: there are none.
    variables: str = ""
    #: Seen by the command alone, in a mount namespace of its own.
    binds: tuple[HostBind, ...] = ()
    #: What its account sees in place of the node's, in a mount namespace of its own, as `enter_view` takes it.
    view: tuple[tuple[str, str], ...] = ()
    #: Id of the account under which its processes are, of containers too. -1: the agent's own, or not known.
    owner: int = -1

    # What the agent adds, whatever the runtime.

    #: The boot of the host in which it was started.
    boot_id: str = ""
    #: Size of one log file, and how many are kept, of each of the two streams.
    log_max_bytes: int = 0
    log_files: int = 0
    #: Numbers of the CPUs that it may run on. Empty: all.
    cpus: tuple[int, ...] = ()
    #: File with the node's lease (as `lease.Lease` reads it). Empty: the task goes on without the masters.
    lease: str = ""
    #: Between SIGTERM and SIGKILL, when the lease is over.
    lease_grace_ms: int = 0


_FIELDS = frozenset(each.name for each in fields(Launch))


def secret_variables(launch: Launch) -> dict[str, str]:
    """Return the variables of the command that stand in no Launch. Raises OSError."""
    if not launch.variables:
        return {}
    with open(launch.variables, encoding="ascii") as file:
        found: dict[str, str] = json.load(file)
    return found


def read_launch() -> Launch:
    """Return the launch that is stored in the working directory."""
    found = read(LAUNCH)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), LAUNCH)
    return launch_of(found)


def launch_of(record: Mapping[str, Any]) -> Launch:
    """Return the launch of a record that JSON has turned into lists. A later agent may have written more than is known
    here, and an older one less."""
    known = {name: _with_tuples(value) for name, value in record.items() if name in _FIELDS}
    binds = [HostBind(**{**bind, "account": account_of(bind["account"])}) for bind in known.get("binds", ())]
    return Launch(**{**known, "account": account_of(record.get("account")), "binds": tuple(binds)})


def account_of(record: Mapping[str, Any] | None) -> Account | None:
    """Return the account of a record that JSON has turned into lists."""
    return Account(**_with_tuples(record)) if record is not None else None


def _with_tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_with_tuples(each) if isinstance(each, list | dict) else each for each in value])
    if isinstance(value, dict):
        return {key: _with_tuples(each) if isinstance(each, list | dict) else each for key, each in value.items()}
    return value
