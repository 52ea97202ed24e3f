"""`goschedctl config`: the clusters that this user knows by name."""

from __future__ import annotations

from pathlib import Path

import click

from gosched.cli.connect import output_option
from gosched.cli.output import Column, Json, as_data, emit, print_listing, say
from gosched.config.context import KEYS, OIDC_KEYS, TLS_KEYS, ClientContext, folder
from gosched.config.contexts import Contexts, read_contexts, write_contexts
from gosched.config.errors import ConfigError, suggestion

_COLUMNS: list[Column] = [
    ("CURRENT", lambda context: "*" if context["current"] else None),
    ("NAME", lambda context: context["name"]),
    ("ENDPOINTS", lambda context: context["endpoints"]),
    ("TLS", lambda context: "yes" if context["tls_cert"] else "no"),
]
_WIDE: list[Column] = [
    (key.upper().replace("_", "-"), lambda context, key=key: context[key])  # type: ignore[misc]
    for key in (*TLS_KEYS, *OIDC_KEYS)
]


def file() -> Path:
    return folder() / "config.yaml"


@click.command("get-contexts")
@output_option
def get_contexts(output: str) -> None:
    """List the contexts; * is the current one."""
    print_listing(lambda: _shapes(read_contexts(file())), _COLUMNS, wide=_WIDE, output=output, noun="context")


@click.command("current-context")
def current_context() -> int:
    """Print the name of the current context."""
    current = read_contexts(file()).current
    if not current:
        say("goschedctl: no context is the current one: choose one with goschedctl config use-context NAME")
        return 1
    emit(current)
    return 0


@click.command("use-context")
@click.argument("name")
def use_context(name: str) -> None:
    """Make a context the current one: commands talk to its cluster, unless a flag or the environment names another."""
    contexts = read_contexts(file())
    _check(name, contexts)
    write_contexts(file(), Contexts(name, contexts.named))
    say(f"{name} is the current context")


@click.command("set-context")
@click.argument("name")
@click.option("--tls-cert", metavar="FILE", help="PEM file of your certificate.")
@click.option("--tls-key", metavar="FILE", help="PEM file of its key.")
@click.option("--tls-ca", metavar="FILE", help="PEM file of the authority.")
@click.option("--token-file", metavar="FILE", help="File with a token, in the place of a certificate.")
@click.option("--oidc-issuer", metavar="URL", help="The issuer that `goschedctl login` asks.")
@click.option("--oidc-client-id", metavar="ID", help="Its name for this program.")
@click.option("--use", is_flag=True, help="Make it the current context, too.")
@click.pass_context
def set_context(ctx: click.Context, /, name: str, use: bool, **values: str | None) -> None:
    """Add a context, or change what is given of one. The first one becomes the current one.

    Its masters are those of --endpoints. An empty value ("") removes a key. The TLS files are checked.

    \b
      goschedctl config set-context prod --endpoints m1:9090,m2:9090,m3:9090 \\
          --tls-cert alice.pem --tls-key alice.key --tls-ca ca.pem
    """
    from gosched.config.validation import name as checked_name

    contexts = read_contexts(file())
    try:
        checked_name(name)
    except ValueError as error:
        raise click.UsageError(f"the name of a context: {error}") from error
    values["endpoints"] = ctx.find_root().params["endpoints"]
    keys = dict(contexts.named.get(name, {}))
    for key, value in values.items():
        if value is not None:
            keys[key] = str(Path(value).expanduser().resolve()) if value and key in (*TLS_KEYS, "token_file") else value
    _check_keys(name, keys := {key: keys[key] for key in KEYS if keys.get(key)})
    current = name if use or not contexts.current else contexts.current
    write_contexts(file(), Contexts(current, {**contexts.named, name: keys}))
    say(f"context {name} is {'changed' if name in contexts.named else 'added'}{', and current' * (current == name)}")


@click.command("delete-context")
@click.argument("name")
def delete_context(name: str) -> None:
    """Delete a context and its login; its certificates stay where they are."""
    from gosched.identity.tokens import forget_login, login_file

    contexts = read_contexts(file())
    _check(name, contexts)
    left = {other: keys for other, keys in contexts.named.items() if other != name}
    write_contexts(file(), Contexts("" if contexts.current == name else contexts.current, left))
    forget_login(login_file(ClientContext(endpoints="", name=name)))  # not for another cluster of that name
    say(f"context {name} is deleted")


def view_contexts(output: str) -> None:
    """Print the file, and where it is."""
    contexts = read_contexts(file())
    named = {name: dict(keys) for name, keys in contexts.named.items()}
    shape = {"file": str(file()), "current_context": contexts.current, "contexts": named}
    emit(as_data(shape, "json" if output == "json" else "yaml"))


def _shapes(contexts: Contexts) -> list[Json]:
    return [
        {"id": name, "name": name, "current": name == contexts.current, **{key: keys.get(key, "") for key in KEYS}}
        for name, keys in contexts.named.items()
    ]


def _check(name: str, contexts: Contexts) -> None:
    if name not in contexts.named:
        hint = suggestion(name, contexts.named) or "; see goschedctl config get-contexts"
        raise ConfigError(f'there is no context "{name}"{hint}')


def _check_keys(name: str, keys: dict[str, str]) -> None:
    """Check that a client could use these keys. Raises ConfigError, Misused."""
    from gosched.client.targets import endpoint_list
    from gosched.wire.roles import BadCertificate
    from gosched.wire.tls_files import check_files

    if not keys.get("endpoints"):
        raise click.UsageError(f"context {name} names no masters: give --endpoints HOST:PORT,...")
    endpoint_list(keys["endpoints"])
    if issuer := keys.get("oidc_issuer"):
        from gosched.config.oidc_model import issuer_url

        try:
            issuer_url(issuer)
        except ValueError as error:
            raise click.UsageError(f"--oidc-issuer: {error}") from error
    given = [key for key in TLS_KEYS if key in keys]
    if given == ["tls_ca"] and (keys.get("token_file") or keys.get("oidc_issuer")):
        return
    if given and len(given) < len(TLS_KEYS):
        missing = next(key for key in TLS_KEYS if key not in given)
        raise click.UsageError(f"TLS needs a certificate, a key and a CA: give --{missing.replace('_', '-')}, too")
    if given:
        try:
            check_files(*(keys[key] for key in TLS_KEYS))
        except BadCertificate as error:
            raise ConfigError(str(error)) from error
