"""`gosched-kube`: reads the settings, puts the parts together, and runs until it is told to end.

Invariant: ending the bridge ends no pod.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from typing import NoReturn

import click
import grpc
import structlog

from gosched import __version__
from gosched.agent.host import CannotStart
from gosched.agent.listening import advertised, bind
from gosched.agent.masters import Connector, MastersOnly, watched_tls
from gosched.agent.upkeep import until_first
from gosched.client import GoSchedError
from gosched.client.aio.client import AsyncGoSchedClient
from gosched.config import AgentSettings, ConfigError, load_agent_settings
from gosched.config.address import open_warning
from gosched.integrations.kubernetes.api import CannotConnect, KubeApi
from gosched.integrations.kubernetes.bridge import Bridge, serve
from gosched.integrations.kubernetes.lease import Lease, LeaseLost
from gosched.logs import process as process_log
from gosched.wire.grpc_tls import SERVER_OPTIONS
from gosched.wire.role_rules import reader_of

NAME = "gosched-kube"
MAX_MESSAGE_BYTES = 64 << 20
GC_THRESHOLD = (100_000, 20, 100)  # pods are many, live long, and are in no cycles
_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.enable_http_proxy", 0),
]
_SERVER_OPTIONS = [*_OPTIONS, ("grpc.so_reuseport", 0), *SERVER_OPTIONS]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--master", help="Masters to report to, HOST:PORT[,HOST:PORT...].")
@click.option("--kubeconfig", default="", help="Of the API server; without it, that of the pod this runs in.")
@click.option("--context", default="", help="Of the kubeconfig; its current one by default.")
@click.option("--scheduler-name", default="gosched", show_default=True, help="Pods that name it are placed.")
@click.option("--cluster", default="kubernetes", show_default=True, help="Name of the Kubernetes cluster.")
@click.option("--queue", default="default", show_default=True, help="Queue of pods that name none.")
@click.option("--config", help="Config file (YAML) as an agent's; flags and GOSCHED_... override it.")
@click.option("--grpc-addr", help="Where the leader sends its orders; port 0 is a free one.  [default: 127.0.0.1:0]")
@click.option("--advertise-addr", help="HOST[:PORT] under which the masters reach this program.")
@click.option("--tls-cert", help="Certificate (PEM) that it shows the masters: of an agent, for any node.")
@click.option("--tls-key", help="Key (PEM) of the certificate.")
@click.option("--tls-ca", help="Authority (PEM) that signed the masters' certificates.")
@click.option("--insecure", is_flag=True, default=None, help="Listen beyond loopback without TLS.")
@click.option("--log-format", help="json, or console: text for people.")
@click.option("--log-level", help="debug, info, warning or error.")
@click.version_option(__version__, prog_name=NAME)
def main(
    kubeconfig: str, context: str, scheduler_name: str, cluster: str, queue: str, config: str | None, **flags: object
) -> None:
    """Places pods of a Kubernetes cluster that name it as their scheduler.

    Without TLS it submits jobs to the masters of --master; with TLS as goschedctl would here: by GOSCHED_ENDPOINTS and
    a token, or by the current context.
    """
    try:
        settings = load_agent_settings(config, flags)
        process_log.begin(form=settings.logging.format, level=settings.shown_level)
        if line := open_warning([settings.grpc_listen()]):
            structlog.get_logger().warning(line)
        asyncio.run(
            _run(settings, kubeconfig or os.environ.get("KUBECONFIG", ""), context, scheduler_name, cluster, queue)
        )
    except (ConfigError, CannotStart, CannotConnect, GoSchedError, LeaseLost) as error:
        _fail(str(error))


async def _run(
    settings: AgentSettings, kubeconfig: str, context: str, scheduler: str, cluster: str, queue: str
) -> None:
    asked_to_end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_end.set)
    listen = settings.grpc_listen()
    tls = watched_tls(settings.tls, (cluster, cluster))
    of_masters = tls.current.holder.cluster if tls else ""
    only_masters = MastersOnly(of_masters, tls=tls is not None, revoked=_none, roles=reader_of(settings.tls))
    server = grpc.aio.server(options=_SERVER_OPTIONS, interceptors=[only_masters])
    address = advertised(settings, listen, bind(server, tls, listen))
    api = await KubeApi.open(kubeconfig, context)
    client = AsyncGoSchedClient(None if tls else ",".join(settings.masters))
    # Where the port is a fixed one, whoever starts again on this host is the holder that ended, and need not wait.
    lease = Lease(api, f"{NAME}-{scheduler}", f"{socket.gethostname()} {address}")
    bridge = Bridge(
        api,
        client,
        settings.masters,
        Connector(tls, of_masters, _OPTIONS, _none),
        scheduler=scheduler,
        cluster=cluster,
        queue=queue,
        address=address,
        heartbeat_ms=settings.heartbeat_ms,
        holds=lease.holds,
    )
    gc.set_threshold(*GC_THRESHOLD)
    gc.freeze()  # what is loaded now stays: the collector need not walk it again
    try:
        await until_first(asked_to_end.wait(), _lead(lease, bridge, server), *([tls.watch()] if tls else []))
    finally:
        await lease.release()
        await client.close()
        await api.close()
    structlog.get_logger().info("bridge ended; its pods go on")


async def _lead(lease: Lease, bridge: Bridge, server: grpc.aio.Server) -> None:
    """Run the bridge for as long as it holds the lease."""
    await lease.acquire()
    await until_first(lease.keep(), serve(bridge, server))


def _none(serial: str) -> bool:
    """Return whether a certificate is known to be revoked: the bridge keeps no list of these."""
    return False


def _fail(line: str) -> NoReturn:
    process_log.say(f"{NAME}: {line}")
    sys.exit(2)
