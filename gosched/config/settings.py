"""The settings of a master, and what both daemons have: frozen, validated, with every default in sight.

Amounts are integers with their unit in the field's name; the key in the file is the alias.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from gosched.config.access_model import AccessSettings
from gosched.config.address import Listen, join_address, resolve_listen, split_address
from gosched.config.archive_model import Archive
from gosched.config.audit_model import Audit
from gosched.config.backup_model import Backup
from gosched.config.errors import ConfigError, shown
from gosched.config.join_model import Join
from gosched.config.oidc_model import Oidc
from gosched.config.private import exposed
from gosched.config.queues import QueueConfig, QuotaConfig, check_distinct, check_quota_list, check_tree, queue_tree
from gosched.config.role_rules_model import MAX_RULES, RoleRuleConfig, UserField
from gosched.config.secrets_model import Secrets
from gosched.config.socket_model import SocketPath
from gosched.config.tracing_model import Tracing
from gosched.config.validation import LabelKey, MemoryBytes, Millis, Model, Name, Pairs, problem_at
from gosched.core.limits import MAX_DURATION_MS, MAX_LIVE_JOBS
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.spec.placement_rules import LINK_LEVEL, NODE_LEVEL, NUMA_LEVEL

MAX_LEVELS = 8  # of the topology, above the node

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "console"]


def _address(value: object) -> str:
    split_address(value)
    return str(value).strip()


def _target(value: object) -> str:
    """Check an address that can be dialed."""
    host, port = split_address(value)
    if not host or not port:
        raise ValueError(f"expected host:port to connect to, got {value!r}")
    return str(value).strip()


def _listed(value: object) -> object:
    """Read `a,b` from a flag or the environment as a list."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


def _topology(levels: tuple[str, ...]) -> tuple[str, ...]:
    """Check label keys, the widest level first; levels within a node are known without being named."""
    if len(levels) > MAX_LEVELS:
        raise ValueError(f"{len(levels)} levels; at most {MAX_LEVELS}")
    for place, level in enumerate(levels):
        if level in (NODE_LEVEL, NUMA_LEVEL, LINK_LEVEL):
            raise problem_at((place,), f"{level} is always a level: name only those above the node")
        if level in levels[:place]:
            raise problem_at((place,), f"{level} is given twice")
    return levels


Address = Annotated[str, BeforeValidator(_address)]
Target = Annotated[str, BeforeValidator(_target)]
Listed = BeforeValidator(_listed)
Algorithm = Literal["binpack", "spread", "gang", "priority", "deadline"]
PositiveMillis = Annotated[Millis, Field(ge=1)]


class Tls(Model):
    """Paths of PEM files; both ends of every connection show a certificate that `ca` signed. `roles`: what certificates
    are that do not name a role as gosched's own do, the first rule that matches a name first. `unnamed`: whether one
    that no rule matches is a client's. `user`, `groups`: the fields with the name and the groups of such a client."""

    cert: str
    key: str
    ca: str
    roles: Annotated[tuple[RoleRuleConfig, ...], Field(max_length=MAX_RULES)] = ()
    unnamed: Literal["client", "refused"] = "client"
    user: UserField = "cn"
    groups: Literal["o", "ou"] = "o"


class Server(Model):
    """`token_addr`: where gRPC takes callers that have a token or a login and no certificate; with it HTTP takes them,
    too. `socket`: path of a Unix socket for callers of this machine, who are known by their accounts; empty: none.
    `health_addr`: where probes ask by gRPC; `probe_addr`: where probes and scrapers ask by HTTP, in plain text and
    without certificates; empty: nowhere. `advertise_host`: what others call this machine; needed when it listens on
    every interface and its host name is not what others can resolve. `http_hosts`: further names by which HTTP calls
    it, such as a proxy's."""

    grpc_addr: Address = ":9090"
    http_addr: Address = ":8080"
    token_addr: Address | Literal[""] = ""
    socket: SocketPath = ""
    health_addr: Address | Literal[""] = ""
    probe_addr: Address | Literal[""] = ""
    advertise_host: str = ""
    http_hosts: Annotated[tuple[str, ...], Listed] = ()
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
    directory it founds the cluster with its peers, unless one of them says that it exists; false: it only joins.
    The peers are where to begin: once the log names the masters, it says which they are and where they listen.
    `join`: a master that finds that the cluster of its peers exists without it asks to be added, at `advertise_addr`.
    `max_round_trip_ms`: the longest between two masters; the timeouts of elections and connections follow from it."""

    enabled: bool = False
    node_id: Name = "master-1"
    bind_addr: Address = ":7000"
    advertise_addr: Target = ""
    bootstrap: bool = True
    join: bool = False
    peers: Annotated[tuple[Peer, ...], Listed] = ()
    max_round_trip_ms: Annotated[Millis, Field(ge=1, le=2000)] = Field(default=200, alias="max_round_trip")

    @model_validator(mode="after")
    def _ids_differ(self) -> Raft:
        ids = [peer.id for peer in self.peers]
        twice = next((member for member in ids if ids.count(member) > 1), None)
        if twice:
            raise ValueError(f'two peers have the id "{twice}"; give each its own: "id=host:port"')
        return self

    @model_validator(mode="after")
    def _has_a_master_to_join(self) -> Raft:
        if self.join and not self.others:
            raise ValueError('"join" needs another master to ask: name one in "peers", as "id=host:port"')
        return self

    @property
    def others(self) -> tuple[Peer, ...]:
        """Return the peers without this member, which may be in the list too."""
        return tuple(peer for peer in self.peers if peer.id != self.node_id)


def _depth(value: object) -> object:
    if value == "all":
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_LIVE_JOBS:
        raise ValueError(f"expected a number of jobs, or all, got {shown(value)}")
    return value


class Overtake(Model):
    """How long others may start before a gang that waits, while nobody knows when it could start."""

    max_wait_ms: Annotated[Millis, Field(le=MAX_DURATION_MS)] = Field(default=1_800_000, alias="max_wait")


class Scheduling(Model):
    """`reservations`: how many blocked gangs have a reserved start; 1 is EASY backfill, None conservative: all. The
    victims are jobs evicted in one cycle; 0: none ever."""

    reservations: Annotated[int | None, BeforeValidator(_depth)] = 4
    overtake: Overtake = Overtake()
    max_victims: Annotated[int, Field(ge=0, le=MAX_LIVE_JOBS)] = 100
    max_victims_per_tenant: Annotated[int, Field(ge=0, le=MAX_LIVE_JOBS)] = 50


class Retention(Model):
    """Finished jobs beyond either are dropped."""

    max_jobs: int = Field(default=10_000, ge=0)
    max_age_ms: PositiveMillis = Field(default=7 * 86_400_000, alias="max_age")


class History(Model):
    """How much each master keeps of what has happened, beside the replicated state; the oldest beyond goes.
    `max_jobs`: of jobs that have ended, `max_tasks`: starts of tasks, `max_bytes`: the file."""

    max_events: Annotated[int, Field(ge=1_000, le=100_000_000)] = 200_000
    max_jobs: Annotated[int, Field(ge=1_000, le=100_000_000)] = 1_000_000
    max_tasks: Annotated[int, Field(ge=1_000, le=100_000_000)] = 1_000_000
    max_bytes: Annotated[MemoryBytes, Field(ge=16 << 20)] = Field(default=1 << 30, alias="max_size")


class Lease(Model):
    """A node silent for `node_timeout` is DEAD; under a new leader only after `first_lease`, and after `goodbye` where
    its agent was told to stop; 0: such an agent is not awaited."""

    heartbeat_ms: PositiveMillis = Field(default=5_000, alias="heartbeat")
    node_timeout_ms: PositiveMillis = Field(default=10_000, alias="node_timeout")
    first_lease_ms: PositiveMillis = Field(default=15_000, alias="first_lease")
    goodbye_ms: Annotated[Millis, Field(le=MAX_DURATION_MS)] = Field(default=300_000, alias="goodbye")


class Limits(Model):
    """Bounds on what others may send. `calls_per_second`: of one client's certificate on one master, in the long run;
    `burst`: calls at once after a pause."""

    max_clock_skew_ms: PositiveMillis = Field(default=300_000, alias="max_clock_skew")
    calls_per_second: int = Field(default=500, ge=1, le=1_000_000)
    burst: int = Field(default=2_000, ge=1, le=10_000_000)


class PluginConfig(Model):
    """A scheduling plugin that is switched on; `timeout_ms` is its time in one cycle, `options` are passed on to it."""

    name: Name
    timeout_ms: PositiveMillis = Field(default=50, alias="timeout")
    options: Pairs = ()


class Logging(Model):
    """`format`: of the log on stderr; None: console on a terminal, JSON otherwise. `level`: the lowest that is shown,
    also changed while the daemon runs."""

    format: LogFormat | None = None
    level: LogLevel | None = None


class Settings(Model):
    """What both daemons have. `log_level` is what `logging.level` was called before. `shared_token_file`: without TLS,
    with the token that every caller shows, and that all programs of the cluster have; empty: none is needed."""

    tls: Tls | None = None
    insecure: bool = False
    shared_token_file: str = ""
    logging: Logging = Logging()
    log_level: LogLevel | None = None
    tracing: Tracing = Tracing()

    # Where each dotted key was set ("gosched.yaml:3", "--grpc-addr"), for errors that show only at start.
    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @property
    def shown_level(self) -> LogLevel:
        """Return the lowest level of records that are shown."""
        return self.logging.level or self.log_level or "info"

    def shared_token(self) -> str:
        """Return the token that callers show in place of certificates; empty: there is none. Raise ConfigError."""
        if not (file := self.shared_token_file):
            return ""
        if self.tls is not None:
            raise self.error("shared_token_file", "shared_token_file: tls is set, too: leave one out")
        try:
            problem = exposed(file)
            token = Path(file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", "") or error
            raise self.error("shared_token_file", f"shared_token_file: cannot read {file}: {reason}") from error
        if problem or not token:
            raise self.error("shared_token_file", f"shared_token_file: {problem or f'{file} is empty'}")
        return token

    def listen(self, key: str, address: str) -> Listen:
        """Resolve an address. Raise ConfigError, with the place where it was set."""
        try:
            return resolve_listen(address, key=key, tls=self.tls is not None, insecure=self.insecure)
        except ConfigError as error:
            raise self.error(key, str(error)) from None

    def origin(self, key: str) -> str:
        """Return where a dotted key was set, such as `gosched.yaml:3` or `--grpc-addr`; empty: nowhere."""
        return self._origins.get(key, "")

    def error(self, key: str, message: str) -> ConfigError:
        """Return an error with the place where the key was set."""
        origin = self.origin(key)
        return ConfigError(f"{origin}: {message}" if origin else message)


def health_listen(address: str) -> Listen | None:
    """It needs no TLS: see gosched.observe.health_port, and gosched.master.http.probes."""
    if not address:
        return None
    host, port = split_address(address)
    return Listen(host=host or "0.0.0.0", port=port)


class MasterSettings(Settings):
    server: Server = Server()
    raft: Raft = Raft()
    queues: tuple[QueueConfig, ...] = ()
    quotas: tuple[QuotaConfig, ...] = ()
    topology: Annotated[tuple[LabelKey, ...], Listed, AfterValidator(_topology)] = ()
    plugins: tuple[PluginConfig, ...] = ()
    data_dir: str = ""
    retention: Retention = Retention()
    history: History = History()
    lease: Lease = Lease()
    scheduling: Scheduling = Scheduling()
    limits: Limits = Limits()
    access: AccessSettings = AccessSettings()
    backup: Backup | None = None
    archive: Archive | None = None
    audit: Audit = Audit()
    oidc: Oidc | None = None
    secrets: Secrets | None = None
    join: Join | None = None

    @model_validator(mode="after")
    def _lists_agree(self) -> MasterSettings:
        check_tree(self.queues, ("queues",))
        check_quota_list(self.quotas, ("quotas",))
        check_distinct([plugin.name for plugin in self.plugins], ("plugins",), "plugin", "name")
        return self

    def queue_records(self) -> tuple[Queue, ...]:
        """Return parents before their children, with a `default` queue, named in the config or not."""
        return queue_tree(self.queues)

    def quota_records(self) -> tuple[Quota, ...]:
        return tuple([quota.record() for quota in self.quotas])

    def grpc_listen(self) -> Listen:
        return self.listen("server.grpc_addr", self.server.grpc_addr)

    def http_listen(self) -> Listen:
        return self.listen("server.http_addr", self.server.http_addr)

    def health_listen(self) -> Listen | None:
        return health_listen(self.server.health_addr)

    def token_listen(self) -> Listen | None:
        """Return where callers without certificates call. Raise ConfigError without TLS."""
        if not self.server.token_addr:
            return None
        if self.tls is None:
            raise self.error("server.token_addr", "server.token_addr needs TLS: tokens are not sent in plain text")
        return self.listen("server.token_addr", self.server.token_addr)

    def join_settings(self) -> Join | None:
        """Return with what certificates of agents are signed. Raise ConfigError without TLS."""
        if self.join is not None and self.tls is None:
            raise self.error("join", "join: certificates of agents need TLS: set tls, too")
        return self.join

    def probe_listen(self) -> Listen | None:
        return health_listen(self.server.probe_addr)

    def raft_listen(self) -> Listen:
        return self.listen("raft.bind_addr", self.raft.bind_addr)

    def raft_advertised(self) -> str:
        """Return where the other masters reach this one's replica: as set, or as its own entry among the peers says."""
        raft, listen = self.raft, self.raft_listen()
        listed = next((peer.address for peer in raft.peers if peer.id == raft.node_id), "")
        host = self.server.advertise_host or (socket.gethostname() if listen.is_every_interface else listen.host)
        return raft.advertise_addr or listed or join_address(host, listen.port)

    def listens(self) -> list[Listen]:
        """Return all that the master listens on. Raise ConfigError."""
        more = [self.raft_listen()] if self.raft.enabled else []
        tokens = self.token_listen()
        if self.oidc and self.oidc.page_url and tokens is None:
            raise self.error("oidc.page_url", "oidc.page_url needs server.token_addr: who logs in has no certificate")
        return [self.grpc_listen(), self.http_listen(), *([tokens] if tokens else []), *more]
