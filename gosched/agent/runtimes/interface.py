"""What a runtime is: it turns an order into one command that a supervisor runs, whatever the runtime.

The one rule: everything about a task that must outlive the agent is in its Launch, which is stored before it starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from gosched.core.orders import TaskOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user of this machine, by numbers; `groups` are the supplementary ones."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    name: str = ""
    home: str = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a task runs: its allocation's directory, the working directory in it, its cgroup (None: it has none), and
    the account; None: the agent's own."""

    path: Path
    work: Path
    cgroup: Path | None
    account: Account | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostBind:
    """A path of the node that a job names (`what`: volume or image), and where the supervisor binds it, once it has
    opened it with the rights of `account`, below a prefix of `allowed`. What it opened is what is bound."""

    what: str
    host: str
    at: str
    allowed: tuple[str, ...]
    account: Account | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What the supervisor runs, from start to end. Stored as `launch.json`.

    `command` runs in `cgroup` as `account` (empty: unchanged) in `cwd`. `announces`: the command itself writes
    `task.json` once the task runs (a container's image may have to be fetched first), and may write `result.json`
    (`reason`, `detail`, `usage`, `state`), which then says more about the end than its exit code does.
    `exec`: words before a command that is to run beside the task; empty: it runs in the task's cgroup and directory as
    its account. `freeze`, `thaw`: commands that make the task stand still and go on; empty: its cgroup does.
    `cleanup`: commands that leave nothing of the task behind; harmless when repeated, each bounded in time.
    `binds`: seen by the command alone, in a view of the node's mounts that is its own.
    """

    command: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    cgroup: str = ""
    account: Account | None = None
    umask: int = 0o022
    rlimits: dict[str, tuple[int, int]] = field(default_factory=dict)
    announces: bool = False
    exec: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    thaw: tuple[str, ...] = ()
    cleanup: tuple[tuple[str, ...], ...] = ()
    binds: tuple[HostBind, ...] = ()

    def record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Launch:
        """From a record with more in it, which JSON has turned into lists; one of an older agent may lack some."""
        own = {each.name: record[each.name] for each in fields(cls) if each.name in record}
        words = {key: tuple(own.get(key, ())) for key in ("command", "exec", "freeze", "thaw")}
        account = _account(own.get("account"))
        binds = tuple(
            [
                HostBind(**{**bind, "allowed": tuple(bind["allowed"]), "account": _account(bind["account"])})
                for bind in own.get("binds", ())
            ]
        )
        cleanup = tuple([tuple(command) for command in own.get("cleanup", ())])
        rlimits = {name: (soft, hard) for name, (soft, hard) in own.get("rlimits", {}).items()}
        return cls(**{**own, **words, "account": account, "cleanup": cleanup, "rlimits": rlimits, "binds": binds})


def _account(record: Mapping[str, Any] | None) -> Account | None:
    return Account(**{**record, "groups": tuple(record["groups"])}) if record is not None else None


class CannotRun(Exception):
    """Why a task cannot start here. `blames_node`: another task would meet the same."""

    def __init__(self, reason: str, detail: str, *, exit_code: int = 125, blames_node: bool = False) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.exit_code = exit_code
        self.blames_node = blames_node


class TaskRuntime(Protocol):
    def problem(self) -> str:
        """Why this node cannot run such tasks at all, in one line; empty: it can. May look at the machine."""

    def launch(self, order: TaskOrder, place: Place, env: dict[str, str]) -> Launch:
        """In a worker thread; may write into `place.path`. Raises CannotRun."""
