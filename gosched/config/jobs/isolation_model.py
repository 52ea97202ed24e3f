"""How tasks are isolated: the keys of a job file on users, limits, images and volumes; as written and as records."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from gosched.config.errors import shown, suggestion
from gosched.config.quantity import memory_bytes
from gosched.config.validation import Int32, Int64, MemoryBytes, Model, Word, problem_at
from gosched.core.resources import AmountMap
from gosched.core.rules.isolation import RLIMITS, UNLIMITED, check_rlimit
from gosched.core.spec.isolation import Isolation, Network, Pull, Rlimit, Volume
from gosched.core.spec.task_group import Runtime

_UMASK = re.compile(r"0?[0-7]{1,3}")
_IN_BYTES = frozenset({"as", "core", "data", "fsize", "memlock", "msgqueue", "rss", "stack"})


def _user(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"expected the name of a user, as agents allow them by name, got {shown(value)}")
    return value


def _umask(value: object) -> int:
    """Read octal digits: 022, 0022 or 22."""
    written = str(value).removeprefix("0o") if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not _UMASK.fullmatch(written):
        raise ValueError(f"expected three octal digits such as 022, got {shown(value)}")
    return int(written, 8)


def _rlimits(value: object) -> tuple[Rlimit, ...]:
    if not isinstance(value, dict):
        raise ValueError(f"expected limits such as {{nofile: 4096, core: 0}}, got {shown(value)}")
    return tuple([_rlimit(key, value[key]) for key in sorted(value)])


def _rlimit(key: str, value: object) -> Rlimit:
    if key not in RLIMITS:
        known = suggestion(key, RLIMITS) or f"; known here: {', '.join(RLIMITS)}"
        raise problem_at((key,), f"unknown limit{known}")
    pair = value if isinstance(value, list) and len(value) == 2 else [value, value]
    try:
        soft, hard = (_limit(key, item) for item in pair)
    except ValueError as error:
        raise problem_at((key,), str(error)) from error
    limit = Rlimit(name=key, soft=soft, hard=hard)
    found = check_rlimit(limit)
    if found:
        raise problem_at((key,), found.words)
    return limit


Rlimits = Annotated[tuple[Rlimit, ...], BeforeValidator(_rlimits)]


def _limit(key: str, value: object) -> int:
    if value == "unlimited":
        return UNLIMITED
    if isinstance(value, str) and key in _IN_BYTES:
        value = memory_bytes(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        amount = ", an amount such as 64Mi" if key in _IN_BYTES else ""
        raise ValueError(f"expected a number{amount}, unlimited, or a soft and a hard one, [1024, 4096], got {value!r}")
    return value


def _path(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"expected an absolute path, got {shown(value)}")
    return value.rstrip("/") or "/"


def _image(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"expected a name such as debian:12, or an absolute path on the node, got {shown(value)}")
    return value


def _hugepages(value: object) -> AmountMap:
    if not isinstance(value, dict):
        raise ValueError(f"expected amounts by the size of the pages, such as {{2Mi: 1Gi}}, got {shown(value)}")
    return tuple([(key, _pages(key, value[key])) for key in sorted(value)])


def _pages(key: str, value: object) -> int:
    try:
        return memory_bytes(value)
    except ValueError as error:
        raise problem_at((key,), str(error)) from error


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


# 0 stands for none in a record, and leaving the key out in a file.
Amount = Annotated[MemoryBytes, Field(ge=1)]
Rate = Annotated[Int64, Field(ge=1)]
Count = Annotated[Int32, Field(ge=1)]
FilePath = Annotated[str, BeforeValidator(_path)]


class VolumeFile(Model):
    """A mapping, or `/data:/data:ro`. Without `mode` tasks may write to it, as with Docker."""

    host: FilePath
    to: FilePath
    mode: Literal["ro", "rw"] = "rw"

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        host, colon, rest = value.partition(":")
        if not colon:
            raise ValueError(f"expected host:to, or host:to:ro, such as /data:/data:ro, got {shown(value)}")
        to, _, mode = rest.partition(":")
        return {"host": host, "to": to, **({"mode": mode} if mode else {})}

    def record(self) -> Volume:
        return Volume(host=self.host, to=self.to, read_only=self.mode == "ro")


class IoFile(Model):
    """Limits of the disk of the agent's data directory, and of no other."""

    weight: Count | None = None
    #: Bytes in a second, as is `write`.
    read: Amount | None = None
    write: Amount | None = None
    #: Operations in a second, as is `writes`.
    reads: Rate | None = None
    writes: Rate | None = None


class LimitsFile(Model):
    cpu: Literal["hard", "soft"] = "hard"
    memory_low: Amount | None = None
    memory_high: Amount | None = None
    swap: MemoryBytes | None = None
    pids: Count | None = None
    hugepages: Annotated[AmountMap, BeforeValidator(_hugepages)] = ()
    io: IoFile = IoFile()


class IsolationFile(Model):
    """What tasks of every runtime may ask for."""

    user: Annotated[str, BeforeValidator(_user)] | None = None
    umask: Annotated[int, BeforeValidator(_umask)] | None = None
    rlimits: Rlimits = ()
    limits: LimitsFile = LimitsFile()

    def isolation(self) -> Isolation:
        limits, io = self.limits, self.limits.io
        return Isolation(
            user=self.user or "",
            umask=self.umask,
            rlimits=self.rlimits,
            cpu_soft=limits.cpu == "soft",
            memory_low_bytes=limits.memory_low or 0,
            memory_high_bytes=limits.memory_high or 0,
            swap_bytes=limits.swap,
            pids=limits.pids or 0,
            hugepages=limits.hugepages,
            io_weight=io.weight or 0,
            io_read_bytes=io.read or 0,
            io_write_bytes=io.write or 0,
            io_reads=io.reads or 0,
            io_writes=io.writes or 0,
        )


class ContainerFile(IsolationFile):
    """What tasks in containers may ask for besides."""

    #: None: it follows from the image.
    runtime: Literal["process", "rootfs", "docker", "spark"] | None = None
    image: Annotated[str, BeforeValidator(_image)] | None = None
    volumes: Annotated[tuple[VolumeFile, ...], BeforeValidator(_listed)] = ()
    network: Literal["host", "none"] | None = None
    read_only: bool = False
    pull: Literal["missing", "always", "never"] | None = None
    registry: Word | None = None

    @property
    def runs_in(self) -> Runtime:
        if self.runtime is not None:
            return Runtime[self.runtime.upper()]
        if self.image is None:
            return Runtime.PROCESS
        return Runtime.ROOTFS if self.image.startswith("/") else Runtime.DOCKER

    def isolation(self) -> Isolation:
        return replace(
            super().isolation(),
            volumes=tuple([volume.record() for volume in self.volumes]),
            network=Network[(self.network or "unspecified").upper()],
            read_only=self.read_only,
            pull=Pull[(self.pull or "unspecified").upper()],
            registry=self.registry or "",
        )
