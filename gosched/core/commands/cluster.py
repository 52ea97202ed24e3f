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
    """Changes nothing; once it is applied, all that was committed before it is too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEpoch:
    """A new leader's first command; the answer's subject is the epoch."""

    leader: Master


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFeatureLevel:
    """Raises the level of the cluster; one that has no id yet gets this one. The first command of a new cluster."""

    level: int
    cluster_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQueues:
    """Replaces all queues, and with `sets_quotas` all quotas too, or changes nothing."""

    queues: tuple[Queue, ...]
    quotas: tuple[Quota, ...] = ()
    sets_quotas: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuotas:
    """Sets the quotas of these tenants; one without any limit is taken away. `replace`: those of all others too."""

    quotas: tuple[Quota, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceMaster:
    master: Master


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMembers:
    """In an entry of a kind of its own, by the replica that leads: its members use it before it is applied."""

    configuration: Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTime:
    """Nothing but its time: what was due by then happens (timeouts, deadlines, waits that are over)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetClock:
    """Sets the state's clock: forward, beyond what a stamp may move it by, or back; then what it has stamped since goes
    back with it. `runs`: the next runs of schedules that are others by the new time."""

    to_ms: int
    runs: tuple[NextRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWindow:
    """Makes a window, or changes the one of that name."""

    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class DropWindow:
    name: str
