"""`goschedctl cluster upgrade-check`."""

from __future__ import annotations

import click

from gosched.api.status import MasterHealth
from gosched.cli.connect import connect
from gosched.cli.output import Column, as_data, emit, table
from gosched.client.errors import GoSchedError, Refused

_COLUMNS: list[Column] = [
    ("CHECK", lambda check: check["name"]),
    ("OK", lambda check: "yes" if check["ok"] else "NO"),
    ("DETAIL", lambda check: check["detail"]),
]


@click.command("upgrade-check")
@click.argument("version", required=False)
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.pass_context
def upgrade_check(ctx: click.Context, version: str | None, output: str) -> int:
    """Check whether the next master can be upgraded to VERSION. The exit code is 0 if so, 1 if not.

    Checks the masters' health, logs, clocks, releases (at most one apart), free disk space, and the feature level (the
    last upgrade is finished before the next one begins). Run it before each master.
    """
    from gosched.client.upgrade import BadVersion, upgrade_checks

    client = connect(ctx)
    status = client.get_status()
    healths: dict[str, MasterHealth | str] = {}
    for master in status.masters:
        try:
            healths[master.id] = client.master_health(master.grpc_address)
        except Refused:  # a master of the previous release does not know the call
            healths[master.id] = MasterHealth(id=master.id)
        except GoSchedError as error:
            healths[master.id] = str(error)
    try:
        checks = upgrade_checks(status, healths, version)
    except BadVersion as error:
        raise click.UsageError(str(error)) from error
    ok = all(check.ok for check in checks)
    rows = [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in checks]
    if output == "table":
        emit(table(rows, _COLUMNS))
    else:
        emit(as_data({"ok": ok, "checks": rows}, output))
    return 0 if ok else 1
