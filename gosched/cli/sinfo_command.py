"""`goschedctl sinfo`: nodes, in Slurm's columns."""

from __future__ import annotations

import click

from gosched.cli.connect import connect
from gosched.cli.slurm_lines import print_lines, read, slurm_command
from gosched.integrations.slurm.columns import by_letters, letters_of, lines
from gosched.integrations.slurm.hostlist import expanded
from gosched.integrations.slurm.node_lines import COLUMNS, DEFAULT, EACH, EACH_LONG, LONG, OF_ONE, groups, read_states
from gosched.integrations.slurm.query_options import SINFO


@slurm_command("[OPTIONS]")
def command(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """List nodes by their states, as Slurm's sinfo does; -N each on a line of its own.

    -o '%N %.6t %c' chooses columns by Slurm's letters, -h leaves out the titles; -n and -t choose nodes. There is one
    partition, all: queues share all nodes.

    \b
    Examples:
      goschedctl sinfo -N -l
      goschedctl sinfo -h -t idle -o '%N %c %m'
    """
    given, rest = read(SINFO, words, "sinfo")
    if rest:
        raise click.UsageError(f"{rest[0]!r} is no option")
    each = "Node" in given
    of_all = (EACH_LONG if each else LONG) if "long" in given else (EACH if each else DEFAULT)
    text = given.get("format") or of_all
    try:
        form = by_letters(text, COLUMNS, "sinfo")
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    wanted = set(given.read("nodes", expanded)) if "nodes" in given else set[str]()
    states = given.read("states", read_states) if "states" in given else set[str]()
    details = connect(ctx).list_nodes()
    found = groups(details, wanted, states, each=each or bool(letters_of(text) & OF_ONE))
    print_lines(lines(form, found, header="noheader" not in given))
