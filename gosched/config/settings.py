"""The settings of the two daemons: frozen, validated, with every default in sight.

Amounts are integers with their unit in the field's name; the key in the file is the alias.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from gosched.config.address import Listen, resolve_listen, split_address
from gosched.config.errors import ConfigError
from gosched.config.quantity import gpu_count
from gosched.config.validation import CpuMillis, MemoryBytes, Millis, Model, Name, Pairs
from gosched.core.cluster import Queue, QueueType
from gosched.core.limits import MAX_QUEUES
from gosched.core.resources import GPU, Resources

LogLevel = Literal["debug", "info", "warning", "error"]


def _address(value: object) -> str:
    split_address(value)
    return str(value).strip()


def _target(value: object) -> str:
    """An address that can be dialed."""
    host, port = split_address(value)
    if not host or not port:
        raise ValueError(f"expected host:port to connect to, got {value!r}")
    return str(value).strip()


def _listed(value: object) -> object:
    """`a,b` from a flag or the environment is a list."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


def _supported_algorithm(value: str) -> str:
    if value not in ("binpack", "spread"):
        raise ValueError(f'"{value}" is not supported by this version yet: use binpack or spread')
    return value


Address = Annotated[str, BeforeValidator(_address)]
Target = Annotated[str, BeforeValidator(_target)]
Algorithm = Annotated[
    Literal["binpack", "spread", "gang", "priority", "deadline"], AfterValidator(_supported_algorithm)
]
PositiveMillis = Annotated[Millis, Field(ge=1)]


class Tls(Model):
    """Paths of PEM files; both ends of every connection show a certificate that `ca` signed."""

    cert: str
    key: str
    ca: str


class Server(Model):
    """`advertise_host`: what others call this machine; needed when it listens on every interface and its host name
    is not what others can resolve."""

    grpc_addr: Address = ":9090"
    http_addr: Address = ":8080"
    advertise_host: str = ""
    algorithm: Algorithm = "binpack"
    schedule_period_ms: PositiveMillis = Field(default=1000, alias="schedule_period")


class Peer(Model):
    """Another member of the replicated log. Written `host:port` (the host is the id) or `id=host:port`."""

    id: Name
    address: Target

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        member, equals, address = value.rpartition("=")
        host, _ = split_address(address)
        return {"id": member if equals else host, "address": address}


class Raft(Model):
    """`enabled: false` is a cluster of one, with the same log. `bootstrap`: with an empty data
    directory it founds the cluster with its peers; false for a master that comes back without its disk."""

    enabled: bool = False
    node_id: Name = "master-1"
    bind_addr: Address = ":7000"
    bootstrap: bool = True
    peers: Annotated[tuple[Peer, ...], BeforeValidator(_listed)] = ()

    @model_validator(mode="after")
    def _ids_differ(self) -> Raft:
        ids = [peer.id for peer in self.peers]
        twice = next((member for member in ids if ids.count(member) > 1), None)
        if twice:
            raise ValueError(f'two peers have the id "{twice}"; give each its own: "id=host:port"')
        return self

    @property
    def others(self) -> tuple[Peer, ...]:
        """The peers without this member, which may stand in the list too."""
        return tuple(peer for peer in self.peers if peer.id != self.node_id)


class Retention(Model):
    """Finished jobs beyond either are dropped."""

    max_jobs: int = Field(default=10_000, ge=0)
    max_age_ms: PositiveMillis = Field(default=7 * 86_400_000, alias="max_age")


class Lease(Model):
    """A node silent for `node_timeout` is DEAD; under a new leader only after `first_lease`."""

    heartbeat_ms: PositiveMillis = Field(default=5_000, alias="heartbeat")
    node_timeout_ms: PositiveMillis = Field(default=10_000, alias="node_timeout")
    first_lease_ms: PositiveMillis = Field(default=15_000, alias="first_lease")


class Limits(Model):
    """Bounds on what others may send."""

    max_clock_skew_ms: PositiveMillis = Field(default=300_000, alias="max_clock_skew")


class QueueConfig(Model):
    LATER: ClassVar[frozenset[str]] = frozenset(
        {"children", "guaranteed", "limit", "preemption", "max_running_jobs", "tenants", "order"}
    )

    name: Name
    type: Literal["fifo", "fair", "capacity"] = "fifo"
    weight: int = Field(default=1, ge=1, le=1_000_000)
    capacity_pct: int = Field(default=0, ge=0, le=100)
    max_pct: int = Field(default=100, ge=0, le=100)

    @model_validator(mode="after")
    def _fits_its_type(self) -> QueueConfig:
        if "weight" in self.model_fields_set and self.type != "fair":
            raise ValueError(f"weight is for queues of type fair; this one is {self.type}")
        if self.type != "capacity" and {"capacity_pct", "max_pct"} & self.model_fields_set:
            raise ValueError(f"capacity_pct and max_pct are for queues of type capacity; this one is {self.type}")
        if self.max_pct < self.capacity_pct:
            raise ValueError(f"max_pct {self.max_pct} is below capacity_pct {self.capacity_pct}")
        return self

    def record(self) -> Queue:
        return Queue(
            path=self.name,
            type=QueueType[self.type.upper()],
            weight=self.weight,
            capacity_pct=self.capacity_pct,
            max_pct=self.max_pct,
        )


class Settings(Model):
    """What both daemons have."""

    tls: Tls | None = None
    insecure: bool = False
    log_level: LogLevel = "info"

    # Where each dotted key was set ("gosched.yaml:3", "--grpc-addr"), for errors that show only at start.
    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)

    def listen(self, key: str, address: str) -> Listen:
        """Raises ConfigError, with the place where the address was set."""
        try:
            return resolve_listen(address, key=key, tls=self.tls is not None, insecure=self.insecure)
        except ConfigError as error:
            origin = self._origins.get(key)
            raise ConfigError(f"{origin}: {error}" if origin else str(error)) from None


class MasterSettings(Settings):
    server: Server = Server()
    raft: Raft = Raft()
    queues: tuple[QueueConfig, ...] = ()
    data_dir: str = ""
    retention: Retention = Retention()
    lease: Lease = Lease()
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _queues_agree(self) -> MasterSettings:
        names = [queue.name for queue in self.queues]
        twice = next((queue for queue in names if names.count(queue) > 1), None)
        if twice:
            raise ValueError(f'two queues are named "{twice}"')
        if len(names) >= MAX_QUEUES:
            raise ValueError(f"{len(names)} queues; at most {MAX_QUEUES - 1}")
        promised = sum(queue.capacity_pct for queue in self.queues)
        if promised > 100:
            raise ValueError(f"the queues' capacity_pct add up to {promised}; at most 100")
        return self

    def queue_records(self) -> tuple[Queue, ...]:
        """With a `default` queue, named in the config or not."""
        queues = tuple(queue.record() for queue in self.queues)
        return queues if any(queue.path == "default" for queue in queues) else (*queues, Queue(path="default"))

    def grpc_listen(self) -> Listen:
        return self.listen("server.grpc_addr", self.server.grpc_addr)

    def http_listen(self) -> Listen:
        return self.listen("server.http_addr", self.server.http_addr)

    def raft_listen(self) -> Listen:
        return self.listen("raft.bind_addr", self.raft.bind_addr)

    def listens(self) -> list[Listen]:
        """All that it listens on. Raises ConfigError."""
        return [self.grpc_listen(), self.http_listen(), *([self.raft_listen()] if self.raft.enabled else [])]


class NodeResources(Model):
    """What the node offers, instead of what the agent finds. An amount that is left out is found by the agent."""

    cpu_millis: CpuMillis | None = Field(default=None, alias="cpu")
    memory_bytes: MemoryBytes | None = Field(default=None, alias="memory")
    storage_bytes: MemoryBytes | None = Field(default=None, alias="storage")
    gpu_millis: int | None = Field(default=None, alias="gpu")

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """`cpu=4,memory=8Gi` from a flag."""
        if isinstance(value, str):
            pairs = [item.partition("=") for item in value.split(",") if item.strip()]
            value = {key.strip(): amount.strip() for key, _, amount in pairs}
        if isinstance(value, dict) and value.get("gpu") is not None:
            value = {**value, "gpu": gpu_count(value["gpu"]) * GPU}
        return value

    def over(self, found: Resources) -> Resources:
        """`found`, with the amounts that were set in its place."""
        return Resources(
            cpu_millis=found.cpu_millis if self.cpu_millis is None else self.cpu_millis,
            memory_bytes=found.memory_bytes if self.memory_bytes is None else self.memory_bytes,
            storage_bytes=found.storage_bytes if self.storage_bytes is None else self.storage_bytes,
            gpu_millis=found.gpu_millis if self.gpu_millis is None else self.gpu_millis,
        )


class AgentSettings(Settings):
    """`resources` None: the agent finds out all of them."""

    masters: Annotated[tuple[Target, ...], BeforeValidator(_listed), Field(min_length=1)] = ("localhost:9090",)
    labels: Pairs = ()
    grpc_addr: Address = "127.0.0.1:0"
    advertise_addr: str = ""
    data_dir: str = ""
    resources: NodeResources | None = None
    gpu_model: str = ""
    heartbeat_ms: PositiveMillis = Field(default=5_000, alias="heartbeat")
    log_max_bytes: Annotated[MemoryBytes, Field(ge=64 * 1024)] = Field(default=16 * 1024 * 1024, alias="log_max")
    log_files: int = Field(default=4, ge=1, le=100)
    keep_finished_ms: PositiveMillis = Field(default=3_600_000, alias="keep_finished")

    def grpc_listen(self) -> Listen:
        return self.listen("grpc_addr", self.grpc_addr)

    def listens(self) -> list[Listen]:
        return [self.grpc_listen()]
