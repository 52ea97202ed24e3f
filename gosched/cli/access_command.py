"""`goschedctl access`: apply, list, can-i."""

from __future__ import annotations

import sys

import click

from gosched.api.json.access import access_check_json, binding_json
from gosched.cli.connect import connect, output_option, watch_option
from gosched.cli.output import Column, Json, amounts_text, as_data, emit, print_listing, show
from gosched.cli.sharing_changes import change_lines
from gosched.client import GoSchedClient
from gosched.core.records.access import Binding

_COLUMNS: list[Column] = [
    ("BINDING", lambda b: b["name"]),
    ("ROLE", lambda b: b["role"]),
    ("USERS", lambda b: ",".join(b["users"]) or "-"),
    ("GROUPS", lambda b: ",".join(b["groups"]) or "-"),
    ("TENANTS", lambda b: ",".join(b["tenants"]) or "all"),
    ("QUEUES", lambda b: ",".join(b["queues"]) or "all"),
    ("ACCOUNTS", lambda b: ",".join(b["accounts"]) or "-"),
    ("CEILING", lambda b: amounts_text(b["ceiling"])),
]


@click.group()
def command() -> None:
    """List and set who may do what: bindings of roles to users and groups."""


@command.command("list")
@watch_option
@output_option
@click.pass_context
def list_bindings(ctx: click.Context, output: str, watch: bool) -> None:
    """List the bindings, and what the masters' config grants.

    -o yaml is what `access apply` reads.
    """
    client = connect(ctx)
    if output == "yaml":
        show(lambda: _as_file(client), str, output=output, watch=watch)
        return
    print_listing(lambda: _rows(client), _COLUMNS, output=output, watch=watch, noun="binding")


@command.command("apply")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.pass_context
def apply(ctx: click.Context, file: str, dry_run: bool) -> None:
    """Replace all bindings by those of FILE (- is standard input), or change nothing. What changes is printed.

    FILE has `bindings:`, as `access list -o yaml` prints them. What the masters' config grants stays.
    """
    from gosched.config.access_file import binding_keys, parse_bindings
    from gosched.config.files import read_file

    text = sys.stdin.buffer.read() if file == "-" else read_file(file, what="file of bindings")
    bindings = parse_bindings(text, "standard input" if file == "-" else file)
    client = connect(ctx)
    held = client.list_bindings()
    before = {binding.name: binding_keys(binding) for binding in held.bindings}
    lines = change_lines("binding", before, {binding.name: binding_keys(binding) for binding in bindings})
    client.set_bindings(bindings, dry_run=dry_run, if_match=held.etag)
    emit("\n".join(lines) or "unchanged")


@command.command("can-i")
@click.argument("permission", required=False)
@click.option("--tenant", default="", help="In this tenant.")
@click.option("--queue", default="", help="In this queue.")
@click.option("--job", default="", metavar="JOB", help="On this job.")
@click.option("--user", default="", help="Ask for another user; needs the permission grant.")
@click.option("--group", "groups", multiple=True, help="A group of that user; may be repeated.")
@click.option("-o", "--output", type=click.Choice(("text", "json", "yaml")), default="text", show_default=True)
@click.pass_context
def can_i(
    ctx: click.Context,
    permission: str | None,
    tenant: str,
    queue: str,
    job: str,
    user: str,
    groups: tuple[str, ...],
    output: str,
) -> None:
    """Say whether you have PERMISSION, such as submit; without it, who you are.

    Exits with 1 if you have not. Permissions: view, view-job, read-logs, exec, submit, change-job, set-quota,
    set-queue, set-secret, use-secret, operate, administer, grant.
    """
    found = connect(ctx).check_access(
        permission or "", tenant=tenant, queue=queue, job=job, user=user, groups=list(groups)
    )
    if output != "text":
        emit(as_data(access_check_json(found), output))
    elif not found.user:
        emit("yes: the cluster has no TLS, and every caller may do everything")
    else:
        who = f"user {found.user}, groups {', '.join(found.groups) or '-'}, roles {', '.join(found.roles) or '-'}"
        verdict = f"yes: binding {found.by}" if found.allowed else "no"
        emit(f"{verdict} ({who})" if permission else who)
    if permission and not found.allowed:
        ctx.exit(1)


def _rows(client: GoSchedClient) -> list[Json]:
    held = client.list_bindings()
    fixed = [held.from_config] if held.from_config.users or held.from_config.groups else []
    bindings: list[Binding] = [*fixed, *held.bindings]
    return [binding_json(binding) for binding in bindings]


def _as_file(client: GoSchedClient) -> Json:
    from gosched.config.access_file import bindings_keys

    return bindings_keys(client.list_bindings().bindings)
