"""`goschedctl simulate TRACE`: the scheduler on a virtual clock, and a report of the result."""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from pathlib import Path

import click

from gosched.cli.output import as_data, emit, say
from gosched.config.errors import ConfigError

ALGORITHMS = ("binpack", "spread", "gang", "priority", "deadline")
ORDERS = ("fifo", "priority", "fair", "deadline")
MOST_NODES = 100_000


def _duration(ctx: click.Context, param: click.Parameter, value: str) -> int:
    from gosched.config.quantity import duration_ms

    try:
        return duration_ms(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _reservations(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    from gosched.scheduling.policy import ALL

    if value is None or value == "all":
        return None if value is None else ALL
    if not value.isdigit() or int(value) > ALL:
        raise click.BadParameter(f"expected a number or all, got {value!r}")
    return int(value)


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--nodes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of the nodes: YAML, or openb's CSV.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["openb", "swf", "swim", "yaml"]),
    help="Format of TRACE.  [default: by its file name]",
)
@click.option(
    "--algorithm",
    type=click.Choice(ALGORITHMS),
    help="Algorithm of the scheduler.  [default: the config's, else binpack]",
)
@click.option("--order", type=click.Choice(ORDERS), help="Order of queues that name none.  [default: the algorithm's]")
@click.option(
    "--reservations",
    metavar="N|all",
    callback=_reservations,
    help="How many blocked jobs get a reserved start: 1 is EASY backfill, all is conservative.",
)
@click.option("--queues", "config", metavar="FILE", help="A master's config: its queues, quotas and policy.")
@click.option("--swf-nodes", type=click.IntRange(1, MOST_NODES), help="Number of nodes for an SWF log.")
@click.option("--cpus-per-node", type=click.IntRange(1, 1_000_000), help="CPUs of each of these nodes.")
@click.option("--seed", type=click.IntRange(0, (1 << 32) - 1), default=1, show_default=True)
@click.option("--limit", type=click.IntRange(1), help="Only this many jobs, the first ones.")
@click.option("--period", default="0", callback=_duration, help="The shortest time between two cycles, such as 10s.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--html", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Write a page with plots.")
def command(
    trace: Path,
    nodes: Path | None,
    kind: str | None,
    algorithm: str | None,
    order: str | None,
    reservations: int | None,
    config: str | None,
    swf_nodes: int | None,
    cpus_per_node: int | None,
    seed: int,
    limit: int | None,
    period: int,
    output: str,
    html: Path | None,
) -> None:
    """Run a trace of jobs through the scheduler on a virtual clock.

    TRACE is a list of openb pods (CSV), an SWF log, a SWIM file (TSV) or a trace in gosched's own YAML.
    """
    from gosched.config import load_master_settings
    from gosched.core.records.queue import QueueOrder
    from gosched.replication.applier import GC_THRESHOLD
    from gosched.scheduling.policy import ALL
    from gosched.sim.cluster.page import page
    from gosched.sim.cluster.policy import policy_of
    from gosched.sim.cluster.report import as_text, report
    from gosched.sim.cluster.simulator import SimulationFailed, Simulator
    from gosched.sim.cluster.traces import Processors, read_nodes, read_text, read_trace

    if (swf_nodes is None) != (cpus_per_node is None):
        raise click.UsageError("--swf-nodes and --cpus-per-node must be given together")
    processors = None
    if swf_nodes and cpus_per_node:
        processors = Processors(nodes=swf_nodes, cpus_per_node=cpus_per_node)
    elif nodes is not None:
        processors = Processors()
    settings = load_master_settings(config, {"algorithm": algorithm})
    found = read_trace(trace, kind or "", processors)
    cluster = read_nodes(read_text(nodes), str(nodes)) if nodes is not None else found.nodes
    if not cluster:
        raise click.UsageError("the trace has no nodes: give --nodes FILE")
    jobs = found.jobs[:limit]
    policy = policy_of(settings)
    if order is not None:
        policy = replace(policy, order=QueueOrder[order.upper()])
    if reservations is not None:
        policy = replace(policy, reservations=reservations)
    gc.set_threshold(*GC_THRESHOLD)
    began = time.perf_counter()
    try:
        simulator = Simulator(
            jobs,
            cluster,
            policy,
            queues=settings.queue_records(),
            quotas=settings.quota_records(),
            seed=seed,
            period_ms=period,
        )
        recorder = simulator.run()
    except SimulationFailed as error:
        raise click.ClickException(f"{trace}: {error}") from error
    data = report(
        recorder,
        {
            "trace": trace.name,
            "nodes": len(cluster),
            "algorithm": settings.server.algorithm,
            "order": policy.order.name.lower(),
            "reservations": "all" if policy.reservations == ALL else policy.reservations,
            "seed": seed,
            "period_ms": period,
            "left_out": [list(pair) for pair in found.left_out],
        },
        time.perf_counter() - began,
    )
    if html is not None:
        try:
            html.write_text(page(data), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{html}: cannot write it: {error.strerror or error}") from error
        say(f"plots: {html}")
    emit(as_text(data) if output == "text" else as_data(data, "json"))
