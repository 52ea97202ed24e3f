"""A cluster whose masters know each other by names, and the one name server that answers for these, with faults."""

from __future__ import annotations

import select
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from gosched.cli.local_cluster import AgentShape
from gosched.replication.replica_config import split_address
from tests.chaos.hosts import CALL_S, HostCluster

DOMAIN = "names.test"
PORT = 53
_A, _IN, _FOUND, _NO_NAME, _REFUSED = 1, 1, 0x8580, 0x8583, 0x8585
_MOUNTED = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'

Mode = Literal["answers", "silent", "refuses"]


class NameServer:
    """Answers over UDP for the names in `addresses`, unless its mode says otherwise."""

    def __init__(self, host: str) -> None:
        self.addresses: dict[str, str] = {}
        self.mode: Mode = "answers"
        self.asked = 0
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind((host, PORT))
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ends.set()
        self._thread.join(CALL_S)
        self._sock.close()

    def _serve(self) -> None:
        while not self._ends.is_set():
            if not select.select([self._sock], [], [], 0.1)[0]:
                continue
            query, caller = self._sock.recvfrom(4096)
            self.asked += 1
            if self.mode != "silent":
                self._sock.sendto(self._answer(query), caller)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace").lower())
            at += 1 + query[at]
        (kind,) = struct.unpack_from(">H", query, at + 1)
        question = query[12 : at + 5]
        address = self.addresses.get(".".join(labels))
        if self.mode == "refuses":
            return query[:2] + struct.pack(">5H", _REFUSED, 1, 0, 0, 0) + question
        if address is None:
            return query[:2] + struct.pack(">5H", _NO_NAME, 1, 0, 0, 0) + question
        found = struct.pack(">3HIH", 0xC00C, _A, _IN, 1, 4) + socket.inet_aton(address) if kind == _A else b""
        return query[:2] + struct.pack(">5H", _FOUND, 1, bool(found), 0, 0) + question + found


class NamedCluster(HostCluster):
    """A `HostCluster` in whose configs masters have names, which `names` answers for."""

    names: NameServer

    def __init__(
        self, data_dir: Path, *, masters: int = 3, agents: int | Sequence[AgentShape] = 0, **more: object
    ) -> None:
        super().__init__(data_dir, masters=masters, agents=agents, settings=dict(more))

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self.names.close()

    def reset_links(self, seconds: float) -> None:
        """Reset every connection of every master, again and again for so long."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            for id in self.masters:
                space = f"--net=/var/run/netns/{self.hosts.namespace(id)}"
                subprocess.run(["nsenter", space, "ss", "-K", "-t"], capture_output=True, timeout=CALL_S, check=False)

    def _make_masters(self, count: int) -> None:
        ids = [f"master-{n}" for n in range(1, count + 1)]
        self.replicas = {id: self._address(id) for id in ids}
        gateway = self.replicas[ids[0]].rpartition(".")[0] + ".1"
        self.names = NameServer(gateway)
        self.names.addresses = {f"{id}.{DOMAIN}": split_address(self.replicas[id])[0] for id in ids}
        (self.data_dir / "resolv.conf").write_text(f"nameserver {gateway}\n")
        for id in ids:
            peers = [f"{other}={self._named(other)}" for other in ids if other != id]
            raft: Mapping[str, object] = {"enabled": True, "peers": peers, "advertise_addr": self._named(id)}
            self._make_master(id, raft)

    def _named(self, id: str) -> str:
        return f"{id}.{DOMAIN}:{split_address(self.replicas[id])[1]}"

    def _prefix(self, id: str) -> list[str]:
        resolver = str(self.data_dir / "resolv.conf")
        return [*super()._prefix(id), "unshare", "--mount", "sh", "-c", _MOUNTED, resolver]
