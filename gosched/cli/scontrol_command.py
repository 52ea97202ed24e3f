"""`goschedctl scontrol`: shows jobs, nodes and lists of nodes, and holds, releases and requeues jobs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import click

from gosched.api.job_query import JobQuery
from gosched.api.job_row import row_of
from gosched.cli.connect import connect
from gosched.cli.output import emit, say_error
from gosched.cli.slurm_lines import print_lines, read, slurm_command
from gosched.client import GoSchedClient, GoSchedError, Unavailable
from gosched.core.commands.jobs import Action
from gosched.integrations.slurm.hostlist import compressed, expanded
from gosched.integrations.slurm.node_lines import names_of
from gosched.integrations.slurm.query_options import SCONTROL
from gosched.integrations.slurm.queue import LIVE, Line, ids, is_shown, now_ms
from gosched.integrations.slurm.show_text import job_text, node_text

_ACTIONS = {
    "hold": Action.HOLD,
    "uhold": Action.HOLD,
    "release": Action.RELEASE,
    "suspend": Action.FREEZE,
    "resume": Action.RESUME,
    "requeue": Action.REQUEUE,
}
_KNOWN = "show job, show node, show hostnames, show hostlist, " + ", ".join(_ACTIONS)


@slurm_command("[OPTIONS] COMMAND [WORD...]")
def command(ctx: click.Context, /, words: tuple[str, ...]) -> int:
    """Show jobs and nodes, or hold, release, suspend, resume and requeue jobs, as Slurm's scontrol does.

    `show hostnames n[1-3]` prints a name on each line, of $SLURM_JOB_NODELIST where none is given; `show hostlist
    n1,n2` is the inverse. Neither asks a master. What scontrol would change otherwise is refused by name.

    \b
    Examples:
      goschedctl scontrol show hostnames 'n[1-3]'
      goschedctl scontrol show job j-1m89nj815z6yqxs9q
    """
    given, rest = read(SCONTROL, words, "scontrol")
    verb, *names = [*rest, ""]
    names = names[:-1] if names else []
    if verb == "show" and names:
        return _show(ctx, names[0], names[1:], one_line="oneliner" in given)
    if verb in _ACTIONS and names:
        return _act(connect(ctx), _ACTIONS[verb], names)
    what = " ".join(rest) or "nothing"
    raise click.UsageError(f"{what}: scontrol has {_KNOWN} here, each with names; goschedctl --help has the rest")


def _show(ctx: click.Context, what: str, names: Sequence[str], *, one_line: bool) -> int:
    match what:
        case "hostnames" | "hostname":
            print_lines(_hosts(names or [os.environ.get("SLURM_JOB_NODELIST", "")]))
            return 0
        case "hostlist" | "hostlistsorted":
            found = _hosts(names)
            emit(compressed(sorted(found, key=_numbered) if what == "hostlistsorted" else found))
            return 0
        case "job" | "jobs":
            return _show_jobs(connect(ctx), names, one_line=one_line)
        case "node" | "nodes":
            return _show_nodes(connect(ctx), names, one_line=one_line)
    raise click.UsageError(f"show {what}: scontrol has {_KNOWN} here; goschedctl --help has the rest")


def _hosts(lists: Sequence[str]) -> list[str]:
    try:
        found = [name for text in lists for name in expanded(text)]
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not found:
        raise click.UsageError("give a list of nodes, such as n[1-3]")
    return found


def _numbered(name: str) -> tuple[str, int, str]:
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0), name


def _show_jobs(client: GoSchedClient, names: Sequence[str], *, one_line: bool) -> int:
    jobs = _ids(names) or [row.id for page in client.job_rows(JobQuery(states=LIVE)) for row in page if is_shown(row)]
    nodes = names_of(client.list_nodes()) if jobs else {}

    def show(job: str) -> None:
        detail = client.get_job(job)
        wait = detail.explanation
        row = row_of(detail.job, wait_code=wait.code if wait else "", wait_message=wait.message if wait else "")
        on = dict.fromkeys(nodes.get(task.node_id, task.node_id) for task in detail.tasks if task.node_id)
        line = Line(row=row, nodes=tuple(on), now_ms=now_ms())
        emit(job_text(line, detail, one_line=one_line))

    return _each(jobs, show)


def _show_nodes(client: GoSchedClient, names: Sequence[str], *, one_line: bool) -> int:
    details = client.list_nodes()
    known = names_of(details)
    shown = {known[detail.node.id]: detail for detail in details}
    wanted = _hosts(names) if names else list(shown)
    if unknown := [name for name in wanted if name not in shown]:
        raise click.UsageError(f"{', '.join(unknown)}: no such node; goschedctl sinfo -N lists them")
    for name in wanted:
        emit(node_text(name, shown[name], one_line=one_line))
    return 0


def _act(client: GoSchedClient, action: Action, names: Sequence[str]) -> int:
    def act(job: str) -> None:
        client.control(job, action)

    return _each(_ids(names), act)


def _ids(names: Sequence[str]) -> list[str]:
    try:
        return ids([name.removeprefix("jobid=").removeprefix("JobId=") for name in names])
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _each(jobs: Sequence[str], act: Callable[[str], None]) -> int:
    """Do it to each job, and return the exit code of the first that failed."""
    code = 0
    for job in jobs:
        try:
            act(job)
        except Unavailable:
            raise
        except GoSchedError as error:
            say_error(job, error)
            code = code or error.exit_code
    return code
