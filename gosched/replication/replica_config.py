"""What a replica process is told by its front: plain data, passed as JSON on its command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gosched.replication.raft.timing import Timing

if TYPE_CHECKING:  # the replica process does without the settings and what they import
    from gosched.config import MasterSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    cert: str
    key: str
    ca: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """All that a replica is told at its start."""

    #: The id of this member.
    member: str
    #: host:port; empty: it listens for no other.
    bind_addr: str = ""
    #: host:port by which the others reach it; empty: `bind_addr`.
    advertise_addr: str = ""
    #: It asks to be added to the cluster of its peers.
    join: bool = False
    #: The other members: id -> host:port.
    peers: dict[str, str] = field(default_factory=dict)
    data_dir: str
    #: A new cluster may be founded with an empty directory.
    bootstrap: bool = True
    #: None: peers speak plain text.
    tls: TlsFiles | None = None
    #: The key `tls` of the settings, as JSON, which says what certificates are; empty: as gosched's own name it.
    tls_settings: str = ""
    #: With what peers prove without TLS that they are of this cluster; empty: they need not.
    token_file: str = ""
    timing: Timing = field(default_factory=Timing)
    #: The log is compacted beyond either bound.
    compact_bytes: int = 8 * 1024 * 1024
    compact_entries: int = 20_000

    @property
    def cluster(self) -> str:
        """Return the names of all members; two masters that disagree on it refuse each other."""
        return ",".join(sorted([self.member, *self.peers]))

    @property
    def listed(self) -> dict[str, str]:
        """Return all members that the config knows, and their addresses."""
        return {self.member: self.advertise_addr or self.bind_addr, **self.peers}

    @property
    def folder(self) -> Path:
        return Path(self.data_dir) / "raft"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_settings(settings: MasterSettings) -> ReplicaConfig:
        """Return the config of a replica. A cluster of one is made by itself; one of several where the settings say
        `bootstrap`.
        """
        raft = settings.raft
        peers = {peer.id: peer.address for peer in raft.others} if raft.enabled else {}
        return ReplicaConfig(
            member=raft.node_id,
            bind_addr=settings.raft_listen().address if raft.enabled else "",
            advertise_addr=settings.raft_advertised() if raft.enabled else "",
            join=raft.enabled and raft.join,
            peers=peers,
            data_dir=settings.data_dir,
            bootstrap=raft.bootstrap or not peers,
            timing=Timing.for_round_trip(raft.max_round_trip_ms / 1000),
            tls=TlsFiles(cert=settings.tls.cert, key=settings.tls.key, ca=settings.tls.ca) if settings.tls else None,
            token_file=settings.shared_token_file,
            tls_settings=settings.tls.model_dump_json() if settings.tls else "",
        )

    @staticmethod
    def from_json(text: str) -> ReplicaConfig:
        values = json.loads(text)
        tls = values.pop("tls")
        return ReplicaConfig(
            **{k: v for k, v in values.items() if k != "timing"},
            tls=TlsFiles(**tls) if tls else None,
            timing=Timing(**values["timing"]),
        )


def split_address(address: str) -> tuple[str, int]:
    """Raises ValueError unless it is host:port."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit():
        raise ValueError(f"{address!r} is not host:port")
    return host.strip("[]"), int(port)
