"""`goschedctl top [nodes|jobs|queues]`: current usage beside what is allocated, the busiest first."""

from __future__ import annotations

from collections.abc import Callable

import click

from gosched.api.json.cluster import node_json
from gosched.api.json.usage import node_usage_json
from gosched.cli.connect import connect, listing_options, read_labels
from gosched.cli.output import Column, Json, bytes_text, percent, print_listing, seconds_text
from gosched.cli.usage_totals import job_usage_json, queue_usage_json
from gosched.client import GoSchedClient
from gosched.core.records.job import JobState

_AT_WORK = (JobState.RUNNING, JobState.SUSPENDED)


def _of(used: float | None, held: float) -> str:
    """Return `1.85/4`: the usage, of what exists or is held."""
    return f"{'-' if used is None else f'{used:.2f}'}/{f'{held:g}' if held else '-'}"


def _bytes_of(used: int | None, held: int) -> str:
    """Return `1Gi/4Gi`. Whatever runs uses memory, so 0 means that it is not measured."""
    return f"{bytes_text(used) if used else '-'}/{bytes_text(held) if held else '-'}"


def _gpus(node: Json) -> str:
    """Return `35%/4`: how busy the GPUs are on average, and how many there are."""
    total = node["resources"]["total"]["gpu"]
    gpus = node["usage"]["gpus"] if node["usage"] else []
    busy = percent(sum(gpu["busy"] for gpu in gpus) / len(gpus)) if gpus else "-"
    return f"{busy}/{total:g}" if total else ""


def _used(node: Json, key: str) -> float | None:
    return node["usage"][key] if node["usage"] else None


def _pressure(node: Json, key: str) -> str:
    return percent(node["usage"]["pressure"][key]) if node["usage"] else "-"


_NODES: list[Column] = [
    ("NODE", lambda n: n["id"]),
    ("STATE", lambda n: n["state"]),
    ("TASKS", lambda n: n["tasks"]),
    ("CPU", lambda n: _of(_used(n, "cpu"), n["resources"]["total"]["cpu"])),
    (
        "MEMORY",
        lambda n: _bytes_of(n["usage"] and n["usage"]["memory_bytes"], n["resources"]["total"]["memory_bytes"]),
    ),
    ("GPU", _gpus),
    ("CPU-WAIT", lambda n: _pressure(n, "cpu")),
    ("MEM-WAIT", lambda n: _pressure(n, "memory")),
    ("IO-WAIT", lambda n: _pressure(n, "io")),
    ("DISK", lambda n: bytes_text(n["usage"]["disk_bytes"]) if n["usage"] else "-"),
]
_NODES_WIDE: list[Column] = [
    ("HOST", lambda n: n["name"]),
    ("CPU-HELD", lambda n: n["resources"]["used"]["cpu"]),
    ("MEM-HELD", lambda n: bytes_text(n["resources"]["used"]["memory_bytes"])),
    ("SEEN", lambda n: f"{seconds_text(n['usage']['age_s'])} ago" if n["usage"] else "-"),
]
_SHARED: list[Column] = [
    ("TASKS", lambda r: r["tasks"]),
    ("CPU", lambda r: _of(r["cpu"], r["held"]["cpu"])),
    ("MEMORY", lambda r: _bytes_of(r["memory_bytes"], r["held"]["memory_bytes"])),
    ("GPU", lambda r: f"{r['held']['gpu']:g}"),
    ("CPU-TIME", lambda r: seconds_text(r["cpu_s"])),
    ("THROTTLED", lambda r: seconds_text(r["throttled_s"])),
    ("READ", lambda r: bytes_text(r["read_bytes"])),
    ("WRITTEN", lambda r: bytes_text(r["written_bytes"])),
]
_JOBS: list[Column] = [
    ("JOB", lambda j: j["id"]),
    ("NAME", lambda j: j["name"]),
    ("STATE", lambda j: j["state"]),
    *_SHARED,
]
_JOBS_WIDE: list[Column] = [
    ("QUEUE", lambda j: j["queue"]),
    ("TENANT", lambda j: j["tenant"]),
    ("PEAK", lambda j: bytes_text(j["memory_peak_bytes"]) if j["memory_peak_bytes"] else "-"),
    ("CPU-WAIT", lambda j: seconds_text(j["cpu_stalled_s"])),
    ("MEM-WAIT", lambda j: seconds_text(j["memory_stalled_s"])),
    ("IO-WAIT", lambda j: seconds_text(j["io_stalled_s"])),
]
_QUEUES: list[Column] = [
    ("QUEUE", lambda q: q["name"]),
    ("PENDING", lambda q: q["pending"]),
    ("RUNNING", lambda q: q["running"]),
    *_SHARED,
]


@click.command()
@click.argument("what", type=click.Choice(["nodes", "jobs", "queues"]), default="nodes")
@listing_options
@click.pass_context
def command(ctx: click.Context, what: str, output: str, labels: str | None, watch: bool) -> None:
    """Show what nodes (the default), jobs or queues use now, of what they have or hold; the busiest first.

    CPU and MEMORY are used/total for nodes, used/held for jobs and queues. The WAIT columns say how long tasks waited
    for a resource: for nodes as a share of the last 10 s, for jobs (-o wide) since they started. Figures come with the
    agents' heartbeats and are at most 5 s old.
    """
    wanted = read_labels(labels)
    if what == "queues" and wanted:
        raise click.UsageError("--labels: queues have no labels")
    client = connect(ctx)
    fetch, columns, wide = _listing(client, what, wanted)
    print_listing(fetch, columns, wide=wide, output=output, watch=watch)


def _listing(
    client: GoSchedClient, what: str, labels: dict[str, str]
) -> tuple[Callable[[], list[Json]], list[Column], list[Column]]:
    if what == "nodes":
        return lambda: _nodes(client, labels), _NODES, _NODES_WIDE
    if what == "jobs":
        return lambda: _jobs(client, labels), _JOBS, _JOBS_WIDE
    return lambda: _queues(client), _QUEUES, []


def _nodes(client: GoSchedClient, labels: dict[str, str]) -> list[Json]:
    """Return the rows of `node list`, with `usage`: null before the first heartbeat."""
    usage = {node.node_id: node_usage_json(node) for node in client.list_usage().nodes}
    rows = [{**node_json(node), "usage": usage.get(node.node.id)} for node in client.list_nodes(labels=labels)]
    return sorted(rows, key=lambda n: (-(_used(n, "cpu") or 0), str(n["id"])))


def _jobs(client: GoSchedClient, labels: dict[str, str]) -> list[Json]:
    jobs = client.list_jobs(states=_AT_WORK, labels=labels)
    rows = job_usage_json(jobs, client.list_usage(tasks=True).tasks)
    return sorted(rows, key=lambda j: (-j["cpu"], -j["memory_bytes"], str(j["id"])))


def _queues(client: GoSchedClient) -> list[Json]:
    """Return the queues in the order of `queue list`; a parent shows the sums of its children."""
    jobs = job_usage_json(client.list_jobs(states=_AT_WORK), client.list_usage(tasks=True).tasks)
    return queue_usage_json(client.get_status().queues, jobs)
