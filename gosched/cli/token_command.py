"""`goschedctl token`: create, list, revoke."""

from __future__ import annotations

import click

from gosched.api.json.access import new_token_json, token_json
from gosched.cli.connect import connect, output_option, read_duration_s, watch_option
from gosched.cli.output import Column, as_data, emit, print_listing, say
from gosched.config.errors import ConfigError

_COLUMNS: list[Column] = [
    ("ID", lambda t: t["id"]),
    ("NAME", lambda t: t["name"]),
    ("USER", lambda t: t["user"]),
    ("ROLE", lambda t: t["role"]),
    ("TENANTS", lambda t: ",".join(t["tenants"]) or "all"),
    ("QUEUES", lambda t: ",".join(t["queues"]) or "all"),
    ("EXPIRES", lambda t: t["expires_at"] or "-"),
]


@click.group()
def command() -> None:
    """Make, list and revoke tokens: secrets with which programs call on your behalf."""


@command.command("create")
@click.argument("name")
@click.option("--role", required=True, metavar="ROLE", help="The most that it may: a role such as submitter.")
@click.option("--tenant", "tenants", multiple=True, help="Only in this tenant; may be repeated.")
@click.option("--queue", "queues", multiple=True, help="Only in this queue and below it; may be repeated.")
@click.option("--lasts", default="30d", show_default=True, metavar="TIME", help="When it ends; at most 366d.")
@click.option("--user", default="", help="On behalf of another user; needs the permission grant.")
@click.option("--group", "groups", multiple=True, help="A group of that user; may be repeated.")
@click.option("-o", "--output", type=click.Choice(("text", "json", "yaml")), default="text", show_default=True)
@click.pass_context
def create(
    ctx: click.Context,
    name: str,
    role: str,
    tenants: tuple[str, ...],
    queues: tuple[str, ...],
    lasts: str,
    user: str,
    groups: tuple[str, ...],
    output: str,
) -> None:
    """Make a token and print its secret, once: it cannot be had again.

    What you may not, it may not either.
    """
    from gosched.config.access_file import read_role

    try:
        wanted = read_role(role)
    except ValueError as error:
        raise ConfigError(f"--role: {error}") from None
    lasts_s = read_duration_s(lasts, "--lasts") or 0
    made = connect(ctx).create_token(
        name, wanted, int(lasts_s * 1000), tenants=list(tenants), queues=list(queues), user=user, groups=list(groups)
    )
    if output != "text":
        emit(as_data(new_token_json(made), output))
        return
    say(f"token {made.token.id} of {made.token.user}: keep what follows, it cannot be shown again")
    emit(made.secret)


@command.command("list")
@watch_option
@output_option
@click.pass_context
def list_tokens(ctx: click.Context, output: str, watch: bool) -> None:
    """List your tokens that have not ended; those of all users if you may grant."""
    client = connect(ctx)
    print_listing(
        lambda: [token_json(token) for token in client.list_tokens()],
        _COLUMNS,
        output=output,
        watch=watch,
        noun="token",
    )


@command.command("revoke")
@click.argument("id")
@click.pass_context
def revoke(ctx: click.Context, id: str) -> None:
    """End the token of this ID at once; streams that were opened with it end, too."""
    connect(ctx).revoke_token(id)
    say(f"token {id} revoked")
