"""`goschedctl local`: up, run."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gosched.cli.local_cluster import LocalCluster
from gosched.cli.output import emit, say

_POLL_S = 0.2


@click.group()
def command() -> None:
    """Run a whole cluster of real processes on this machine, on loopback."""


def _size_options(function: click.decorators.FC) -> click.decorators.FC:
    function = click.option(
        "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Directory of its data, kept afterwards."
    )(function)
    function = click.option("--agents", type=click.IntRange(0, 64), default=2, show_default=True)(function)
    return click.option("--masters", type=click.IntRange(1, 7), default=3, show_default=True)(function)


@command.command("up")
@_size_options
def up(masters: int, agents: int, data_dir: Path | None) -> None:
    """Run a cluster until Ctrl-C. Nothing of it is left, except --data-dir."""
    with _ends_on_signal(), LocalCluster(data_dir, masters=masters, agents=agents, protected=True) as cluster:
        say(f"ready: {masters} masters, {agents} agents; data in {cluster.data_dir}; Ctrl-C stops it")
        say(f"web page, for one browser: {cluster.page}")
        say(f"for another terminal, where the token is found in {cluster.token_file}:")
        emit(f"export GOSCHED_ENDPOINTS={cluster.endpoints}")
        emit(f"export GOSCHED_TOKEN={cluster.token}")
        sys.stdout.flush()
        _watch(cluster)


@command.command("run")
@click.argument("file", type=click.Path())
@_size_options
def run(file: str, masters: int, agents: int, data_dir: Path | None) -> int:
    """Run the job of FILE on a new cluster, follow its logs, return its exit code."""
    from gosched.cli.run_command import run_to_end
    from gosched.config import ConfigError, parse_job_file
    from gosched.config.files import read_file

    specs = parse_job_file(read_file(file, what="job file"), file)
    if len(specs) != 1:
        raise ConfigError(f"{file}: it has {len(specs)} jobs; local run takes a file with one job")
    if specs[0].cron:
        raise ConfigError(f"{file}: a schedule has no end: submit it to a cluster that keeps running")
    with (
        _ends_on_signal(),
        LocalCluster(data_dir, masters=masters, agents=agents, protected=True) as cluster,
        cluster.client() as client,
    ):
        return run_to_end(client, specs[0])
    return 130  # a signal ended it


def _watch(cluster: LocalCluster) -> None:
    """Wait until interrupted. A program that ends is reported once, and not started again."""
    reported: set[str] = set()
    while True:
        for program in cluster.programs:
            if program.exit_code is not None and program.id not in reported:
                reported.add(program.id)
                say(f"{program.id} (pid {program.pid}) ended with code {program.exit_code}: {program.last_line()}")
        time.sleep(_POLL_S)


class _Ended(KeyboardInterrupt):
    """The end of a local cluster, by SIGINT or SIGTERM."""


@contextmanager
def _ends_on_signal() -> Iterator[None]:
    """End the body at the first signal. Later signals do not disturb the teardown, whose waits are bounded."""

    def ended(number: int, frame: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise _Ended

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, ended)
    try:
        yield
    except _Ended:
        say("stopped")
