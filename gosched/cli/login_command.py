"""`goschedctl login`: a code to type in a browser, and the tokens that come of it."""

from __future__ import annotations

import time

import click

from gosched.cli.connect import client_context
from gosched.cli.output import say, span
from gosched.config.errors import ConfigError


@click.command()
@click.option("--issuer", metavar="URL", help="The issuer; by default that of the context (oidc_issuer).")
@click.option("--client-id", metavar="ID", help="Its name for this program; by default oidc_client_id.")
@click.option(
    "--scopes", metavar="SCOPE,...", default="", help="What is asked for; by default what names and groups need."
)
@click.option("--access-token", is_flag=True, help="Show masters the access token, not the ID token.")
@click.pass_context
def command(ctx: click.Context, issuer: str | None, client_id: str | None, scopes: str, access_token: bool) -> None:
    """Log in at the cluster's OpenID Connect issuer, in a browser on any device.

    It prints a URL and a code, and waits until the code is confirmed there. The login is kept for the context, readable
    by you alone, and renewed by itself while the issuer allows it; `goschedctl logout` ends it.
    """
    from gosched.config.oidc_model import issuer_url
    from gosched.identity.device_login import begin, discover, wait
    from gosched.identity.fetching import trust_of
    from gosched.identity.token_endpoint import LoginFailed
    from gosched.identity.tokens import LoginEnded, login_file, login_from, write_login
    from gosched.wire.http_exchange import Unreachable

    context = client_context(ctx)
    issuer, client_id = issuer or context.oidc_issuer, client_id or context.oidc_client_id
    if not issuer or not client_id:
        missing = ("--issuer", "oidc_issuer") if not issuer else ("--client-id", "oidc_client_id")
        raise ConfigError(f"nothing says where to log in: give {missing[0]}, or set {missing[1]} in the context")
    try:
        issuer_url(issuer)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    trust = trust_of(None)
    try:
        found = discover(issuer, trust)
        code = begin(found, client_id, trust, " ".join(scopes.replace(",", " ").split()))
        say(f"Open {code.url} in a browser on any device, and enter the code {code.user_code}")
        if code.whole_url:
            say(f"or open {code.whole_url}")
        grant = wait(found, client_id, code, trust)
        login = login_from(grant, issuer, client_id, shows_access_token=access_token)
    except (LoginFailed, LoginEnded, Unreachable) as error:
        raise click.ClickException(str(error)) from error
    write_login(login_file(context), login)
    left = span(max(0.0, login.expires_ms / 1000 - time.time()))
    renewed = ", and is renewed by itself" if login.refresh_token else ": then log in again"
    say(f"You are logged in; the token lasts {left}{renewed}")
