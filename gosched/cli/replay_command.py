"""`goschedctl replay`: plan a past cycle again from a master's files."""

from __future__ import annotations

from pathlib import Path

import click

from gosched.cli.output import Json, as_data, emit

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--data-dir", type=_FOLDER, help="Data directory of a master, or a copy; nothing is written to it.")
@click.option("--snapshot", type=_FILE, help="Instead: only the file raft/snapshot of a data directory.")
@click.option(
    "--revision",
    type=click.IntRange(0),
    help="Revision that the plan was made from.  [default: that of the newest plan]",
)
@click.option("--config", metavar="FILE", help="The master's config: algorithm, topology, scheduling.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(data_dir: Path | None, snapshot: Path | None, revision: int | None, config: str | None, output: str) -> int:
    """Plan a past cycle again, and compare the plan with the one that was committed then.

    The exit code is 1 if the log holds a different plan of that revision. Cycles that committed nothing are not in the
    log; they are planned at the time of the state's clock.
    """
    from gosched.config import load_master_settings
    from gosched.replication.backups.offline import NotInLog, past_of_log, past_of_snapshot
    from gosched.replication.disk.damage import DamagedLog
    from gosched.sim.cluster.policy import policy_of
    from gosched.sim.cluster.replay import replay
    from gosched.wire.batch import UnknownSchema

    if (data_dir is None) == (snapshot is None):
        raise click.UsageError("give one of --data-dir and --snapshot")
    policy = policy_of(load_master_settings(config, {}))
    try:
        past = (
            past_of_log(data_dir, revision) if data_dir is not None else past_of_snapshot(snapshot or Path(), revision)
        )
    except (NotInLog, DamagedLog, UnknownSchema, OSError) as error:
        raise click.ClickException(str(error)) from error
    found = replay(past, policy)
    emit(as_data(found, "json") if output == "json" else _text(found))
    return 1 if found["equal"] is False else 0


def _text(found: Json) -> str:
    verdict = {True: "the same as the committed one", False: "NOT the committed one", None: "none was committed"}
    lines = [
        f"revision {found['revision']}, epoch {found['epoch']}, planned at {found['planned_at_ms']}, "
        f"seed {found['seed']}: {verdict[found['equal']]}"
    ]
    for plan in found["plans"]:
        for gang in plan["gangs"]:
            nodes = sorted({task["node_id"] for task in gang["tasks"]})
            victims = [eviction["job_id"] for eviction in gang["evictions"]]
            evicts = f", evicts {', '.join(victims)}" if victims else ""
            name = found["names"].get(gang["job_id"], "")
            lines.append(f"start  {gang['job_id']} ({name}): {len(gang['tasks'])} tasks on {', '.join(nodes)}{evicts}")
        lines += [f"reserve  {r['job_id']}: start at {r['start_ms']}" for r in plan["reservations"]]
        lines += [f"withdraw  {job_id}" for job_id in plan["withdrawn"]]
    lines += [f"wait   {job_id}: {why['code']}: {why['message']}" for job_id, why in found["explanations"].items()]
    return "\n".join(lines)
