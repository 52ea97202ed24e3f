"""How a task is isolated on its node, beyond its resources."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gosched.core.resources import AmountMap


class Pull(IntEnum):
    """When a container image is fetched."""

    UNSPECIFIED = 0
    MISSING = 1
    ALWAYS = 2
    NEVER = 3


class Network(IntEnum):
    """NONE: a network namespace of its own with loopback alone."""

    UNSPECIFIED = 0
    HOST = 1
    NONE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A path of the node that the task sees under another one. Absolute paths."""

    host: str
    to: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rlimit:
    """As setrlimit(2) knows it, without RLIMIT_ and in small letters: nofile, core, ... -1: unlimited."""

    name: str
    soft: int
    hard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """How a task is kept to itself on its node, beyond its resources. 0, None and empty stand for the node's
    default.

    `cpu_soft`: it may use CPUs that others leave idle, its own are its weight; otherwise its CPUs are a hard limit.
    `memory_low_bytes` is kept from reclaim while others have more than theirs; beyond `memory_high_bytes` it is
    throttled. `hugepages`: bytes by page size (2Mi, 1Gi). `io_weight` 1 to 10000; the others per second.
    `registry`: name of the credentials, which are in the agent's config. `read_only`: of a root filesystem.
    """

    user: str = ""
    umask: int | None = None
    rlimits: tuple[Rlimit, ...] = ()
    volumes: tuple[Volume, ...] = ()
    network: Network = Network.UNSPECIFIED
    read_only: bool = False
    pull: Pull = Pull.UNSPECIFIED
    registry: str = ""
    cpu_soft: bool = False
    memory_low_bytes: int = 0
    memory_high_bytes: int = 0
    swap_bytes: int | None = None
    pids: int = 0
    hugepages: AmountMap = ()
    io_weight: int = 0
    io_read_bytes: int = 0
    io_write_bytes: int = 0
    io_reads: int = 0
    io_writes: int = 0


PLAIN = Isolation()
