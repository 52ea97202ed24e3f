"""What a runtime is: it turns an order into one command that a supervisor runs, whatever the runtime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gosched.agent.supervisor.launch import Account, Launch
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretPlace:
    """Where the secrets of one task are, on the tmpfs."""

    #: Directory of all of it.
    path: Path
    #: The task has secrets as variables, in a file of `own`.
    has_variables: bool = False
    #: The task's registry has its credentials in a file of `own`.
    has_registry: bool = False

    @property
    def files(self) -> Path:
        return self.path / "files"

    @property
    def own(self) -> Path:
        return self.path / "own"

    @property
    def variables(self) -> str:
        """Return the file with the variables; empty: there are none."""
        return str(self.own / "variables.json") if self.has_variables else ""

    @property
    def registry(self) -> str:
        """Return the file with the credentials of a registry; empty: there are none."""
        return str(self.own / "registry.json") if self.has_registry else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a task runs."""

    #: Directory of its allocation.
    path: Path
    #: Its working directory.
    work: Path
    #: None: it has none.
    cgroup: Path | None
    #: None: the agent's own user.
    account: Account | None
    #: Where its secrets are; None: it has none.
    secrets: SecretPlace | None = None
    #: What of the node its account sees in place of what all see, as `enter_view` takes it. Empty: it has no view of
    #: its own.
    view: tuple[tuple[str, str], ...] = ()


class CannotRun(Exception):
    """Why a task cannot start here. `blames_node`: another task would meet the same."""

    def __init__(self, reason: Reason, detail: str, *, exit_code: int = 125, blames_node: bool = False) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.exit_code = exit_code
        self.blames_node = blames_node


class TaskRuntime(Protocol):
    """A way to run a task."""

    def problem(self) -> str:
        """Return why this node cannot run such tasks at all, in one line; empty: it can. May look at the host."""

    def launch(self, order: TaskOrder, place: Place, env: dict[str, str]) -> Launch:
        """Return what the supervisor runs. Called in a worker thread; may write into `place.path`. Raises CannotRun."""
