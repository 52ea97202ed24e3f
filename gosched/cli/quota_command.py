"""`goschedctl quota`: list, apply, set."""

from __future__ import annotations

import sys
from typing import Any

import click

from gosched.api.json.cluster import quota_json
from gosched.cli.connect import connect, output_option, watch_option
from gosched.cli.output import Column, Json, amounts_text, emit, print_listing, say, show, spent_text
from gosched.cli.sharing_changes import knows_tries, quota_changes
from gosched.client import GoSchedClient
from gosched.core.records.tenant import Quota

_COLUMNS: list[Column] = [
    ("TENANT", lambda q: q["tenant"]),
    ("LIMIT", lambda q: amounts_text(q["limit"])),
    ("USED", lambda q: amounts_text(q["used"])),
    ("RUNNING", lambda q: f"{q['running_jobs']}/{q['max_running_jobs'] or '-'}"),
    ("SPENT", lambda q: spent_text(q["spent"])),
]


@click.group()
def command() -> None:
    """List and set quotas: what each tenant may hold in the whole cluster."""


@command.command("list")
@watch_option
@output_option
@click.pass_context
def list_quotas(ctx: click.Context, output: str, watch: bool) -> None:
    """List tenants that have a quota, hold resources, or have spent some since their first job.

    -o yaml is the `quotas:` of a config file, as `quota apply` reads them; -o json has what tenants hold, too.
    """
    client = connect(ctx)
    if output == "yaml":
        show(lambda: _as_file(client), str, output=output, watch=watch)
        return

    def fetch() -> list[Json]:
        return [quota_json(status) for status in client.list_quotas()]

    print_listing(fetch, _COLUMNS, output=output, watch=watch, noun="quota")


@command.command("apply")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.pass_context
def apply(ctx: click.Context, file: str, dry_run: bool) -> None:
    """Replace all quotas by those of FILE (- is standard input), or change nothing. What changes is printed.

    FILE has `quotas:` as in a master's config, and as `quota list -o yaml` prints them.
    """
    from gosched.config.files import read_file
    from gosched.config.load import parse_quota_file

    text = sys.stdin.buffer.read() if file == "-" else read_file(file, what="file of quotas")
    quotas = parse_quota_file(text, "standard input" if file == "-" else file)
    client = connect(ctx)
    lines = quota_changes(client.list_quotas(), quotas)
    if not dry_run:
        client.set_quotas(quotas, replace=True)
    elif knows_tries(client.get_status()):
        client.set_quotas(quotas, replace=True, dry_run=True)  # what would be refused is refused
    emit("\n".join(lines) or "unchanged")


def _as_file(client: GoSchedClient) -> Json:
    from gosched.config.queue_writer import quotas_keys

    return quotas_keys([status.quota for status in client.list_quotas()])


@command.command("set")
@click.argument("tenant")
@click.option("--cpu", metavar="N", help="Total CPUs, such as 64.")
@click.option("--mem", metavar="AMOUNT", help="Total memory, such as 1Ti.")
@click.option(
    "--gpu", "gpus", metavar="[MODEL:]N", multiple=True, help="Total GPUs, or GPUs of one model; may be repeated."
)
@click.option("--limit", "limits", metavar="NAME=AMOUNT", multiple=True, help="Limit of any resource; may be repeated.")
@click.option(
    "--max-running-jobs", metavar="N", type=click.IntRange(min=1), help="Most jobs that may run at the same time."
)
@click.pass_context
def set_quota(
    ctx: click.Context,
    tenant: str,
    cpu: str | None,
    mem: str | None,
    gpus: tuple[str, ...],
    limits: tuple[str, ...],
    max_running_jobs: int | None,
) -> None:
    """Replace the quota of TENANT; without any limit, remove it."""
    given = [("cpu", cpu, "--cpu"), ("memory", mem, "--mem"), *map(_gpu, gpus), *map(_limit, limits)]
    quota = _quota(tenant, [(name, text, flag) for name, text, flag in given if text is not None], max_running_jobs)
    changed = connect(ctx).set_quotas([quota])
    there = bool(quota.limit or quota.max_running_jobs)
    done = "quota set" if there else "no limit was given: its quota is removed"
    say(f"{tenant}: {done if changed else 'unchanged'}")


def _quota(tenant: str, given: list[tuple[str, str, str]], max_running_jobs: int | None) -> Quota:
    """Return the quota that the flags describe. Raises ConfigError, with the flag."""
    from gosched.config.queues import QuotaConfig
    from gosched.config.tree import Document
    from gosched.config.validation import validate

    value: dict[str, Any] = {"tenant": tenant, "limit": {}}
    origins: dict[tuple[str | int, ...], str] = {("tenant",): "TENANT"}
    for name, text, flag in given:
        if name in value["limit"]:
            raise click.UsageError(f"{flag}: {name} is given twice")
        value["limit"][name] = text
        origins[("limit", name)] = flag
    if max_running_jobs is not None:
        value["max_running_jobs"] = max_running_jobs
        origins[("max_running_jobs",)] = "--max-running-jobs"
    return validate(QuotaConfig, Document(value=value, source="command line", origins=origins)).record()


def _gpu(text: str) -> tuple[str, str, str]:
    model, colon, count = text.rpartition(":")
    return (f"gpu:{model}" if colon else "gpu", count, "--gpu")


def _limit(text: str) -> tuple[str, str, str]:
    name, equals, amount = text.partition("=")
    if not (name and equals):
        raise click.UsageError(f"--limit: expected NAME=AMOUNT, got {text!r}")
    return (name, amount, "--limit")
