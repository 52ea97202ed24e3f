"""The settings of an agent: what its node is and offers, and how much it keeps.

Invariant: what the settings name goes before what the agent finds; what they leave out is found.
"""

from __future__ import annotations

import os
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gosched.config.address import Listen
from gosched.config.archive_model import Archive
from gosched.config.errors import shown
from gosched.config.jobs.isolation_model import Rlimits
from gosched.config.quantity import duration_ms, gpu_count
from gosched.config.settings import Address, Listed, PositiveMillis, Settings, Target, health_listen
from gosched.config.validation import CpuMillis, LabelKey, MemoryBytes, Model, Name, Pairs, Text, problem_at
from gosched.config.vector import with_custom
from gosched.core.cpulist import format_cpulist, parse_cpulist
from gosched.core.limits import MAX_AMOUNT, MAX_GPUS, MAX_RULES
from gosched.core.records.node import Hardware
from gosched.core.resources import MILLI, ZERO, AmountMap, Resources
from gosched.core.rules.isolation import MAX_PIDS
from gosched.core.rules.values import check_capacity
from gosched.core.sharing import BUILT_IN
from gosched.core.spec.placement_rules import Taint, TaintEffect

Amount = Annotated[MemoryBytes, Field(le=MAX_AMOUNT)]
GpuPlaces = Annotated[tuple[Annotated[int, Field(ge=0, lt=MAX_GPUS)], ...], Field(max_length=MAX_GPUS)]

ANYBODY = "*"

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\$?")


class NodeResources(Model):
    """What the node offers, instead of what the agent finds. An amount that is left out is found by the agent."""

    cpu_millis: CpuMillis | None = Field(default=None, alias="cpu")
    memory_bytes: MemoryBytes | None = Field(default=None, alias="memory")
    storage_bytes: MemoryBytes | None = Field(default=None, alias="storage")
    gpu_millis: int | None = Field(default=None, alias="gpu")
    custom: AmountMap = Field(default=(), alias="custom resources")

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """`cpu=4,memory=8Gi` from a flag."""
        if isinstance(value, str):
            pairs = [item.partition("=") for item in value.split(",") if item.strip()]
            value = {key.strip(): amount.strip() for key, _, amount in pairs}
        value = with_custom(value, BUILT_IN)
        if isinstance(value, dict) and value.get("gpu") is not None:
            value = {**value, "gpu": _gpus(value["gpu"])}
        return value

    @model_validator(mode="after")
    def _can_be_had(self) -> NodeResources:
        found = check_capacity("resources", self.over(ZERO))
        if found:
            raise problem_at(found.path, found.words)
        return self

    def over(self, found: Resources) -> Resources:
        """Return `found` with the amounts that were set in its place."""
        return Resources(
            cpu_millis=found.cpu_millis if self.cpu_millis is None else self.cpu_millis,
            memory_bytes=found.memory_bytes if self.memory_bytes is None else self.memory_bytes,
            storage_bytes=found.storage_bytes if self.storage_bytes is None else self.storage_bytes,
            gpu_millis=found.gpu_millis if self.gpu_millis is None else self.gpu_millis,
            custom=self.custom,
        )


def _gpus(value: object) -> int:
    try:
        return gpu_count(value) * MILLI
    except ValueError as error:
        raise problem_at(("gpu",), str(error)) from error


class TaintConfig(Model):
    """Written as a mapping, or `key=value:effect` and `key:effect`."""

    key: LabelKey
    value: Text = ""
    effect: Literal["no_schedule", "prefer_no_schedule", "no_execute"] = "no_schedule"

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        pair, colon, effect = value.rpartition(":")
        if not colon:
            raise ValueError(f"expected key=value:effect, such as gpu=true:no_schedule, got {shown(value)}")
        key, _, worth = pair.partition("=")
        return {"key": key.strip(), "value": worth.strip(), "effect": effect.strip()}

    def record(self) -> Taint:
        return Taint(key=self.key, value=self.value, effect=TaintEffect[self.effect.upper()])


def _distinct(taints: tuple[TaintConfig, ...]) -> tuple[TaintConfig, ...]:
    seen: set[tuple[str, str]] = set()
    for place, taint in enumerate(taints):
        if (taint.key, taint.effect) in seen:
            raise problem_at((place,), f"there is a taint {taint.key} with effect {taint.effect} already")
        seen.add((taint.key, taint.effect))
    return taints


def _cpu_list(value: object) -> str:
    written = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not written:
        raise ValueError(f'expected a list of CPUs such as "0-3,8", got {shown(value)}')
    return format_cpulist(parse_cpulist(written))


def _disjoint(lists: tuple[str, ...]) -> tuple[str, ...]:
    seen = 0
    for place, cpus in enumerate(lists):
        both = seen & parse_cpulist(cpus)
        if both:
            raise problem_at((place,), f"CPU {format_cpulist(both)} is in another NUMA node already")
        seen |= parse_cpulist(cpus)
    return lists


def _user(value: str) -> str:
    if not _USER.fullmatch(value):
        raise ValueError(f"expected the name of a user, got {shown(value)}")
    return value


def _user_or_all(value: str) -> str:
    return value if value == ANYBODY else _user(value)


def _user_or_none(value: str) -> str:
    return value and _user(value)


_IDS = re.compile(r"([1-9][0-9]{0,9}):([1-9][0-9]{0,9})")
_LEAST_ID, _MOST_ID = 1000, (1 << 31) - 1  # below: system accounts; above: what Docker refuses


def _ids(value: object) -> str:
    found = _IDS.fullmatch(str(value).strip())
    if not found:
        raise ValueError(f"expected FIRST:COUNT, such as 2100000000:65536, got {shown(value)}")
    first, count = int(found[1]), int(found[2])
    if first < _LEAST_ID or first + count - 1 > _MOST_ID:
        raise ValueError(f"expected ids from {_LEAST_ID} to {_MOST_ID}, got {first} to {first + count - 1}")
    return f"{first}:{count}"


class Users(Model):
    """The users as which tasks run. An agent that is not root has no choice: its tasks run as itself.

    Tasks that ask for no user run under an account of their tenant, or, where names are authenticated, of their user,
    with an id of `range`.
    """

    #: Names that jobs may ask for; `*` stands for all but root and the agent's own.
    allowed: Annotated[tuple[Annotated[str, AfterValidator(_user_or_all)], ...], Field(max_length=MAX_RULES)] = ()
    #: The one user of all tasks that ask for none. Empty: each tenant has its own account.
    default: Annotated[str, AfterValidator(_user_or_none)] = ""
    #: Tasks may run as the agent itself, root included, and do so unless they ask for another user.
    own: bool = False
    #: The ids of the accounts, as FIRST:COUNT. Nothing else on this machine has any of them. The default is above what
    #: system accounts, subordinate ids, containers of systemd and directory services are given by default.
    range: Annotated[str, BeforeValidator(_ids)] = "2100000000:65536"
    #: Tenants may share an account here, and tasks get secrets nonetheless.
    shared: bool = False

    @property
    def first(self) -> int:
        return int(self.range.partition(":")[0])

    @property
    def count(self) -> int:
        return int(self.range.partition(":")[2])


def _prefix(value: str) -> str:
    if not value.startswith("/") or not value.isprintable() or ".." in value.split("/"):
        raise ValueError(f"expected an absolute path without .., such as /data, got {shown(value)}")
    return os.path.normpath(f"/{value.strip('/')}")


Prefixes = Annotated[tuple[Annotated[str, AfterValidator(_prefix)], ...], Field(max_length=MAX_RULES)]


class Volumes(Model):
    """The paths of this node that tasks in containers may bind."""

    #: Prefixes of paths; empty: no volumes.
    allowed: Prefixes = ()


class Images(Model):
    """The root filesystems of this node that tasks may run on. All are opened with the rights of the task's user."""

    #: Prefixes of paths.
    allowed: Prefixes = ("/",)


class Ceilings(Model):
    """The most that a job may ask for on this node; more is refused."""

    pids: Annotated[int, Field(ge=1, le=MAX_PIDS)] = 32_768
    #: None: as much as the task asks for as `resources.memory`.
    memory_low_bytes: Amount | None = Field(default=None, alias="memory_low")
    #: Hard limits; one that is not named may be as high as the agent's own.
    rlimits: Rlimits = ()


class Registry(Model):
    """Credentials for container images, by reference: the password is in a file."""

    username: str
    password_file: str


def _until(value: object) -> int | None:
    """Read a duration; None stands for `job`: as long as the job's record."""
    return None if value == "job" else duration_ms(value)


class Logs(Model):
    """The logs of ended tasks. `keep`: `job`, as long as the job's record, or a time after the task's end. `max`: of
    all together; the oldest go first."""

    keep_ms: Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(_until)] = Field(default=None, alias="keep")
    max_bytes: Amount = Field(default=10 << 30, alias="max")


class AgentSettings(Settings):
    """`resources` None: the agent finds out all of them. So with `numa`, `gpu_numa`, `gpu_links`, empty, and the
    memory of each GPU, 0. With `hardware: static` it finds nothing: what the settings leave out is not there.

    `cgroup_root` empty: the agent finds a place for its cgroups, or makes one. `http_addr` empty: no metrics are
    served; `health_addr` empty: no probes are answered. `disk_free_pct`: below it the node takes no work.
    `join_token_file`: with the token by which an agent without certificates gets some; empty: none.
    `work_max_bytes`: of a task's working directory that asks for no storage; 0: no bound.
    """

    masters: Annotated[tuple[Target, ...], Listed, Field(min_length=1)] = ("localhost:9090",)
    labels: Pairs = ()
    taints: Annotated[tuple[TaintConfig, ...], Listed, AfterValidator(_distinct), Field(max_length=MAX_RULES)] = ()
    grpc_addr: Address = "127.0.0.1:0"
    advertise_addr: str = ""
    data_dir: str = ""
    join_token_file: str = ""
    resources: NodeResources | None = None
    gpu_model: str = ""
    gpu_memory_bytes: Amount = Field(default=0, alias="gpu_memory")
    numa: Annotated[tuple[Annotated[str, BeforeValidator(_cpu_list)], ...], AfterValidator(_disjoint)] = ()
    gpu_numa: GpuPlaces = ()
    gpu_links: GpuPlaces = ()
    heartbeat_ms: PositiveMillis | None = Field(default=None, alias="heartbeat")
    log_max_bytes: Annotated[MemoryBytes, Field(ge=64 * 1024)] = Field(default=16 * 1024 * 1024, alias="log_max")
    log_files: int = Field(default=4, ge=1, le=100)
    keep_finished_ms: PositiveMillis = Field(default=3_600_000, alias="keep_finished")
    logs: Logs = Logs()
    archive: Archive | None = None
    hardware_from: Literal["found", "static"] = Field(default="found", alias="hardware")
    isolation: Literal["required", "best_effort"] = "best_effort"
    cgroup_root: str = ""
    users: Users = Users()
    pids_max: int = Field(default=4096, ge=1, le=MAX_PIDS)
    ceilings: Ceilings = Ceilings()
    work_max_bytes: Amount = Field(default=0, alias="work_max")
    disk_free_pct: int = Field(default=3, ge=0, le=90)
    http_addr: Address | Literal[""] = ""
    health_addr: Address | Literal[""] = ""
    volumes: Volumes = Volumes()
    images: Images = Images()
    docker_host: str = "unix:///var/run/docker.sock"
    registries: Annotated[dict[Name, Registry], Field(default_factory=dict, max_length=MAX_RULES)]
    oci_runtime: str = ""
    spark_home: str = ""

    @model_validator(mode="after")
    def _joins_or_has_files(self) -> AgentSettings:
        if self.join_token_file and self.tls is not None:
            raise problem_at(("join_token_file",), "tls is set, too: leave one out")
        return self

    def grpc_listen(self) -> Listen:
        return self.listen("grpc_addr", self.grpc_addr)

    def http_listen(self) -> Listen | None:
        return self.listen("http_addr", self.http_addr) if self.http_addr else None

    def health_listen(self) -> Listen | None:
        return health_listen(self.health_addr)

    def listens(self) -> list[Listen]:
        http = self.http_listen()
        return [self.grpc_listen(), *([http] if http else [])]

    def taint_records(self) -> tuple[Taint, ...]:
        return tuple([taint.record() for taint in self.taints])

    def capacity(self, found: Resources) -> Resources:
        return self.resources.over(found) if self.resources is not None else found

    def hardware(self, found: Hardware, capacity: Resources) -> Hardware:
        """Return how the node is built that offers `capacity`. Raises ConfigError where the settings contradict it.

        What was found is dropped where the settings offer more than the machine has: it would describe another one.
        """
        gpus = capacity.gpu_millis // MILLI
        numa_cpus = self._numa_cpus(found, capacity.cpu_millis)
        found_gpu_numa = found.gpu_numa if numa_cpus == found.numa_cpus else ()
        return Hardware(
            numa_cpus=numa_cpus,
            gpu_numa=self._gpu_numa(gpus, len(numa_cpus)) or _if_complete(found_gpu_numa, gpus),
            gpu_links=self._of_each_gpu("gpu_links", self.gpu_links, gpus) or _if_complete(found.gpu_links, gpus),
            gpu_memory_bytes=self.gpu_memory_bytes or found.gpu_memory_bytes,
        )

    def _numa_cpus(self, found: Hardware, cpu_millis: int) -> tuple[str, ...]:
        if not self.numa:
            return found.numa_cpus if cpu_millis <= _cpus(found.numa_cpus) * 1000 else ()
        if cpu_millis > _cpus(self.numa) * 1000:
            named = f"numa: names {_cpus(self.numa)} CPUs, and the node offers {cpu_millis / 1000:g}"
            raise self.error("numa", f"{named}: name them all, or set resources.cpu")
        return self.numa

    def _gpu_numa(self, gpus: int, numa_nodes: int) -> tuple[int, ...]:
        places = self._of_each_gpu("gpu_numa", self.gpu_numa, gpus)
        if places and max(places) >= numa_nodes:
            there = f"they are 0 to {numa_nodes - 1}" if numa_nodes else "name the CPUs of each one with numa"
            raise self.error("gpu_numa", f"gpu_numa: there is no NUMA node {max(places)}: {there}")
        return places

    def _of_each_gpu(self, key: str, places: tuple[int, ...], gpus: int) -> tuple[int, ...]:
        if places and len(places) != gpus:
            raise self.error(key, f"{key}: {len(places)} entries for {gpus} GPUs: write one for each")
        return places


def _cpus(lists: tuple[str, ...]) -> int:
    return sum(parse_cpulist(cpus).bit_count() for cpus in lists)


def _if_complete(places: tuple[int, ...], gpus: int) -> tuple[int, ...]:
    return places if len(places) == gpus else ()
