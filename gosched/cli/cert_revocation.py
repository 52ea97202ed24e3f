"""`goschedctl cert`: revoke, revoked, unrevoke. These ask a cluster, unlike the others."""

from __future__ import annotations

import re
from pathlib import Path

import click

from gosched.api.json.revocation import revocation_json
from gosched.cli.connect import connect, output_option, watch_option
from gosched.cli.output import Column, print_listing, say
from gosched.config.errors import ConfigError
from gosched.wire.serials import MAX_CERTIFICATE_BYTES, serial_in

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_COLUMNS: list[Column] = [
    ("SERIAL", lambda r: r["certificate"]),
    ("ROLE", lambda r: r["role"] or "-"),
    ("HOLDER", lambda r: r["holder"] or "-"),
    ("BY", lambda r: r["by"] or "-"),
    ("REVOKED", lambda r: r["revoked_at"] or "-"),
    ("ENDS", lambda r: r["ends_at"] or "-"),
    ("REASON", lambda r: r["reason"] or "-"),
]


@click.command("revoke")
@click.argument("certificate", metavar="FILE|SERIAL")
@click.option("--reason", default="", metavar="TEXT", help="Why, for who lists revoked certificates.")
@click.option("--force", is_flag=True, help="Also the certificate that this very command uses.")
@click.pass_context
def revoke(ctx: click.Context, certificate: str, reason: str, force: bool) -> None:
    """Have all masters refuse a certificate from now on.

    Give its file where you have it: masters then know whose it is, and when it ends. Otherwise its serial number in
    hex, as `goschedctl cert show` and OpenSSL print it. (A fingerprint is of the signature, too, of which whoever has
    the certificate can make a second valid form.)
    """
    done = connect(ctx).revoke_certificate(_target(certificate), reason=reason, force=force)
    found = done.revocation
    named = " ".join(filter(None, (found.role, found.holder, found.certificate)))
    say(f"{named}: {'was revoked before' if done.unchanged else 'revoked'}")
    if not found.holder:
        say("whose it is cannot be seen from the number: compare it with `goschedctl cert show FILE`")


@click.command("revoked")
@watch_option
@output_option
@click.pass_context
def revoked(ctx: click.Context, output: str, watch: bool) -> None:
    """List the revoked certificates that have not ended."""
    client = connect(ctx)
    print_listing(
        lambda: [revocation_json(one) for one in client.list_revocations()],
        _COLUMNS,
        output=output,
        watch=watch,
        noun="revoked certificate",
    )


@click.command("unrevoke")
@click.argument("certificate", metavar="FILE|SERIAL")
@click.pass_context
def unrevoke(ctx: click.Context, certificate: str) -> None:
    """Have masters take a certificate again that was revoked by mistake."""
    target = _target(certificate)
    if isinstance(target, bytes):
        from gosched.wire.serials import serial_of_pem

        target = serial_of_pem(target)
    connect(ctx).unrevoke_certificate(target)
    say(f"{target}: taken again")


def _target(text: str) -> bytes | str:
    """Return a certificate (PEM), without what else is in its file, or the serial number of one. Raises ConfigError."""
    if not Path(text).exists() and (serial := serial_in(text)):
        return serial
    try:
        with Path(text).open("rb") as file:
            found = _CERTIFICATE.search(file.read(MAX_CERTIFICATE_BYTES * 16))
    except OSError as error:
        hint = "or give a serial number, in hex"
        raise ConfigError(f"cannot read {text}: {error.strerror}; {hint}") from error
    if found is None:
        raise ConfigError(f"{text}: not a certificate in PEM form")
    return found[0] + b"\n"
