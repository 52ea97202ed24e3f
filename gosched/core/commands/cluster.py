"""Commands about the cluster itself: epochs, members, queues, quotas, windows, the clock."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.commands.jobs import NextRun
from gosched.core.records.master import Configuration, Master
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.records.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Noop:
    """Changes nothing. Once it is applied, all that was committed before it is too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Stands in the log in the place of a command that operators had skipped, and is refused. Nobody proposes it."""

    #: The command's name: "SubmitJob".
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEpoch:
    """Opens an epoch: a new leader's first command. The subject of the answer is the epoch."""

    #: The master that leads.
    leader: Master


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFeatureLevel:
    """Raises the feature level of the cluster. The first command of a new cluster."""

    #: Not below the level of the state.
    level: int
    #: Id for a cluster that has none yet; empty: none.
    cluster_id: str = ""
    #: Key that the secrets of tasks are made from, for a cluster that has none yet; empty: none.
    task_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQueues:
    """Replaces all queues, or changes nothing."""

    #: All of them; never empty.
    queues: tuple[Queue, ...]
    #: All of them, with `sets_quotas`; otherwise empty.
    quotas: tuple[Quota, ...] = ()
    #: Replaces all quotas too.
    sets_quotas: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuotas:
    """Sets the quotas of some tenants."""

    #: One without any limit is removed.
    quotas: tuple[Quota, ...]
    #: Removes the quotas of all other tenants.
    replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceMaster:
    """Says where a master listens."""

    master: Master


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMembers:
    """Names the members of the log. In an entry of a kind of its own, by the replica that leads: its members use it
    before it is applied."""

    configuration: Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTime:
    """Carries nothing but its time: what was due by then happens (timeouts, deadlines, waits that are over)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetClock:
    """Sets the clock of the state: forward, beyond what a stamp may move it by, or back; then what it has stamped since
    goes back with it."""

    #: The new time; above 0.
    to_ms: int
    #: Next runs of schedules that are others by the new time; empty: none.
    runs: tuple[NextRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWindow:
    """Makes a window, or changes the one of that name."""

    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class DropWindow:
    """Removes a window."""

    name: str
