"""`goschedctl cluster`: members, leadership, snapshots, clock, feature level, backups and upgrades."""

from __future__ import annotations

import time

import click

from gosched.api.json.cluster import member_json
from gosched.api.json.values import time_json
from gosched.api.status import MasterMember
from gosched.cli.backup_commands import backup, backup_show, restore
from gosched.cli.connect import connect, output_option, read_duration_s, watch_option
from gosched.cli.output import Column, Json, print_listing, say
from gosched.cli.upgrade_commands import upgrade_check
from gosched.client import GoSchedClient, NotFound, Refused, Unavailable
from gosched.config.errors import suggestion

_LOOK_S = 0.5
_MEMBERS: list[Column] = [
    ("ID", lambda m: m["id"]),
    ("RAFT-ADDRESS", lambda m: m["address"] or "-"),
    ("ROLE", lambda m: m["role"]),
    ("HEALTHY", lambda m: "yes" if m["healthy"] else "no"),
    ("BEHIND", lambda m: "-" if m["behind"] is None else m["behind"]),
]
_WIDE: list[Column] = [("GRPC-ADDRESS", lambda m: m["grpc_address"] or "-")]


@click.group()
def command() -> None:
    """Manage the cluster as a whole: its masters, backups, upgrades and clock."""


@command.command("members")
@watch_option
@output_option
@click.pass_context
def members(ctx: click.Context, output: str, watch: bool) -> None:
    """List the masters that the replicated log names. BEHIND: log entries that a master has not acknowledged.

    A learner receives the log; it becomes a voter as soon as it has caught up.
    """
    client = connect(ctx)

    def fetch() -> list[Json]:
        return [member_json(member) for member in client.members()]

    print_listing(fetch, _MEMBERS, wide=_WIDE, output=output, watch=watch, noun="master")


@command.command("add-master")
@click.argument("member", metavar="ID")
@click.argument("address", metavar="HOST:PORT")
@click.option(
    "--timeout", metavar="DURATION", default="2m", show_default=True, help="How long to wait until it is a voter."
)
@click.pass_context
def add_master(ctx: click.Context, member: str, address: str, timeout: str) -> None:
    """Add a master whose replica listens at HOST:PORT, and wait until it is a voter.

    Start it first, with an empty data directory, its own raft.node_id, and at least one of the masters in raft.peers.
    No other master's config changes. If the command is interrupted, run it again: it continues.
    """
    client, ends, said = connect(ctx), _ends(timeout), ""
    while (now := _asked(client, member, address, ends)).role == "learner":
        behind = "has not answered yet" if now.behind is None else f"is {now.behind} entries behind"
        state = behind if now.healthy else "cannot be reached yet"
        if state != said:
            said = state
            say(f"{member} is a learner and {state}")
        if time.monotonic() > ends:
            raise Unavailable(
                f"{member} is no voter after {timeout}, it {state}: check that it runs and that the masters reach "
                f"{address}, then run this again; or remove it with: goschedctl cluster remove-master {member}"
            )
        time.sleep(_LOOK_S)
    say(f"{member} is a voter")


@command.command("remove-master")
@click.argument("member", metavar="ID")
@click.option("--timeout", metavar="DURATION", default="30s", show_default=True, help="How long to try.")
@click.pass_context
def remove_master(ctx: click.Context, member: str, timeout: str) -> None:
    """Remove a master, dead or alive. A running one stops by itself; a leader hands over the leadership first.

    To add it again later, empty its data directory.
    """
    client, ends = connect(ctx), _ends(timeout)
    while True:
        try:
            removed = client.remove_master(member)
            break
        except Unavailable:
            if time.monotonic() > ends:
                raise
    say(f"{member} is removed" if removed else f"{member} is not a master of this cluster")


@command.command("transfer-leader")
@click.pass_context
def transfer_leader(ctx: click.Context) -> None:
    """Let another master lead, before the leader's machine is worked on."""
    say(f"{connect(ctx).transfer_leadership()} leads now")


@command.command("snapshot")
@click.argument("members", nargs=-1, metavar="[ID]...")
@click.pass_context
def snapshot(ctx: click.Context, members: tuple[str, ...]) -> None:
    """Let masters store their state as a snapshot now, and shorten their logs: those with these IDs, or all.

    Each does so by itself every now and then. A backup is something else: goschedctl cluster backup.
    """
    client = connect(ctx)
    known = {master.id: master.grpc_address for master in client.get_status().masters}
    for member in members or sorted(known):
        if member not in known:
            raise NotFound(f"there is no master {member!a}{suggestion(member, known)}")
        say(f"{member} stores a snapshot, of revision {client.take_snapshot(known[member])} or later")


@command.command("log-level")
@click.argument("member", metavar="ID")
@click.argument("level", type=click.Choice(["debug", "info", "warning", "error"]))
@click.pass_context
def log_level(ctx: click.Context, member: str, level: str) -> None:
    """Change which lines a master logs, until it ends or its config is read again (SIGHUP)."""
    client = connect(ctx)
    masters = {master.id: master.grpc_address for master in client.get_status().masters}
    if member not in masters:
        raise Refused(f'there is no master "{member}"; there are: {", ".join(sorted(masters))}')
    if not masters[member]:
        raise Unavailable(f"{member} has not said yet where it listens: check that it runs, then try again")
    before = client.set_log_level(masters[member], level)
    say("unchanged" if before == level else f"{member} logs from {level} on; it was {before}")


command.add_command(backup)
command.add_command(backup_show)
command.add_command(restore)
command.add_command(upgrade_check)


@command.command("set-clock")
@click.pass_context
def set_clock(ctx: click.Context) -> None:
    """Set the state's clock back to the masters' clocks, if it is ahead of them (`goschedctl status` says so).

    Waits, timeouts and drains keep the time that they have left; deadlines and windows keep their date and time.
    """
    done = connect(ctx).set_clock()
    if done.unchanged:
        say("unchanged")
    else:
        say(f"the state's clock was set back from {time_json(done.from_ms)} to {time_json(done.to_ms)}")


@command.command("finalize-upgrade")
@click.pass_context
def finalize_upgrade(ctx: click.Context) -> None:
    """Enable the features of a new release, once all masters run it.

    Raises the cluster's feature level to the newest that every master knows. This cannot be undone: masters of the
    previous release cannot join any more.
    """
    raised = connect(ctx).finalize_upgrade()
    done = "the cluster is at feature level" if raised.unchanged else "the cluster is now at feature level"
    say(f"{done} {raised.feature_level}")


def _asked(client: GoSchedClient, member: str, address: str, ends: float) -> MasterMember:
    while True:
        try:
            return client.add_master(member, address)
        except Unavailable:
            if time.monotonic() > ends:
                raise


def _ends(timeout: str) -> float:
    return time.monotonic() + (read_duration_s(timeout, "--timeout") or 0.0)
