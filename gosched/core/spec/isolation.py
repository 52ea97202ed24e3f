"""How a task is isolated on its node, beyond its resources."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.resources import AmountMap


class Pull(IntEnum):
    """When a container image is fetched."""

    UNSPECIFIED = 0
    #: If the node does not have it.
    MISSING = 1
    ALWAYS = 2
    NEVER = 3


class Network(IntEnum):
    """The network namespace of a task."""

    UNSPECIFIED = 0
    #: The node's own.
    HOST = 1
    #: One of its own, with loopback alone.
    NONE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A path of the node that the task sees under another path."""

    #: Absolute path on the node.
    host: str
    #: Absolute path in the task.
    to: str
    #: The task cannot write there.
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rlimit:
    """A limit as setrlimit(2) knows it."""

    #: Without RLIMIT_ and in small letters: nofile, core, ...
    name: str
    #: -1: unlimited.
    soft: int
    #: -1: unlimited.
    hard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """How a task is isolated on its node, beyond its resources. 0, None and empty stand for the node's default."""

    #: Name or number of the account that the task runs as.
    user: str = ""
    #: Mask of the files that the task makes.
    umask: int | None = None
    #: Each name once.
    rlimits: tuple[Rlimit, ...] = ()
    #: Paths of the node that the task sees; a PROCESS has none of its own.
    volumes: tuple[Volume, ...] = ()
    #: UNSPECIFIED: as the runtime does it.
    network: Network = Network.UNSPECIFIED
    #: The root filesystem cannot be written.
    read_only: bool = False
    #: UNSPECIFIED: as the runtime does it.
    pull: Pull = Pull.UNSPECIFIED
    #: Name of the credentials, which are in the agent's config.
    registry: str = ""
    #: The task may use CPUs that others leave idle, and its own are its weight; otherwise they are a hard limit.
    cpu_soft: bool = False
    #: Kept from reclaim while other tasks have more than their own.
    memory_low_bytes: int = 0
    #: Beyond it the task is throttled.
    memory_high_bytes: int = 0
    #: Swap that it may use.
    swap_bytes: int | None = None
    #: Processes and threads that it may have.
    pids: int = 0
    #: Bytes by page size: 2Mi, 1Gi.
    hugepages: AmountMap = ()
    #: From 1 to 10000, against the other tasks of the node.
    io_weight: int = 0
    #: Per second.
    io_read_bytes: int = 0
    #: Per second.
    io_write_bytes: int = 0
    #: Operations per second.
    io_reads: int = 0
    #: Operations per second.
    io_writes: int = 0


PLAIN = Isolation()
