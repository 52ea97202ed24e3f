"""The Prometheus metrics of an agent, in a registry of its own, and the small HTTP server that shows them.

Invariant: labels are bounded, and gauges are read when they are asked for, so that none outlives what it describes.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from gosched.agent.hardware.vitals import Vitals
from gosched.config import ConfigError, Listen
from gosched.core.records.usage import Usage
from gosched.observe.certificates import CertificateGauges
from gosched.stderr import dropped_lines
from gosched.wire.plain_text import refusal
from gosched.wire.tls_watch import TlsWatch

MAX_CONNECTIONS = 16
MAX_HEAD_BYTES = 16 * 1024
TIMEOUT_S = 5.0

_STARTS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """What a scrape reads of the agent."""

    #: Number of tasks that are kept, by runtime and state, both in small letters.
    tasks: Mapping[tuple[str, str], int] = field(default_factory=dict)
    #: What the tasks that have not ended have used so far.
    live: tuple[Usage, ...] = ()
    orphan_cgroups: int = 0
    #: What the logs of ended tasks take on the disk.
    kept_log_bytes: int = 0
    #: Logs that are not in the archive yet.
    unarchived_logs: int = 0
    #: What of cgroups is not enforced, in one word each: controllers, and `devices`.
    missing: tuple[str, ...] = ()


class AgentMetrics:
    """The metrics, for the event loop's thread. `facts` is called at each scrape."""

    def __init__(self, version: str, vitals: Vitals, facts: Callable[[], AgentFacts]) -> None:
        self._registry = CollectorRegistry()
        self._starts = Histogram(
            "gosched_agent_task_start_duration_seconds",
            "Seconds from the order's arrival to the start of the task's command",
            ("runtime",),
            registry=self._registry,
            buckets=_STARTS,
        )
        self._gauges = _Gauges(version, vitals, facts)
        self._registry.register(self._gauges)
        self._server: asyncio.Server | None = None
        self._listening: socket.socket | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._connections = 0

    def observe_start(self, seconds: float, runtime: str) -> None:
        self._starts.labels(runtime).observe(seconds)

    def observe_end(self, usage: Usage) -> None:
        """Count a task that has ended, once, when it is no longer among the live ones."""
        self._gauges.ended(usage)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    async def serve(self, listen: Listen, tls: TlsWatch | None) -> int:
        """Serve scrapes, and return the port. Raises ConfigError."""
        family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        try:
            self._listening = socket.create_server((listen.host, listen.port), family=family)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise ConfigError(f"http_addr: cannot listen on {listen.address}: {reason}") from error
        await self._take(tls)
        if tls is not None:
            self._registry.register(CertificateGauges(tls.expiries))
            tls.follow(lambda: self._renew(tls))
        return int(self._listening.getsockname()[1])

    async def close(self) -> None:
        if self._renewing is not None:
            await asyncio.wait([self._renewing])
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        if self._listening is not None:
            self._listening.close()

    def _renew(self, tls: TlsWatch) -> None:
        self._renewing = asyncio.ensure_future(self._take(tls))

    async def _take(self, tls: TlsWatch | None) -> None:
        """Take connections, from now on with the certificates that are in use. The socket that listens stays, so none
        is refused meanwhile."""
        assert self._listening is not None
        context = tls.current.server if tls else None
        old, self._server = (
            self._server,
            await asyncio.start_server(self._answer, sock=self._listening.dup(), ssl=context, limit=MAX_HEAD_BYTES),
        )
        if old is not None:
            old.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request per connection; a slow client, or one too many, is cut off."""
        self._connections += 1
        try:
            host = str(writer.get_extra_info("peername", ("?",))[0])
            problem = "" if writer.get_extra_info("ssl_object") else refusal(host)
            if self._connections <= MAX_CONNECTIONS:
                async with asyncio.timeout(TIMEOUT_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(_http("403 Forbidden", f"{problem}\n".encode()) if problem else self._response(head))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client has gone, or does not speak HTTP
        except asyncio.CancelledError:
            pass  # the agent ends; the server would show it as an error
        finally:
            await _close(writer)
            self._connections -= 1

    def _response(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET":
            return _http("405 Method Not Allowed", b"only GET is answered here\n")
        if path == b"/metrics":
            return _http("200 OK", self.text(), CONTENT_TYPE_LATEST)
        if path == b"/healthz":
            return _http("200 OK", b"ok\n")
        return _http("404 Not Found", b"there are /metrics and /healthz\n")


class _Gauges(Collector):
    def __init__(self, version: str, vitals: Vitals, facts: Callable[[], AgentFacts]) -> None:
        self._version = version
        self._vitals = vitals
        self._facts = facts
        self._oom_kills = 0
        self._throttled_ms = 0

    def ended(self, usage: Usage) -> None:
        self._oom_kills += usage.oom_kills
        self._throttled_ms += usage.throttled_ms

    def collect(self) -> Iterable[Metric]:
        facts, vitals = self._facts(), self._vitals
        yield _gauge("build_info", "Always 1; the label has the version", ("version",), [((self._version,), 1)])
        yield _gauge("agent_tasks", "Number of tasks that are kept here", ("runtime", "state"), facts.tasks.items())
        oom_kills = self._oom_kills + sum(usage.oom_kills for usage in facts.live)
        yield _counter(
            "agent_oom_kills", "Number of processes killed for their task's memory limit", (), [((), oom_kills)]
        )
        throttled_ms = self._throttled_ms + sum(usage.throttled_ms for usage in facts.live)
        text = "Seconds that tasks waited for their CPU limit"
        yield _counter("agent_cpu_throttled_seconds", text, (), [((), throttled_ms / 1000)])
        stalls = [((name,), p.stalled_us / 1e6) for name, p in vitals.pressure.items() if p.milli >= 0]
        yield _counter(
            "agent_psi_stall_seconds",
            "Seconds that something waited for the resource on this node",
            ("resource",),
            stalls,
        )
        states = [(str(number), state) for number, state in enumerate(vitals.gpus.states)]
        busy = [((number,), state.busy_milli / 1000) for number, state in states]
        yield _gauge("agent_gpu_utilization_ratio", "Ratio of time that a GPU was busy", ("gpu",), busy)
        broken = [((number,), int(bool(state.problem))) for number, state in states]
        yield _gauge("agent_gpu_broken", "1 for a GPU that takes no work, 0 for others", ("gpu",), broken)
        yield _gauge(
            "agent_orphan_cgroups", "Number of cgroups of no task that is known", (), [((), facts.orphan_cgroups)]
        )
        yield _gauge("agent_kept_log_bytes", "Bytes of the logs of ended tasks", (), [((), facts.kept_log_bytes)])
        yield _gauge("agent_unarchived_logs", "Number of logs not archived yet", (), [((), facts.unarchived_logs)])
        missing = [((name,), 1) for name in facts.missing]
        yield _gauge(
            "agent_isolation",
            "1 for each cgroup controller that is missing, and for the filter of devices",
            ("missing",),
            missing,
        )
        text = "Number of log lines that were lost because stderr was not read"
        yield _counter("log_lines_dropped", text, (), [((), dropped_lines())])
        yield _gauge(
            "agent_unfit", "1 while the node should take no work, else 0", (), [((), int(bool(vitals.unfit())))]
        )

    def describe(self) -> Iterable[Metric]:
        return ()  # registering must not collect: the sources are not ready then


Values = Iterable[tuple[tuple[str, ...], float]]


def _gauge(name: str, text: str, labels: tuple[str, ...], values: Values) -> Metric:
    return _filled(GaugeMetricFamily(f"gosched_{name}", text, labels=labels), values)


def _counter(name: str, text: str, labels: tuple[str, ...], values: Values) -> Metric:
    return _filled(CounterMetricFamily(f"gosched_{name}", text, labels=labels), values)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: Values) -> Metric:
    for key, value in values:
        family.add_metric(key, value)
    return family


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()  # it does not read what it asked for


def _http(status: str, body: bytes, kind: str = "text/plain; charset=utf-8") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
