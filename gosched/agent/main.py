"""`gosched-agent`: reads the settings, puts the parts together, and runs until it is told to end.

Invariant: ending the agent, in whatever way, ends no task.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import NoReturn

import click
import grpc
import structlog

from gosched import __version__
from gosched.agent.datadir import DataDir, DataDirError
from gosched.agent.exec.streams import Execs
from gosched.agent.hardware.disk import Disk, watch
from gosched.agent.hardware.vitals import Vitals
from gosched.agent.host import CannotStart, Host
from gosched.agent.join import Joining, begin_joining, join
from gosched.agent.listening import advertised, bind
from gosched.agent.logs.kept import Bounds, KeptLogs
from gosched.agent.logs.upload import Uploads
from gosched.agent.masters import Connector, MastersOnly, watched_tls
from gosched.agent.metrics import AgentFacts, AgentMetrics
from gosched.agent.renewal import Renewal
from gosched.agent.revoked import RevokedMasters
from gosched.agent.server import MAX_MESSAGE_BYTES, WorkerService
from gosched.agent.session import MasterRefused, NodeIdInUse, Session
from gosched.agent.spark_progress import SparkProgresses
from gosched.agent.tasks.following import Following
from gosched.agent.tasks.table import Tasks
from gosched.agent.tasks.task import Task
from gosched.agent.tasks.tracing import TaskTraces
from gosched.agent.upkeep import call_soon, clean, in_thread, look_after, until_first, watch_data_dir
from gosched.archive.store import ArchiveError, LogArchive
from gosched.config import AgentSettings, ConfigError, Listen, load_agent_settings
from gosched.config.address import open_warning, split_address
from gosched.config.load import JOIN_VARIABLE
from gosched.core.commands.nodes import RegisterNode
from gosched.core.reasons import Reason
from gosched.logs import process as process_log
from gosched.observe.health_port import HealthPort
from gosched.observe.tracing import open_spans
from gosched.wire.addresses import RECONNECT, AddressBook
from gosched.wire.grpc_tls import SERVER_OPTIONS
from gosched.wire.role_rules import reader_of
from gosched.wire.shared_token import SharedToken
from gosched.wire.tls_watch import TlsWatch
from gosched.wire.v1 import worker_pb2_grpc

UMASK = 0o022  # whatever it was started with; what is private is made so by its own mode

_MESSAGE_SIZES: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
]
# Streams of a master that is gone end soon.
_SERVER_OPTIONS = [
    *_MESSAGE_SIZES,
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
]
# A fresh connection each time, and never a long pause of gRPC's own before the next try.
_CHANNEL_OPTIONS = [
    *_MESSAGE_SIZES,
    ("grpc.use_local_subchannel_pool", 1),
    *RECONNECT,
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--master", help="Masters to report to, HOST:PORT[,HOST:PORT...].")
@click.option("--labels", help="Labels of this node, KEY=VALUE[,KEY=VALUE...].")
@click.option("--taints", help="Taints of this node, KEY=VALUE:EFFECT[,KEY:EFFECT...], such as gpu=true:no_schedule.")
@click.option("--config", help="Config file (YAML); flags and GOSCHED_... override it.")
@click.option("--data-dir", help="Where this node keeps its id, its tasks and their logs.")
@click.option("--grpc-addr", help="Where the agent listens; port 0 is a free one.  [default: 127.0.0.1:0]")
@click.option("--http-addr", help="Where `/metrics` are served, such as :9102; nowhere by default.")
@click.option("--health-addr", help="Where probes of containers ask, such as :9091; none by default.")
@click.option("--advertise-addr", help="HOST[:PORT] under which the masters reach the agent.")
@click.option("--resources", help="What the node offers, such as cpu=8,memory=16Gi,gpu=8,fpga=2; the rest is found.")
@click.option("--gpu-model", help="Model of the GPUs, such as h100.")
@click.option("--tls-cert", help="Certificate (PEM) that the agent shows.")
@click.option("--tls-key", help="Key (PEM) of the certificate.")
@click.option("--tls-ca", help="Authority (PEM) that signed the masters' certificates.")
@click.option(
    "--join",
    "join_token",
    metavar="TOKEN|@FILE|-",
    help="Get a certificate with this token, in a file or from standard input; --master then names where agents join.",
)
@click.option("--insecure", is_flag=True, default=None, help="Listen beyond loopback without TLS.")
@click.option("--log-format", help="json, or console: text for people.")
@click.option("--log-level", help="debug, info, warning or error.")
@click.version_option(__version__, prog_name="gosched-agent")
def main(config: str | None, join_token: str | None, **flags: object) -> None:
    """Runs tasks on this machine for the masters of a gosched cluster."""
    try:
        in_environment = os.environ.pop(JOIN_VARIABLE, "")  # no program that this one starts sees it
        given = in_environment if join_token is None else join_token
        settings, joining = begin_joining(load_agent_settings(config, flags), given)
        listen, listens = settings.grpc_listen(), settings.listens()
        os.umask(UMASK)
        process_log.begin(form=settings.logging.format, level=settings.shown_level)
        for line in (*[each.notice for each in listens], open_warning(listens)):
            if line:
                structlog.get_logger().warning(line)
        while asyncio.run(run(settings, listen, lambda: load_agent_settings(config, flags), joining)):
            pass  # under another id
    except (ConfigError, DataDirError, CannotStart) as error:
        _fail(2, str(error))
    except MasterRefused as error:
        _fail(1, f"the masters refuse this node: {error}")


async def run(
    settings: AgentSettings, listen: Listen, read_again: Callable[[], AgentSettings], joining: Joining | None
) -> bool:
    """Run until SIGTERM or SIGINT; at SIGHUP the level of the log is read again. Return True to be run again: this new
    node has taken another id, since another agent of the host has the host's name. Raises what `main` turns into a line
    and an exit code."""
    asked_to_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_end.set)
    loop.add_signal_handler(signal.SIGHUP, _reload, read_again, None)
    data_dir = DataDir(Path(settings.data_dir).absolute())
    if logging := process_log.current():
        logging.bind(node=data_dir.node_id)
    log = structlog.get_logger()
    async with AsyncExitStack() as closing:
        closing.callback(data_dir.close)
        hosts = [split_address(advertised(settings, listen, 1))[0]]
        if joining is not None:
            await until_first(asked_to_end.wait(), join(joining, settings, data_dir, hosts))
            if asked_to_end.is_set():
                return False
            if logging:  # joining may have changed it
                logging.bind(node=data_dir.node_id)
            settings = settings.model_copy(update={"masters": joining.files.masters() or settings.masters})
        tls = watched_tls(settings.tls, (socket.gethostname(), data_dir.node_id))
        loop.add_signal_handler(signal.SIGHUP, _reload, read_again, tls)
        cluster = tls.current.holder.cluster if tls else ""
        revoked = RevokedMasters(data_dir.path / "revoked.json")
        token = settings.shared_token()
        shared = SharedToken(token) if token else None
        only_masters = MastersOnly(
            cluster, tls=tls is not None, revoked=revoked.holds, roles=reader_of(settings.tls), shared=shared
        )
        options = [*_SERVER_OPTIONS, *(SERVER_OPTIONS if tls else ())]
        server = grpc.aio.server(options=options, interceptors=[only_masters])
        port = bind(server, tls, listen)
        host = Host.open(settings, data_dir)
        closing.callback(host.close)
        changed, joined = asyncio.Event(), asyncio.Event()
        disk = Disk(data_dir.path, settings.disk_free_pct)
        vitals = Vitals(disk, host.gpus, lambda: call_soon(loop, changed.set))
        vitals.start()
        closing.callback(vitals.close)
        metrics = AgentMetrics(__version__, vitals, lambda: _facts(host, tasks, kept_logs))
        spans = open_spans(settings, part="agent", instance=data_dir.node_id, version=__version__)
        if spans:
            closing.push_async_callback(asyncio.to_thread, spans.close)
        traces = TaskTraces(spans, data_dir.node_id) if spans else None
        following = Following(
            data_dir.node_id,
            joined,
            changed.set,
            partial(_started, metrics, traces),
            lambda task: _ended(metrics, vitals, tasks, traces, task),
        )
        kept_logs = KeptLogs(data_dir.logs, data_dir.trash, _bounds(settings))
        uploads = _uploads(settings, kept_logs, data_dir)
        tasks = Tasks(data_dir, host.starter, following, kept_logs, settings.work_max_bytes)
        closing.push_async_callback(tasks.close)
        spark = SparkProgresses(tasks)
        incarnation = secrets.token_hex(8)
        address = advertised(settings, listen, port)
        kept_logs.load()
        tasks.load()
        execs = Execs()
        closing.push_async_callback(execs.close)
        service = WorkerService(tasks, execs, data_dir, incarnation=incarnation, ask=changed.set)
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(service, server)
        await server.start()
        closing.push_async_callback(server.stop, 0.5)
        await _serve_metrics(settings, tls, metrics, closing)
        await _serve_health(settings, data_dir, closing)
        book = AddressBook(
            data_dir.path / "addresses.json",
            unsaved=lambda why: log.warning("addresses of masters are not kept", why=why),
        )
        connector = Connector(tls, cluster, _CHANNEL_OPTIONS, revoked.holds, book, token)
        session = Session(
            partial(_described, settings, data_dir, host, incarnation, address),
            settings.masters,
            connector,
            tasks,
            kept_logs,
            data_dir,
            changed,
            joined,
            vitals,
            heartbeat_ms=settings.heartbeat_ms,
            why=connector.why,
            is_outdated=lambda: connector.is_outdated,
            revoked=revoked,
            spark=spark.now,
        )
        renewal: Renewal | None = None
        if joining is not None and tls is not None:
            dial = Connector(tls, cluster, _CHANNEL_OPTIONS, revoked.holds, book)
            renewal = Renewal(joining.files, tls, dial, settings.masters, tls.current.holder.name, hosts)
        log.info("agent started", address=address)
        if host.isolation:
            log.warning("isolation is incomplete", missing=host.isolation)
        host.log_problems()
        keep_s = settings.keep_finished_ms / 1000
        try:
            await until_first(
                asked_to_end.wait(),
                _join(session, host),
                watch_data_dir(data_dir),
                clean(tasks, keep_s),
                watch(tasks, disk, keep_s),
                look_after(joined, host, tasks),
                spark.run(),
                *([uploads.run(tasks.keep_logs)] if uploads else []),
                *([tls.watch()] if tls else []),
                *([renewal.run()] if renewal else []),
            )
        except NodeIdInUse as error:
            if joining is not None or not data_dir.take_another_id():
                raise
            log.warning("another agent has this node's id: it takes another one", why=str(error), id=data_dir.node_id)
            return True
        await session.goodbye()
    log.info("agent ended; its tasks go on")
    return False


def _reload(read_again: Callable[[], AgentSettings], tls: TlsWatch | None) -> None:
    """Take over the level of the log from the config, whose rest needs a restart; look at the TLS files at once."""
    if tls:
        tls.ask()
    log = structlog.get_logger()
    try:
        level = read_again().shown_level
    except ConfigError as error:
        log.error("the config was read again and changes nothing", why=str(error))
        return
    if logging := process_log.current():
        logging.set_level(level)
    log.info("config read again: the log's level is taken over, the rest needs a restart", log_level=level)


def _bounds(settings: AgentSettings) -> Bounds:
    logs = settings.logs
    return Bounds(keep_ms=logs.keep_ms, max_bytes=logs.max_bytes, archives=settings.archive is not None)


def _uploads(settings: AgentSettings, kept_logs: KeptLogs, data_dir: DataDir) -> Uploads | None:
    """Return what copies logs into the archive, if one is configured. Raises CannotStart."""
    if settings.archive is None:
        return None
    try:
        archive = LogArchive(settings.archive)
    except ArchiveError as error:
        raise CannotStart(str(error)) from error
    return Uploads(kept_logs, archive, lambda: data_dir.cluster_id, data_dir.path / "upload")


async def _serve_metrics(
    settings: AgentSettings, tls: TlsWatch | None, metrics: AgentMetrics, closing: AsyncExitStack
) -> None:
    listen = settings.http_listen()
    if listen is not None:
        closing.push_async_callback(metrics.close)
        await metrics.serve(listen, tls)


async def _serve_health(settings: AgentSettings, data_dir: DataDir, closing: AsyncExitStack) -> None:
    """Answer probes. A node that the masters count on is ready."""
    if listen := settings.health_listen():
        health = HealthPort(listen, key="health_addr", live=lambda: True, ready=lambda: not data_dir.lease_is_over)
        await health.start()
        closing.push_async_callback(health.stop)


def _started(metrics: AgentMetrics, traces: TaskTraces | None, task: Task) -> None:
    if traces:
        traces.started(task)
    if task.ordered_at_ms:
        seconds = max(0, task.started_at_ms - task.ordered_at_ms) / 1000
        metrics.observe_start(seconds, task.order.runtime.name.lower())


def _ended(metrics: AgentMetrics, vitals: Vitals, tasks: Tasks, traces: TaskTraces | None, task: Task) -> None:
    if traces:
        traces.ended(task)
    if task.ending is not None:
        metrics.observe_end(task.ending.usage)
        if task.ending.reason == Reason.NODE_FAULT:
            vitals.note_fault(task.ending.detail)
    tasks.release(task)
    if task.order.cpus or task.order.isolation.memory_low_bytes:
        tasks.share()


def _facts(host: Host, tasks: Tasks, kept_logs: KeptLogs) -> AgentFacts:
    kept = Counter((task.order.runtime.name.lower(), task.state.name.lower()) for task in tasks.all())
    return AgentFacts(
        tasks=kept,
        live=tuple([task.usage for task in tasks.running()]),
        orphan_cgroups=len(host.orphans(tasks.names())),
        kept_log_bytes=kept_logs.size_bytes,
        unarchived_logs=kept_logs.unarchived,
        missing=host.missing(),
    )


async def _join(session: Session, host: Host) -> NoReturn:
    """End what no agent can adopt any more, before the masters count on what it uses; then run. Raises
    MasterRefused."""
    await in_thread(host.end_orphans)
    await session.run()


def _described(settings: AgentSettings, data_dir: DataDir, host: Host, incarnation: str, address: str) -> RegisterNode:
    """Return what this node is and offers at this moment."""
    return RegisterNode(
        node_id=data_dir.node_id,
        incarnation=incarnation,
        name=socket.gethostname(),
        address=address,
        capacity=host.offer.capacity,
        gpu_model=host.offer.gpu_model,
        labels=host.labels,
        taints=settings.taint_records(),
        hardware=host.hardware(),
        isolation=host.isolation,
        numbered=True,
    )


def _fail(code: int, line: str) -> None:
    process_log.say(f"gosched-agent: {line}")
    sys.exit(code)
