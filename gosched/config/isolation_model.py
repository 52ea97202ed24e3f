"""How tasks are kept to themselves: the keys of a job file on users, limits, images and volumes; as written and as
records.

Rule kept: a key that a task's runtime has no use for is refused, since whoever wrote it relies on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from gosched.config.errors import shown, suggestion
from gosched.config.quantity import memory_bytes
from gosched.config.validation import MemoryBytes, Model, Name, problem_at, text
from gosched.core.limits import MAX_AMOUNT, MAX_NAME_LENGTH, MAX_RULES
from gosched.core.resources import AmountMap
from gosched.core.spec.isolation import Isolation, Network, Pull, Rlimit, Volume
from gosched.core.spec.task_group import Runtime

MAX_PIDS = 4_000_000  # what Linux counts to
MAX_RATE = 1 << 40  # of I/O operations in a second

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")
_UMASK = re.compile(r"0?[0-7]{1,3}")
_PAGES: Mapping[str, int] = {"2Mi": 2 << 20, "1Gi": 1 << 30}
_UNLIMITED = -1
_IN_BYTES = frozenset({"as", "core", "data", "fsize", "memlock", "msgqueue", "rss", "stack"})
_RLIMITS = _IN_BYTES | {"cpu", "locks", "nice", "nofile", "nproc", "rtprio", "rttime", "sigpending"}

# Which keys mean something to which runtime; the others of a group mean something to all of them.
_OF_RUNTIME: Mapping[str, tuple[str, ...]] = {
    "image": ("rootfs", "docker"),
    "volumes": ("rootfs", "docker"),
    "network": ("rootfs", "docker"),
    "read_only": ("rootfs", "docker"),
    "pull": ("docker",),
    "registry": ("docker",),
    "umask": ("process", "rootfs", "spark"),
}
_INSTEAD: Mapping[tuple[str, str], str] = {
    ("process", "image"): "its command runs on the node's own files; leave image out, or use rootfs or docker",
    ("process", "volumes"): "it sees the node's files anyway; leave volumes out, or use rootfs or docker",
    ("rootfs", "pull"): "its image is on the node already; leave pull out",
    ("docker", "umask"): "Docker has none; set it in the command",
}


def _user(value: object) -> str:
    written = text(value)
    if not _USER.fullmatch(written):
        raise ValueError(f"expected the name of a user, as agents allow them by name, got {shown(written)}")
    return written


def _umask(value: object) -> int:
    """Octal, as everywhere: 022, 0022 or 22."""
    written = str(value).removeprefix("0o") if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not _UMASK.fullmatch(written):
        raise ValueError(f"expected three octal digits such as 022, got {shown(value)}")
    return int(written, 8)


def _rlimits(value: object) -> tuple[Rlimit, ...]:
    if not isinstance(value, dict):
        raise ValueError(f"expected limits such as {{nofile: 4096, core: 0}}, got {shown(value)}")
    return tuple([_rlimit(key, value[key]) for key in sorted(value)])


def _rlimit(key: str, value: object) -> Rlimit:
    if key not in _RLIMITS:
        known = suggestion(key, _RLIMITS) or f"; known here: {', '.join(sorted(_RLIMITS))}"
        raise problem_at((key,), f"unknown limit{known}")
    pair = value if isinstance(value, list) and len(value) == 2 else [value, value]
    try:
        soft, hard = (_limit(key, item) for item in pair)
    except ValueError as error:
        raise problem_at((key,), str(error)) from error
    if _height(soft) > _height(hard):
        raise problem_at((key,), f"the soft limit, {pair[0]}, is above the hard one, {pair[1]}: write [soft, hard]")
    return Rlimit(name=key, soft=soft, hard=hard)


Rlimits = Annotated[tuple[Rlimit, ...], BeforeValidator(_rlimits)]


def _limit(key: str, value: object) -> int:
    if value == "unlimited":
        return _UNLIMITED
    if isinstance(value, str) and key in _IN_BYTES:
        value = memory_bytes(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_AMOUNT:
        amount = ", an amount such as 64Mi" if key in _IN_BYTES else ""
        raise ValueError(f"expected a number{amount}, unlimited, or a soft and a hard one, [1024, 4096], got {value!r}")
    return value


def _height(limit: int) -> float:
    return inf if limit == _UNLIMITED else limit


def _path(value: object) -> str:
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        raise ValueError(f"expected an absolute path, got {shown(value)}")
    if len(value) > MAX_NAME_LENGTH:
        raise ValueError(f"{len(value)} characters long; at most {MAX_NAME_LENGTH}")
    if ".." in value.split("/"):
        raise ValueError(f"{shown(value)}: write the path without ..")
    return value.rstrip("/") or "/"


def _image(value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable() or " " in value or value.startswith("-"):
        raise ValueError(f"expected a name such as debian:12, or an absolute path on the node, got {shown(value)}")
    if len(value) > MAX_NAME_LENGTH:
        raise ValueError(f"{len(value)} characters long; at most {MAX_NAME_LENGTH}")
    return value


def _hugepages(value: object) -> AmountMap:
    if not isinstance(value, dict):
        raise ValueError(f"expected amounts by the size of the pages, such as {{2Mi: 1Gi}}, got {shown(value)}")
    return tuple([(key, _pages(key, value[key])) for key in sorted(value)])


def _pages(key: str, value: object) -> int:
    try:
        if key not in _PAGES:
            raise ValueError(f"there are pages of {' and '.join(_PAGES)}, not of {shown(key)}")
        amount = memory_bytes(value)
        if amount % _PAGES[key] or amount > MAX_AMOUNT:
            raise ValueError(f"expected whole pages of {key}, got {shown(value)}")
    except ValueError as error:
        raise problem_at((key,), str(error)) from error
    return amount


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


Amount = Annotated[MemoryBytes, Field(ge=1, le=MAX_AMOUNT)]
Rate = Annotated[int, Field(ge=1, le=MAX_RATE)]
FilePath = Annotated[str, BeforeValidator(_path)]


class VolumeFile(Model):
    """A mapping, or `/data:/data:ro`. Without `mode` it may be written to, as with Docker."""

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

    @model_validator(mode="after")
    def _leaves_the_root(self) -> VolumeFile:
        if self.to == "/":
            raise problem_at(("to",), "a volume cannot stand in place of the whole root filesystem; name a directory")
        return self

    def record(self) -> Volume:
        return Volume(host=self.host, to=self.to, read_only=self.mode == "ro")


class IoFile(Model):
    """Of the disk of the agent's data directory, and of no other. `read`, `write`: bytes in a second; `reads` and
    `writes`: operations."""

    weight: int | None = Field(default=None, ge=1, le=10_000)
    read: Amount | None = None
    write: Amount | None = None
    reads: Rate | None = None
    writes: Rate | None = None


class LimitsFile(Model):
    cpu: Literal["hard", "soft"] = "hard"
    memory_low: Amount | None = None
    memory_high: Amount | None = None
    swap: Annotated[MemoryBytes, Field(le=MAX_AMOUNT)] | None = None
    pids: int | None = Field(default=None, ge=1, le=MAX_PIDS)
    hugepages: Annotated[AmountMap, BeforeValidator(_hugepages)] = ()
    io: IoFile = IoFile()


class IsolationFile(Model):
    """What tasks of every runtime may ask for."""

    user: Annotated[str, BeforeValidator(_user)] | None = None
    umask: Annotated[int, BeforeValidator(_umask)] | None = None
    rlimits: Rlimits = ()
    limits: LimitsFile = LimitsFile()

    def check_limits(self, memory_bytes: int) -> None:
        """Against what a task asks for; 0: as much as there is. Raises what a validator may raise."""
        for key in ("memory_low", "memory_high"):
            if memory_bytes and (getattr(self.limits, key) or 0) > memory_bytes:
                raise problem_at(("limits", key), "is above resources.memory, where the task is killed: make it lower")

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
    """`runtime` None: by the image."""

    runtime: Literal["process", "rootfs", "docker", "spark"] | None = None
    image: Annotated[str, BeforeValidator(_image)] | None = None
    volumes: Annotated[tuple[VolumeFile, ...], BeforeValidator(_listed), Field(max_length=MAX_RULES)] = ()
    network: Literal["host", "none"] | None = None
    read_only: bool = False
    pull: Literal["missing", "always", "never"] | None = None
    registry: Name | None = None

    @property
    def runs_in(self) -> Runtime:
        if self.runtime is not None:
            return Runtime[self.runtime.upper()]
        if self.image is None:
            return Runtime.PROCESS
        return Runtime.ROOTFS if self.image.startswith("/") else Runtime.DOCKER

    @model_validator(mode="after")
    def _fits_its_runtime(self) -> ContainerFile:
        runtime = self.runs_in.name.lower()
        for key, runtimes in _OF_RUNTIME.items():
            if getattr(self, key) not in (None, (), False) and runtime not in runtimes:
                instead = _INSTEAD.get((runtime, key), f"leave {key} out, or use {' or '.join(runtimes)}")
                raise problem_at((key,), f"is nothing for the runtime {runtime}: {instead}")
        self._check_image(runtime)
        seen: set[str] = set()
        for place, volume in enumerate(self.volumes):
            if volume.to in seen:
                raise problem_at(("volumes", place, "to"), f"there is a volume at {volume.to} already")
            seen.add(volume.to)
        return self

    def _check_image(self, runtime: str) -> None:
        if runtime in ("rootfs", "docker") and self.image is None:
            what = "such as debian:12" if runtime == "docker" else "the path of a directory or tarball on the node"
            raise problem_at(("runtime",), f"{runtime} needs an image, {what}")
        image = self.image or ""
        if runtime == "rootfs" and not image.startswith("/"):
            raise problem_at(("image",), f"rootfs takes an absolute path on the node, got {shown(image)}")
        if runtime == "docker" and image.startswith("/"):
            raise problem_at(("image",), f"docker takes a name such as debian:12; for {shown(image)} use rootfs")

    def isolation(self) -> Isolation:
        return replace(
            super().isolation(),
            volumes=tuple([volume.record() for volume in self.volumes]),
            network=Network[(self.network or "unspecified").upper()],
            read_only=self.read_only,
            pull=Pull[(self.pull or "unspecified").upper()],
            registry=self.registry or "",
        )
