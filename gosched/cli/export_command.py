"""`goschedctl export`: files of gosched as other schedulers' own."""

from __future__ import annotations

import click

from gosched.cli.import_notes import notes_json, say_notes
from gosched.cli.output import as_data, counted, emit, say


@click.group()
def command() -> None:
    """Make files of other schedulers out of files of gosched. Nothing is applied."""


@command.command("pod")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", show_default=True)
def pod(file: str, output: str) -> None:
    """Print the jobs of FILE, a job file, as pods that gosched-kube places: one for each task.

    The tasks of a job are a gang by a PodGroup of the scheduler-plugins; a PriorityClass stands for its priority. On
    stderr is a line for each key that pods have no equivalent of; -o json prints a List, and `notes` beside it.

    \b
      goschedctl export pod job.yaml | kubectl apply --dry-run=server -f -
    """
    from gosched.cli.job_input import read_job_file
    from gosched.config.jobs.jobfile import parse_job_file
    from gosched.integrations.kube_objects.job_export import export_jobs

    jobs = parse_job_file(*read_job_file(file))
    found = export_jobs(jobs)
    if output == "json":
        emit(
            as_data(
                {"apiVersion": "v1", "kind": "List", "items": [*found.objects], "notes": notes_json(found.notes)},
                "json",
            )
        )
        return
    emit("\n---\n".join([as_data(each, "yaml") for each in found.objects]))
    say_notes(found.notes)
    pods = [each for each in found.objects if each["kind"] == "Pod"]
    say(f"{counted(len(jobs), 'job')}, {counted(len(pods), 'pod')}, {counted(len(found.notes), 'note')}")
