"""`goschedctl cert`: init, issue, renew, show, which work on files alone, and what asks a cluster
(`cert_revocation.py`)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from gosched.cli.cert_revocation import revoke, revoked, unrevoke
from gosched.cli.output import Json, as_data, emit, say
from gosched.config.errors import ConfigError

if TYPE_CHECKING:
    from gosched.cli.authority import Described

ROLES = ("master", "agent", "client")
_DAYS = click.IntRange(1, 36_500)


@click.group()
def command() -> None:
    """Make a certificate authority, and certificates for masters, agents and clients; revoke them."""


for _one in (revoke, revoked, unrevoke):
    command.add_command(_one)


@command.command("init")
@click.option("--dir", "folder", default=".", metavar="DIR", help="Where ca.pem and ca.key go.  [default: here]")
@click.option("--name", default="gosched", help="Name of the authority.  [default: gosched]")
@click.option("--days", type=_DAYS, default=3650, show_default=True, help="How long it is valid.")
def init(folder: str, name: str, days: int) -> None:
    """Make a certificate authority. Keep ca.key on a separate machine; programs need only ca.pem."""
    from gosched.cli.authority import make_authority
    from gosched.wire.signing import CA_CERT, CA_KEY

    make_authority(Path(folder), name, days)
    say(
        f"give {Path(folder) / CA_CERT} to all programs; keep {Path(folder) / CA_KEY} secret: it can sign as any master"
    )


@command.command("issue")
@click.argument("role", type=click.Choice(ROLES))
@click.argument("name")
@click.option(
    "--san",
    "names",
    multiple=True,
    metavar="HOST|ADDRESS",
    help="Name or address that it is reached by; may be repeated.",
)
@click.option("--group", "groups", multiple=True, help="A group of a user; may be repeated.")
@click.option("--cluster", default="", help="The cluster's id.  [default: any cluster that trusts the authority]")
@click.option("--dns", is_flag=True, help="Name the role in a DNS name, NAME.ROLE.gosched.internal, instead of a URI.")
@click.option("--days", type=_DAYS, default=365, show_default=True, help="How long it is valid.")
@click.option("--dir", "folder", default=".", metavar="DIR", help="Where ca.pem and ca.key are.  [default: here]")
@click.option("--out", metavar="DIR", help="Where NAME.pem and NAME.key go.  [default: beside ca.pem]")
def issue(
    role: str,
    name: str,
    names: tuple[str, ...],
    groups: tuple[str, ...],
    cluster: str,
    dns: bool,
    days: int,
    folder: str,
    out: str | None,
) -> None:
    """Make a certificate and its key.

    NAME is a master's raft.node_id, a node's host name or id ('*' for any node), or any name for a client. Masters and
    agents are servers, so their certificates need the names and addresses that they are reached by; the default is
    NAME. An agent with --dns needs none: masters identify it by its role.
    """
    from gosched.cli.authority import issue as issue_certificate
    from gosched.wire.roles import ANY_NODE, CertificateHolder, Role

    if role == "client" and names:
        raise click.UsageError("--san is for masters and agents: a client is no server")
    if groups and role != "client":
        raise click.UsageError("--group is for clients: roles are bound to users and their groups")
    if dns and cluster:
        raise click.UsageError("--cluster needs a role in a URI: a DNS name cannot hold the cluster's id")
    if role != "client" and not names and not (role == "agent" and dns):
        if name == ANY_NODE:
            raise click.UsageError("name the hosts of these agents with --san, or use --dns")
        names = (name,)
    where = Path(folder if out is None else out)
    file = "any" if name == ANY_NODE else quote(name, safe="")
    cert_file, key_file = where / f"{file}.pem", where / f"{file}.key"
    holder = CertificateHolder(cluster=cluster, role=Role(role), name=name, in_dns=dns)
    issue_certificate(Path(folder), holder, names, days, cert_file=cert_file, key_file=key_file, groups=groups)
    say(f"{cert_file} and {key_file}: tls: {{cert: {cert_file}, key: {key_file}, ca: {Path(folder) / 'ca.pem'}}}")


@command.command("renew")
@click.argument("file")
@click.option("--key", "key_file", metavar="FILE", help="Its key.  [default: FILE with the ending .key]")
@click.option("--days", type=_DAYS, help="How long it is valid.  [default: as long as before]")
@click.option("--dir", "folder", default=".", metavar="DIR", help="Where ca.pem and ca.key are.  [default: here]")
@click.option("--rotate", is_flag=True, help="Take a certificate that another authority signed.")
def renew(file: str, key_file: str | None, days: int | None, folder: str, rotate: bool) -> None:
    """Replace a certificate and its key by new ones.

    Holder, cluster and names stay. The key is replaced first, then the certificate; programs that use them take up both
    without a restart.
    """
    from gosched.cli.authority import renew as renew_certificate

    key = Path(key_file) if key_file else Path(file).with_suffix(".key")
    if not Path(file).exists() or not key.exists():
        missing = key if Path(file).exists() else file
        raise ConfigError(f"{missing} does not exist: `goschedctl cert issue` makes new certificates")
    ends = renew_certificate(Path(folder), Path(file), key, days, rotate=rotate)
    say(f"{file} and {key} are new, and valid until {ends:%Y-%m-%dT%H:%M:%SZ}")


@command.command("show")
@click.argument("file")
@click.option("--ca", metavar="FILE", help="Authorities: say which of them signed it.")
@click.option("-o", "--output", type=click.Choice(("text", "json", "yaml")), default="text", show_default=True)
def show(file: str, ca: str | None, output: str) -> None:
    """Show the certificates in a file: their roles, their names and when they expire."""
    from gosched.cli.authority import describe, signers

    shapes = [_shape(found) for found in describe(Path(file))]
    if ca is not None:
        for shape, signer in zip(shapes, signers(Path(file), Path(ca)), strict=True):
            shape["signed_by"] = signer
    if output == "text":
        emit("\n\n".join(_text(shape, ca or "") for shape in shapes))
    else:
        emit(as_data(shapes[0] if len(shapes) == 1 else shapes, output))


def _shape(found: Described) -> Json:
    holder = found.holder
    return {
        "role": "authority" if found.is_authority else holder.role.value if holder else None,
        "name": holder.name if holder else "",
        "cluster": holder.cluster if holder else "",
        "groups": list(found.groups),
        "problem": found.problem,
        "names": list(found.names),
        "subject": found.subject,
        "issuer": found.issuer,
        "id": found.id,
        "fingerprint": found.fingerprint,
        "serial": found.serial,
        "not_before": found.begins.isoformat(),
        "not_after": found.ends.isoformat(),
        "expired": found.ends < datetime.now(UTC),
        "days_left": (found.ends - datetime.now(UTC)).days,
    }


def _text(shape: Json, ca: str) -> str:
    signer = shape.get("signed_by")
    left = "expired" if shape["expired"] else f"in {shape['days_left']} days"
    rows = [
        ("role", shape["role"] or f"none: {shape['problem']}"),
        ("name", shape["name"]),
        ("groups", ", ".join(shape["groups"])),
        ("cluster", "" if shape["role"] == "authority" else shape["cluster"] or "any cluster that trusts the issuer"),
        ("names", ", ".join(shape["names"])),
        ("subject", shape["subject"]),
        ("issuer", shape["issuer"]),
        ("id", shape["id"]),
        ("serial", shape["serial"]),
        ("sha256", shape["fingerprint"]),
        ("signed by", "" if signer is None else signer or f"none of the authorities in {ca}"),
        ("begins", shape["not_before"]),
        ("ends", f"{shape['not_after']} ({left})"),
    ]
    return "\n".join(f"{title + ':':11}{value}" for title, value in rows if value)
