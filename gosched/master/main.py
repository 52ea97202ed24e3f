"""`gosched-master`: flags to settings, settings to a running master, signals to a clean end or a config read again.

Exit codes: 0 after SIGTERM or SIGINT, 1 when it cannot go on, 2 when it cannot start; each with one line on stderr.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import structlog

from gosched import __version__
from gosched.config import ConfigError, MasterSettings, load_master_settings
from gosched.config.address import open_warning
from gosched.config.private import close_directory
from gosched.logs import process as process_log
from gosched.logs.failures import exhausted
from gosched.master.server import MasterServer
from gosched.replication.applier import GC_THRESHOLD
from gosched.replication.interface import ReplicaFailed

CANNOT_START = 2
CANNOT_GO_ON = 1
MAX_FILES = 65_536
PRIVATE_UMASK = 0o077  # of all files that this process and its replica make, the history's database among them
SWITCH_INTERVAL_S = 0.0002  # the planner computes in a thread beside the event loop


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", "config_path", metavar="FILE", help="YAML file; flags and environment override it.")
@click.option("--grpc-addr", metavar="ADDR", help="Where gRPC listens, such as :9090.")
@click.option("--http-addr", metavar="ADDR", help="Where HTTP listens, such as :8080.")
@click.option("--token-addr", metavar="ADDR", help="Where gRPC takes callers with tokens and no certificate.")
@click.option("--health-addr", metavar="ADDR", help="Where probes of containers ask, such as :9091; none by default.")
@click.option(
    "--probe-addr", metavar="ADDR", help="Where /healthz, /readyz, /metrics are served in plain text; none by default."
)
@click.option("--advertise-host", metavar="HOST", help="What others call this machine.")
@click.option("--algorithm", metavar="NAME", help="binpack, spread, gang, priority or deadline.")
@click.option("--schedule-period", metavar="TIME", help="The longest wait between two cycles, such as 1s.")
@click.option("--data-dir", metavar="DIR", help="Where the log and the snapshots are.")
@click.option("--node-id", metavar="ID", help="This member's id in the replicated log.")
@click.option("--raft-bind-addr", metavar="ADDR", help="Where this member listens for its peers.")
@click.option("--peers", metavar="LIST", help="The other members: host:port or id=host:port, with commas.")
@click.option("--bootstrap/--no-bootstrap", default=None, help="Found the cluster, or join one that exists.")
@click.option("--restore", metavar="FILE", help="Fill the empty data directory from a backup, and end.")
@click.option("--tasks", type=click.Choice(["adopt", "lost"]), help="With --restore: what becomes of what ran then.")
@click.option("--new-cluster", metavar="NAME", help="With --restore: the same on all masters of the new cluster.")
@click.option("--passphrase-file", metavar="FILE", help="With --restore: of an encrypted backup.")
@click.option("--key-file", metavar="FILE", help="With --restore: of a backup encrypted with a key.")
@click.option("--restore-from", metavar="DIR", help="Fill the empty data directory from another master's, and end.")
@click.option("--yes-i-lost", metavar="WORDS", help="With --restore-from: the words that it would ask for.")
@click.option("--skip-command", metavar="MARK", help="Skip a command that met a bug, and end; see troubleshooting.md.")
@click.option("--insecure", is_flag=True, default=None, help="Listen without TLS on addresses that are not loopback.")
@click.option("--tls-cert", metavar="FILE", help="PEM file of this master's certificate.")
@click.option("--tls-key", metavar="FILE", help="PEM file of its key.")
@click.option("--tls-ca", metavar="FILE", help="PEM file of the authority that signs all certificates.")
@click.option("--admins", metavar="LIST", help="Users, or group:NAME, that are administrators, with commas.")
@click.option("--log-format", metavar="FORMAT", help="json, or console: text for people.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
@click.version_option(__version__, prog_name="gosched-master")
def main(config_path: str | None, raft_bind_addr: str | None, **flags: object) -> None:
    """A master of a gosched cluster.

    With --restore, --restore-from or --skip-command it does not run: docs/operations says when to use which.
    """
    flags["bind_addr"] = raft_bind_addr
    from gosched.master.backups.restoration import Restoration, skip_command  # it brings pysyncobj along

    asked = Restoration(**{name: flags.pop(name) for name in Restoration.FLAGS})  # type: ignore[arg-type]
    skipped = flags.pop("skip_command")
    if flags.get("peers"):
        flags["raft_enabled"] = True
    try:
        read = partial(load_master_settings, config_path, flags)
        settings = read()
        _check_data_dir(settings.data_dir)
        os.umask(PRIVATE_UMASK)
        process_log.begin(form=settings.logging.format, level=settings.shown_level, master=settings.raft.node_id)
        if asked.is_wanted:
            process_log.say(f"gosched-master: {asked.carry_out(settings)}")
            code = 0
        elif skipped:
            process_log.say(f"gosched-master: {skip_command(settings, str(skipped))}")
            code = 0
        else:
            code = asyncio.run(serve(settings, read))
    except (ConfigError, ReplicaFailed) as error:
        process_log.say(f"gosched-master: {error}")
        code = CANNOT_START
    except (MemoryError, OSError, RuntimeError) as error:
        if not (why := exhausted(error)):
            raise
        process_log.say(f"gosched-master: {why}")
        code = CANNOT_GO_ON
    sys.stdout.flush()
    sys.exit(code)


async def serve(settings: MasterSettings, read_again: Callable[[], MasterSettings]) -> int:
    """Run a master until a signal, or until it fails; at SIGHUP its config is read again.

    Raises ConfigError and ReplicaFailed before it is ready.
    """
    from gosched.replication.process import ProcessReplication  # these bring pysyncobj along
    from gosched.replication.replica_config import ReplicaConfig

    for listen in settings.listens():
        if listen.notice:
            process_log.say(f"gosched-master: {listen.notice}")
    if warning := open_warning(settings.listens()):
        structlog.get_logger().warning(warning)
    _allow_files()
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[str] = loop.create_future()  # empty: a signal
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _resolve, ended, "")
    sys.setswitchinterval(SWITCH_INTERVAL_S)

    replication = ProcessReplication(ReplicaConfig.from_settings(settings))
    replication.on_failure = lambda detail: _resolve(ended, detail)
    server = MasterServer(settings, replication, read_again=read_again)
    loop.add_signal_handler(signal.SIGHUP, server.reload)
    try:
        await server.start()
        if settings.tls and not settings.access.admins:
            process_log.say("gosched-master: access.admins names nobody: only bindings make administrators")
        gc.set_threshold(*GC_THRESHOLD)
        gc.freeze()  # what is loaded now stays: the collector need not walk it again
        where = f"gRPC {server.record.grpc_address}, HTTP {server.record.http_address}"
        click.echo(f"gosched-master {server.record.id} ready: {where}")
        sys.stdout.flush()
        server.on_failure = lambda detail: _resolve(ended, detail)
        failure = await ended
        if not failure:
            await server.hand_over()
            return 0
        process_log.say(f"gosched-master: {failure}")
        return CANNOT_GO_ON
    finally:
        await server.stop()


def _allow_files() -> None:
    """Open as many files as the system lets this process: connections are bounded by a part of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _resolve(ended: asyncio.Future[str], detail: str) -> None:
    if not ended.done():
        ended.set_result(detail)


def _check_data_dir(data_dir: str) -> None:
    """Raise ConfigError unless files can be made in the data directory, by this user alone."""
    probe = Path(data_dir) / f".probe-{uuid.uuid4().hex}"
    try:
        Path(data_dir).mkdir(parents=True, exist_ok=True, mode=0o700)
        problem = close_directory(Path(data_dir))
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise ConfigError(f"data_dir: cannot write in {data_dir}: {os.strerror(error.errno or 0)}") from error
    if problem:
        raise ConfigError(f"data_dir: {problem}")


if __name__ == "__main__":
    main()
