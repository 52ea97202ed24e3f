"""Which master to ask. Each one answers: a follower forwards to the leader, so any master that can reach it will do.

Invariant: a call goes to one master at a time, and moves on when that one gives no answer.
"""

from __future__ import annotations

import json
import random
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc

from gosched.client.errors import Misused, Unavailable, from_rpc, is_transient
from gosched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc

T = TypeVar("T")

LEARN_EVERY_S = 10.0  # between two looks at which masters there are
TRY_S = 3.0  # one master's time for one call; one that is frozen never answers
MAX_MASTERS = 64
_OPTIONS = (
    # A frozen or cut-off master is noticed within two seconds in the middle of a stream.
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 1000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A name may come back with another address: gRPC would ask for it again after half a minute.
    ("grpc.dns_min_time_between_resolutions_ms", 500),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Paths of PEM files: the client's certificate and key, and the authority's certificate."""

    cert: str
    key: str
    ca: str


class Masters:
    """The endpoints, a channel to each that was used, and the one that answered last.

    Endpoints are `host:port` of gRPC, or `http://host:port`: that master is asked for all of them.
    """

    def __init__(self, endpoints: str | Sequence[str], tls: TlsFiles | None) -> None:
        listed = endpoints.split(",") if isinstance(endpoints, str) else list(endpoints)
        self._endpoints = [endpoint.strip().rstrip("/") for endpoint in listed if endpoint.strip()]
        if not self._endpoints or len(self._endpoints) > MAX_MASTERS:
            raise Misused(f"name 1 to {MAX_MASTERS} masters, such as host:9090,host:9091 or http://host:8080")
        for endpoint in self._endpoints:
            if not endpoint.startswith(("http://", "https://")) and not endpoint.rpartition(":")[2].isdigit():
                raise Misused(f"endpoint {endpoint!r} is neither host:port nor http://host:port")
        self._tls = tls
        self._channels: dict[str, Any] = {}
        self._targets: list[str] = []
        self._next = random.randrange(MAX_MASTERS)
        self._learn_at = time.monotonic() + LEARN_EVERY_S  # a shorter life needs none
        self._last_error = ""

    def call(self, rpc: Callable[[Any, float], T], *, timeout_s: float) -> T:
        """Call `rpc(channel, timeout)` on one master after the other until one answers. Raises GoSchedError."""
        for channel, left in self.tries(timeout_s):
            try:
                answer = rpc(channel, min(TRY_S, left))
                self._learn(channel)
                return answer
            except grpc.RpcError as error:
                self.failed(error)
        raise AssertionError("tries() ends by raising")

    def tries(self, timeout_s: float) -> Iterator[tuple[Any, float]]:
        """Yield a channel and the seconds left, again and again, and raise Unavailable when the time is up."""
        ends = time.monotonic() + timeout_s
        self._last_error = ""
        tried = 0
        while (left := ends - time.monotonic()) > 0:
            targets = self._find_targets(min(TRY_S, left))
            if targets:
                yield self._channel(targets[self._next % len(targets)]), left
            tried += 1
            if tried >= max(1, len(targets)):  # all of them once without a pause, then with one
                time.sleep(min(random.uniform(0.05, 0.2), max(0.0, ends - time.monotonic())))
        asked = ", ".join(self._endpoints)
        raise Unavailable(f"no master answered within {timeout_s:g} s ({asked}): {self._last_error or 'no reply'}")

    def at(self, target: str) -> Any:
        """Return a channel to the master at this very address."""
        return self._channel(target)

    def failed(self, error: Any) -> None:
        """Move on to the next master; raise when the error is an answer."""
        if not is_transient(error):
            raise from_rpc(error) from None
        text = " ".join((error.details() or error.code().name).split())[:200]
        silent = "failed to connect" in text or error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        if not self._last_error or not silent:  # what a master that lives says tells more
            self._last_error = text
        self._next += 1

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _find_targets(self, timeout_s: float) -> list[str]:
        if not self._targets:
            found = [e for e in self._endpoints if not e.startswith(("http://", "https://"))]
            for url in [] if found else self._endpoints:
                try:
                    found = _grpc_addresses(url, timeout_s)
                    break
                except (OSError, ValueError, KeyError, TypeError) as error:
                    self._last_error = f"{url}: {error}"
            self._targets = found
        return self._targets

    def _learn(self, channel: Any) -> None:
        """Learn which masters there are by now: they come and go while a client lives. Its own endpoints stay."""
        if time.monotonic() < self._learn_at:
            return
        self._learn_at = time.monotonic() + LEARN_EVERY_S
        stub = scheduler_pb2_grpc.SchedulerServiceStub(channel)
        try:
            status = stub.GetClusterStatus(scheduler_pb2.GetClusterStatusRequest(), timeout=TRY_S)
        except grpc.RpcError:
            return  # the next call meets the same problem, and says so
        current = self._targets[self._next % len(self._targets)]
        told = [endpoint for endpoint in self._endpoints if not endpoint.startswith(("http://", "https://"))]
        found = [master.grpc_address for master in status.masters if master.grpc_address]
        self._targets = list(dict.fromkeys([*told, *found, current]))[:MAX_MASTERS]
        self._next = self._targets.index(current) if current in self._targets else 0

    def _channel(self, target: str) -> Any:
        if target not in self._channels:
            self._channels[target] = open_channel(target, self._tls)
        return self._channels[target]


def open_channel(target: str, tls: TlsFiles | None) -> Any:
    if tls is None:
        return grpc.insecure_channel(target, options=_OPTIONS)
    try:
        ca, key, cert = (Path(path).read_bytes() for path in (tls.ca, tls.key, tls.cert))
    except OSError as error:
        raise Misused(f"cannot read {error.filename}: {error.strerror}") from error
    credentials = grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=cert)
    return grpc.secure_channel(target, credentials, options=_OPTIONS)


def _grpc_addresses(url: str, timeout_s: float) -> list[str]:
    """Return the addresses of all masters, by the status that one of them gives over HTTP."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/api/v1/status", timeout=timeout_s) as answer:
        status = json.loads(answer.read(1024 * 1024))
    found = [str(master["grpc_address"]) for master in status["masters"] if master.get("grpc_address")][:MAX_MASTERS]
    if not found:
        raise ValueError("its status names no master's gRPC address")
    if any(_is_known(address) for address in found):
        return found
    # Names of containers, whose ports are published where this one answered.
    host = url.rpartition("//")[2].rpartition(":")[0]
    return [f"{host}:{port}" for port in dict.fromkeys(address.rpartition(":")[2] for address in found)]


def _is_known(address: str) -> bool:
    try:
        return bool(socket.getaddrinfo(address.rpartition(":")[0].strip("[]"), None))
    except OSError:
        return False
