"""`goschedctl import yarn-queues`."""

from __future__ import annotations

import sys

import click

from gosched.cli.import_notes import notes_json, say_notes
from gosched.cli.output import as_data, counted, emit, say


@click.command("yarn-queues")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", show_default=True)
def yarn_queues(file: str, output: str) -> None:
    """Print the queues of FILE, YARN's capacity-scheduler.xml or fair-scheduler.xml, as `queue apply` reads them.

    On stderr is a line for each setting that has no equivalent, or not quite the same one, with what to do instead; -o
    json has these as `notes`. Then try it, with `goschedctl config validate` and `goschedctl queue apply --dry-run`:

    \b
      goschedctl import yarn-queues capacity-scheduler.xml > queues.yaml
    """
    from gosched.config.files import read_file
    from gosched.config.queue_writer import queues_keys
    from gosched.integrations.yarn.queues import read_queues

    content = sys.stdin.buffer.read() if file == "-" else read_file(file, what="queues")
    found = read_queues(content, "standard input" if file == "-" else file)
    keys = queues_keys(found.queues)
    if output == "json":
        emit(as_data({**keys, "notes": notes_json(found.notes)}, "json"))
        return
    emit(as_data(keys, "yaml"))
    say_notes(found.notes)
    say(f"{counted(len(found.queues), 'queue')}, {counted(len(found.notes), 'note')}")
    say(
        "YARN evicts only where its site file says so (scheduler.monitor.enable, fair.preemption); here queues take "
        "back what they are guaranteed, unless they have preemption: never"
    )
