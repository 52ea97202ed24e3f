"""`goschedctl logout`: the login of a context is removed here, and at the issuer."""

from __future__ import annotations

import click

from gosched.cli.connect import client_context
from gosched.cli.output import say


@click.command()
@click.pass_context
def command(ctx: click.Context) -> None:
    """Forget the login.

    The tokens are removed from this machine, and the issuer is told that they are not used any more, where it has an
    endpoint for that. A token that somebody has copied is valid until it ends.
    """
    from gosched.config.errors import ConfigError
    from gosched.identity.device_login import discover, revoke
    from gosched.identity.fetching import trust_of
    from gosched.identity.token_endpoint import LoginFailed
    from gosched.identity.tokens import forget_login, login_file, read_login
    from gosched.wire.http_exchange import Unreachable

    file = login_file(client_context(ctx))
    try:
        login = read_login(file)
    except ConfigError:  # a file that cannot be read is removed all the same
        forget_login(file)
        raise
    if login is None:
        say("you are not logged in")
        return
    forget_login(file)
    if login.refresh_token:
        try:
            trust = trust_of(None)
            found = discover(login.issuer, trust)
            if found.revocation_endpoint:
                revoke(found, login.client_id, login.refresh_token, trust)
        except (LoginFailed, Unreachable) as error:
            say(f"warning: the issuer could not be told: {error}")
    say("You are logged out")
