"""`goschedctl secret`: set, list, delete, rotate, new-key."""

from __future__ import annotations

import sys

import click

from gosched.api.json.secrets import rotation_json, secret_json
from gosched.cli.connect import connect, output_option, watch_option
from gosched.cli.output import Column, as_data, emit, print_listing, say
from gosched.config.errors import ConfigError
from gosched.core.limits import MAX_SECRET_VALUE_BYTES

_COLUMNS: list[Column] = [
    ("TENANT", lambda s: s["tenant"]),
    ("NAME", lambda s: s["name"]),
    ("VERSION", lambda s: str(s["version"])),
    ("KEY", lambda s: s["key_id"]),
    ("CHANGED", lambda s: s["changed_at"] or "-"),
    ("BY", lambda s: s["changed_by"] or "-"),
]
_tenant_option = click.option("--tenant", default="", help="The tenant, where SECRET names none.")


@click.group()
def command() -> None:
    """Set, list and delete secrets of tenants, which tasks get as files or variables."""


@command.command("set")
@click.argument("secret")
@_tenant_option
@click.option("--from-file", metavar="FILE", help="Where the value is; - is standard input.")
@click.pass_context
def set_secret(ctx: click.Context, secret: str, tenant: str, from_file: str | None) -> None:
    """Set SECRET, TENANT/NAME, or replace its value.

    The value is asked for on a terminal, without an echo, or taken from a file as it is, its last line end included. It
    is no argument: others would see it in the list of processes.
    """
    tenant, name = _named(secret, tenant)
    value = _prompted(f"{tenant}/{name}") if from_file is None else _read(from_file)
    version = connect(ctx).set_secret(tenant, name, value)
    say(f"secret {tenant}/{name} set, version {version}")


@command.command("list")
@click.option("--tenant", default="", help="Only those of this tenant.")
@watch_option
@output_option
@click.pass_context
def list_secrets(ctx: click.Context, tenant: str, output: str, watch: bool) -> None:
    """List the secrets that you may use in jobs, or set: their names, never their values."""
    client = connect(ctx)
    print_listing(
        lambda: [secret_json(secret) for secret in client.list_secrets(tenant)],
        _COLUMNS,
        output=output,
        watch=watch,
        noun="secret",
    )


@command.command("delete")
@click.argument("secret")
@_tenant_option
@click.pass_context
def delete(ctx: click.Context, secret: str, tenant: str) -> None:
    """Delete SECRET, TENANT/NAME. Running tasks keep it; those that start later fail."""
    tenant, name = _named(secret, tenant)
    connect(ctx).delete_secret(tenant, name)
    say(f"secret {tenant}/{name} deleted")


@command.command("rotate")
@click.option("-o", "--output", type=click.Choice(("text", "json", "yaml")), default="text", show_default=True)
@click.pass_context
def rotate(ctx: click.Context, output: str) -> None:
    """Seal all secrets with the first key of the masters' keyring, so that older keys can be removed from it."""
    done = connect(ctx).rotate_secrets()
    if output != "text":
        emit(as_data(rotation_json(done), output))
        return
    emit(f"all secrets are sealed with key {done.key_id}; {done.resealed} were sealed with another one before")


@command.command("new-key")
@click.argument("id")
def new_key(id: str) -> None:
    """Print a new key with this ID, such as 2026-07: a line for the keyring of the masters."""
    from gosched.wire.secret_keys import BadKeyring, new_key_line

    try:
        emit(new_key_line(id))
    except BadKeyring as error:
        raise ConfigError(str(error)) from None


def _named(secret: str, tenant: str) -> tuple[str, str]:
    """Return the tenant and the name. Raises ConfigError."""
    before, slash, name = secret.rpartition("/")
    if slash and tenant and before != tenant:
        raise ConfigError(f"{secret!a} is of tenant {before!a}, and --tenant says {tenant!a}")
    if not (before or tenant):
        raise ConfigError(f"{secret!a} names no tenant: write TENANT/{name}, or add --tenant TENANT")
    return before or tenant, name


def _prompted(what: str) -> bytes:
    """Return what is typed, without an echo. Raises ConfigError where there is no terminal."""
    if not sys.stdin.isatty():
        raise ConfigError("no terminal to ask for the value on: name a file with --from-file, or - for standard input")
    value: str = click.prompt(f"value of {what}", hide_input=True, err=True)
    return value.encode()


def _read(path: str) -> bytes:
    """Return the value in a file. Raises ConfigError."""
    limit = MAX_SECRET_VALUE_BYTES + 1
    try:
        if path == "-":
            value = sys.stdin.buffer.read(limit)
        else:
            with open(path, "rb") as file:
                value = file.read(limit)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    if not value or len(value) == limit:
        size = "is empty" if not value else f"has more than {MAX_SECRET_VALUE_BYTES} bytes"
        raise ConfigError(f"the value in {'standard input' if path == '-' else path} {size}")
    return value
