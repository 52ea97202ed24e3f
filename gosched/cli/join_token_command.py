"""`goschedctl node join-token`: create, list, revoke."""

from __future__ import annotations

import click

from gosched.api.json.join import join_token_json, new_join_token_json
from gosched.cli.connect import connect, output_option, read_duration_s, watch_option
from gosched.cli.output import Column, as_data, emit, print_listing, say
from gosched.config.errors import ConfigError

_COLUMNS: list[Column] = [
    ("ID", lambda t: t["id"]),
    ("NAME", lambda t: t["name"]),
    ("NODE", lambda t: t["node"] or "any new one"),
    ("LABELS", lambda t: ",".join(f"{key}={value}" for key, value in t["labels"].items()) or "-"),
    ("STATE", lambda t: t["state"]),
    ("USED-BY", lambda t: t["used_by"] or "-"),
    ("EXPIRES", lambda t: t["expires_at"] or "-"),
]


@click.group("join-token")
def join_token() -> None:
    """Make, list and revoke tokens, with which agents get certificates by themselves."""


@join_token.command("create")
@click.option("--name", default="agent", show_default=True, help="What it is for.")
@click.option("--node", default="", help="The node's name, or a pattern with * and ?.  [default: any that no node has]")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of the node; may be repeated.")
@click.option("--host", "hosts", multiple=True, help="A host of the node that it does not call from; may be repeated.")
@click.option("--lasts", default="1h", show_default=True, metavar="TIME", help="When it ends; at most 366d.")
@click.option("-o", "--output", type=click.Choice(("text", "token", "json", "yaml")), default="text", show_default=True)
@click.pass_context
def create(
    ctx: click.Context, name: str, node: str, labels: tuple[str, ...], hosts: tuple[str, ...], lasts: str, output: str
) -> None:
    """Make a token for one agent, and print the command line of that agent, once.

    A token that names an existing node lets its agent join again. With -o token it prints the token alone, for a file.
    """
    wanted = dict(_pair(text) for text in labels)
    lasts_s = read_duration_s(lasts, "--lasts") or 0
    made = connect(ctx).create_join_token(name, int(lasts_s * 1000), node=node, labels=wanted, hosts=list(hosts))
    if output == "text":
        say(f"join token {made.token.id}, for one agent until its end: keep what follows, it cannot be shown again")
        emit(f"gosched-agent --master {made.address} --join {made.secret}")
    else:
        emit(made.secret if output == "token" else as_data(new_join_token_json(made), output))


@join_token.command("list")
@watch_option
@output_option
@click.pass_context
def list_tokens(ctx: click.Context, output: str, watch: bool) -> None:
    """List the tokens to join with that have not ended, and which nodes used them."""
    client = connect(ctx)
    print_listing(
        lambda: [join_token_json(token) for token in client.list_join_tokens()],
        _COLUMNS,
        output=output,
        watch=watch,
        noun="join token",
    )


@join_token.command("revoke")
@click.argument("id")
@click.pass_context
def revoke(ctx: click.Context, id: str) -> None:
    """End the token of this ID at once. A node that joined with it stays."""
    connect(ctx).revoke_join_token(id)
    say(f"join token {id} revoked")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--label: expected KEY=VALUE, got {text!r}")
    return key, value
