"""`goschedctl cluster backup`, `backup-show` and `restore`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from gosched.cli.connect import connect
from gosched.cli.output import as_data, bytes_text, counted, emit, say, span, titled
from gosched.wire.backup_file import read_from, write_backup, write_to
from gosched.wire.backup_seal import BadBackup, read_secret

_PASSPHRASE = click.option("--passphrase-file", metavar="FILE", help="Encryption with the passphrase in FILE.")
_KEY = click.option("--key-file", metavar="FILE", help="Encryption with the key in FILE: 32 bytes, or 64 hex digits.")


@click.command("backup")
@click.argument("file")
@_PASSPHRASE
@_KEY
@click.pass_context
def backup(ctx: click.Context, file: str, passphrase_file: str | None, key_file: str | None) -> None:
    """Write a backup of the cluster's state to FILE, or to stdout with `-`.

    The backup is a consistent state that has everything acknowledged before; masters go on serving meanwhile. FILE
    exists only once the backup is complete.
    """
    try:
        secret = read_secret(passphrase_file, key_file)
        if file == "-" and sys.stdout.isatty():
            raise BadBackup("a backup is binary: name a file, or redirect stdout")
        info, chunks = connect(ctx).take_backup()
        if file == "-":
            write_to(sys.stdout.buffer, info, chunks, secret)
            sys.stdout.buffer.flush()
            size = ""
        else:
            size = f", {bytes_text(write_backup(Path(file), info, chunks, secret))}"
    except BadBackup as error:
        raise click.ClickException(str(error)) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror or error}") from error
    how = "encrypted" if secret else "not encrypted"
    say(
        f"{file}: revision {info.revision} of cluster {info.cluster_id or 'without an id'} by {info.master}, "
        f"{counted(info.jobs, 'job')}{size}, {how}"
    )


@click.command("backup-show")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_PASSPHRASE
@_KEY
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
def backup_show(file: Path, passphrase_file: str | None, key_file: str | None, output: str) -> None:
    """Read a whole backup, check it, and show what is in it."""
    from gosched.core.records.job import JobState
    from gosched.replication.disk.damage import DamagedLog
    from gosched.replication.snapshots.snapshot import decode, restored

    try:
        with file.open("rb") as source:
            found = read_from(source, read_secret(passphrase_file, key_file))
            state = restored(decode(b"".join(found.chunks())))
    except (BadBackup, DamagedLog) as error:
        raise click.ClickException(f"{file}: {error}") from error
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {error.strerror}") from error
    states = [job.state for job in state.jobs.values()]
    shown = {
        "file": str(file),
        "taken_at": found.info.taken_at,
        "release": found.info.release,
        "master": found.info.master,
        "cluster_id": state.cluster_id,
        "lineage": list(state.lineage),
        "revision": state.revision,
        "feature_level": state.feature_level,
        "encrypted": found.encrypted,
        "jobs": {one.name: states.count(one) for one in JobState if one in states},
        "tasks_running": len(state.allocations),
        "nodes": len(state.nodes),
        "queues": len(state.queues),
    }
    if output != "text":
        emit(as_data(shown, output))
        return
    jobs = ", ".join(f"{count} {name}" for name, count in shown["jobs"].items()) or "none"  # type: ignore[attr-defined]
    emit(
        titled(
            [
                ("Taken", f"{found.info.taken_at} ({span(found.info.age_s)} ago) by {found.info.master}"),
                ("Cluster", f"{state.cluster_id or 'without an id'}, revision {state.revision}"),
                ("Restored", f"from {', '.join(state.lineage)}" if state.lineage else ""),
                ("Release", f"{found.info.release}, feature level {state.feature_level}"),
                (
                    "Jobs",
                    f"{jobs}; {counted(len(state.allocations), 'task')} placed on {counted(len(state.nodes), 'node')}",
                ),
                ("Encrypted", "yes" if found.encrypted else "no"),
                ("Checked", "complete, and every record can be read"),
            ]
        )
    )


@click.command("restore", context_settings={"ignore_unknown_options": True})
@click.argument("file")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def restore(file: str, flags: tuple[str, ...]) -> None:
    """Fill a master's empty data directory from the backup FILE, as the start of a new cluster.

    Run this on the machine where that master will run: it executes `gosched-master --restore FILE FLAGS...`. FLAGS are
    the master's own: --config FILE or --data-dir DIR, --tasks adopt|lost, --new-cluster NAME (the same on all
    masters), --passphrase-file or --key-file. `gosched-master --help` lists them.
    """
    beside = Path(sys.executable).with_name("gosched-master")
    master = str(beside) if beside.exists() else shutil.which("gosched-master")
    if master is None:
        raise click.ClickException(
            "gosched-master is not installed here. A backup is restored on the machine where the master will run: "
            f"run gosched-master --restore {file} there"
        )
    os.execv(master, [master, "--restore", file, *flags])
